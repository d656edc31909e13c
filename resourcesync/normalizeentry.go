package resourcesync

import (
	"slices"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/schema"
)

// normalizeEntry converts an entry to what is allowed in a document of its
// kind, and marks it as bad if it is unusable.
func (r *Reader) normalizeEntry(e *Entry) {
	d := &r.draft
	if d.seen&(schema.ItemModified|schema.ItemETag) != 0 {
		r.legacyMetadata(e)
	}
	d.has |= d.seen &^ (schema.ItemModified | schema.ItemETag)
	if bad := d.has &^ (r.rule.Must | r.rule.May); bad != 0 {
		r.forbidden(e, bad)
	}
	if lacks := r.rule.Must &^ d.has; lacks != 0 {
		if lacks&schema.ItemChange != 0 {
			e.Change = UnknownChange
		}
		r.lacking(lacks)
	}
	if e.Change == Deleted && d.has&(schema.ItemContent|schema.ItemPath) != 0 {
		r.warn("RS-CHL-08", "a deleted resource with "+(d.has&(schema.ItemContent|schema.ItemPath)).String()+", ignored")
		r.drop(e, schema.ItemContent|schema.ItemPath)
	}
	if !e.Completed.IsZero() && e.Completed.Compare(e.At) < 0 {
		r.warn("RS-MD-05", "completed is before at in an entry, and ignored")
		e.Completed = Datetime{}
	}
	if !e.Until.IsZero() && e.Until.Compare(e.From) < 0 {
		r.warn("RS-MD-10", "until is before from in an entry, and taken to be the same")
		e.Until = e.From
	}
	if len(d.links) > 0 {
		r.normalizeEntryLinks()
	}
	if r.kind == schema.CapabilityList && e.Capability != "" {
		r.listOnce(e.Capability)
	}
}

// listOnce rejects the current entry if its capability was listed before.
func (r *Reader) listOnce(c Capability) {
	const most, longest = 100, 100 // a document may list new and long ones without end
	switch {
	case slices.Contains(r.listed, c):
		r.warn("RS-CL-02", "capability "+xmlscan.Clip(string(c))+" is listed twice; the second entry is skipped")
		r.draft.bad = true
	case len(r.listed) < most && len(c) <= longest:
		r.listed = append(r.listed, c)
	}
}

// forbidden removes items that are not allowed in an entry of this kind of
// document, unless an older version gave them a meaning.
func (r *Reader) forbidden(e *Entry, bad schema.Item) {
	if r.rule.May&schema.ItemAt != 0 && bad&schema.ItemFrom != 0 { // RS-VER-07, of a part
		r.warn("RS-VER-07", "from of a part, which is at now")
		if e.At.IsZero() {
			e.At = e.From
		}
		if e.Completed.IsZero() {
			e.Completed = e.Until
		}
		r.draft.has |= schema.ItemAt
		r.drop(e, schema.ItemFrom|schema.ItemUntil)
		bad &^= schema.ItemFrom | schema.ItemUntil
	}
	for i := range bad.Each() {
		r.warn("RS-MD-12", i.String()+" in an entry of a document of this kind, ignored")
	}
	r.drop(e, bad)
}

// lacking warns of required items that an entry lacks.
func (r *Reader) lacking(lacks schema.Item) {
	switch {
	case lacks&schema.ItemChange != 0:
		r.warn("RS-EM-02", "an entry that does not say what changed: its loc shows whether the resource is still there")
	case lacks&schema.ItemCapability != 0 && r.kind == schema.Description:
		r.warn("RS-AMB-01", "an entry of a Source Description without capability")
	case lacks&schema.ItemCapability != 0:
		r.warn("RS-CL-06", "an entry of a Capability List without capability")
	case lacks&schema.ItemPath != 0:
		r.warn("RS-RDM-03", "an entry of a manifest without path")
	}
}

// drop removes items from an entry.
func (r *Reader) drop(e *Entry, items schema.Item) {
	d := &r.draft
	m := &e.Metadata
	d.has &^= items
	if items&schema.ItemLastmod != 0 {
		e.Lastmod = Datetime{}
	}
	if items&schema.ItemChangeFreq != 0 {
		e.ChangeFreq = ""
	}
	if items&schema.ItemCapability != 0 {
		m.Capability = ""
	}
	if items&schema.ItemChange != 0 {
		m.Change = 0
	}
	for _, t := range []struct {
		item schema.Item
		at   *Datetime
	}{{schema.ItemDatetime, &m.Datetime}, {schema.ItemAt, &m.At}, {schema.ItemCompleted, &m.Completed}, {schema.ItemFrom, &m.From}, {schema.ItemUntil, &m.Until}} {
		if items&t.item != 0 {
			*t.at = Datetime{}
		}
	}
	if items&schema.ItemHash != 0 {
		for i := range d.hashes {
			if d.hashes[i].owner < 0 {
				d.hashes[i].algorithm = 0
			}
		}
	}
	if items&schema.ItemLength != 0 {
		m.Length, m.HasLength = 0, false
	}
	if items&schema.ItemType != 0 {
		m.Type = ""
	}
	if items&schema.ItemEncoding != 0 {
		m.Encoding = ""
	}
	if items&schema.ItemPath != 0 {
		d.path = span{}
	}
}

// normalizeEntryLinks removes links that are not allowed in this kind of
// document.
func (r *Reader) normalizeEntryLinks() {
	d := &r.draft
	allowed := r.rule.Must | r.rule.May
	manifest := r.kind == schema.ResourceManifest || r.kind == schema.ChangeManifest || r.kind == schema.Unknown
	for i := range d.links {
		l := &d.links[i]
		// up, index and archives belong to the root; there is no warning for a plain
		// entry.
		if bad := schema.LinkItem(l.Rel) &^ allowed; bad != 0 {
			r.warn("RS-LN-04", "a "+bad.String()+" in an entry of a document of this kind, ignored")
			l.Rel = ""
		}
		if l.path != (span{}) && !manifest {
			r.warn("RS-PATH-01", "a link with path outside a manifest; the path is ignored")
			l.path = span{}
		}
	}
}
