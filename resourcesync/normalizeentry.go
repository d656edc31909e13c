package resourcesync

import (
	"slices"

	"lockstep/internal/xmlscan"
)

// normalizeEntry converts an entry to what is allowed in a document of its
// kind, and marks it as bad if it is unusable.
func (r *Reader) normalizeEntry(e *Entry) {
	d := &r.draft
	if d.seen&(itemModified|itemETag) != 0 {
		r.legacyMetadata(e)
	}
	d.has |= d.seen &^ (itemModified | itemETag)
	if bad := d.has &^ (r.rule.must | r.rule.may); bad != 0 {
		r.forbidden(e, bad)
	}
	if lacks := r.rule.must &^ d.has; lacks != 0 {
		if lacks&itemChange != 0 {
			e.Change = UnknownChange
		}
		r.lacking(lacks)
	}
	if e.Change == Deleted && d.has&(itemContent|itemPath) != 0 {
		r.warn("RS-CHL-08", "a deleted resource with "+(d.has&(itemContent|itemPath)).String()+", ignored")
		r.drop(e, itemContent|itemPath)
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
	if r.kind == kindCapabilityList && e.Capability != "" {
		r.listOnce(e.Capability)
	}
}

// listOnce rejects the current entry if its capability was listed before.
func (r *Reader) listOnce(c Capability) {
	const most = 100 // a document may list new ones without end
	switch {
	case slices.Contains(r.listed, c):
		r.warn("RS-CL-02", "capability "+xmlscan.Clip(string(c))+" is listed twice; the second entry is skipped")
		r.draft.bad = true
	case len(r.listed) < most:
		r.listed = append(r.listed, c)
	}
}

// forbidden removes items that are not allowed in an entry of this kind of
// document, unless an older version gave them a meaning.
func (r *Reader) forbidden(e *Entry, bad item) {
	if r.rule.may&itemAt != 0 && bad&itemFrom != 0 { // RS-VER-07, of a part
		r.warn("RS-VER-07", "from of a part, which is at now")
		if e.At.IsZero() {
			e.At = e.From
		}
		if e.Completed.IsZero() {
			e.Completed = e.Until
		}
		r.draft.has |= itemAt
		r.drop(e, itemFrom|itemUntil)
		bad &^= itemFrom | itemUntil
	}
	for _, n := range itemNames {
		if bad&n.item != 0 {
			r.warn("RS-MD-12", n.name+" in an entry of a document of this kind, ignored")
		}
	}
	r.drop(e, bad)
}

// lacking warns of required items that an entry lacks.
func (r *Reader) lacking(lacks item) {
	switch {
	case lacks&itemChange != 0:
		r.warn("RS-EM-02", "an entry that does not say what changed: its loc shows whether the resource is still there")
	case lacks&itemCapability != 0 && r.kind == kindDescription:
		r.warn("RS-AMB-01", "an entry of a Source Description without capability")
	case lacks&itemCapability != 0:
		r.warn("RS-CL-06", "an entry of a Capability List without capability")
	case lacks&itemPath != 0:
		r.warn("RS-RDM-03", "an entry of a manifest without path")
	}
}

// drop removes items from an entry.
func (r *Reader) drop(e *Entry, items item) {
	d := &r.draft
	m := &e.Metadata
	d.has &^= items
	if items&itemLastmod != 0 {
		e.Lastmod = Datetime{}
	}
	if items&itemChangeFreq != 0 {
		e.ChangeFreq = ""
	}
	if items&itemCapability != 0 {
		m.Capability = ""
	}
	if items&itemChange != 0 {
		m.Change = 0
	}
	for _, t := range []struct {
		item item
		at   *Datetime
	}{{itemDatetime, &m.Datetime}, {itemAt, &m.At}, {itemCompleted, &m.Completed}, {itemFrom, &m.From}, {itemUntil, &m.Until}} {
		if items&t.item != 0 {
			*t.at = Datetime{}
		}
	}
	if items&itemHash != 0 {
		for i := range d.hashes {
			if d.hashes[i].owner < 0 {
				d.hashes[i].algorithm = 0
			}
		}
	}
	if items&itemLength != 0 {
		m.Length, m.HasLength = 0, false
	}
	if items&itemType != 0 {
		m.Type = ""
	}
	if items&itemEncoding != 0 {
		m.Encoding = ""
	}
	if items&itemPath != 0 {
		d.path = span{}
	}
}

// normalizeEntryLinks removes links that are not allowed in this kind of
// document.
func (r *Reader) normalizeEntryLinks() {
	d := &r.draft
	allowed := r.rule.must | r.rule.may
	manifest := r.kind == kindResourceManifest || r.kind == kindChangeManifest || r.kind == kindUnknown
	for i := range d.links {
		l := &d.links[i]
		// up, index and archives belong to the root; there is no warning for a plain
		// entry.
		if bad := relationItem(l.Rel) &^ allowed; bad != 0 {
			r.warn("RS-LN-04", "a "+bad.String()+" in an entry of a document of this kind, ignored")
			l.Rel = ""
		}
		if l.path != (span{}) && !manifest {
			r.warn("RS-PATH-01", "a link with path outside a manifest; the path is ignored")
			l.path = span{}
		}
	}
}
