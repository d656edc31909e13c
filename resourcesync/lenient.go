package resourcesync

import (
	"slices"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/schema"
)

// The dialects that the Reader distinguishes, the oldest first (RS-VER-19).
const (
	dialectAlpha   = "0.1"      // August 2012 and the drafts around it
	dialectPreBeta = "pre-beta" // as printed in D-Lib, November 2012 to January 2013
	dialectBeta    = "0.5"      // February to May 2013
	dialect09      = "0.9"      // June 2013
)

var dialects = []string{dialectAlpha, dialectPreBeta, dialectBeta, dialect09}

// dialect records that a feature of a dialect was found.
func (r *Reader) dialect(d string) {
	if r.root.dialect == "" || slices.Index(dialects, d) < slices.Index(dialects, r.root.dialect) {
		r.root.dialect = d
	}
}

// A root is the content of the document's root before older versions of the
// standard are converted to the current form.
type root struct {
	index     bool
	space     xmlscan.Space
	preBeta   bool
	draft     bool
	alphaType string // rs:type of the root
	dialect   string

	manifests  bool // an index of manifests within a package (RS-RDM-06)
	seenMD     bool
	capability string
	times      Metadata // only its times are used
	modified   Datetime
	has        schema.Item
	links      []Link
	text       int // bytes stored of links

	reported map[string]bool // messages that normalize has already reported
}

// normalize converts r.root to r.header: table 25.3. It runs at the first entry
// and, since more may follow the entries, at the end.
func (r *Reader) normalize(atEnd bool) {
	in := &r.root
	h := Header{Index: in.index, Modified: in.modified}
	r.normalizeCapability(&h)
	r.kind = schema.KindOf(h.Capability, h.Index)
	r.rule = r.kind.Rule()
	legacyUp := r.normalizeLinks(&h)
	switch {
	case r.kind.Snapshot():
		r.normalizeSnapshot(&h)
	case r.kind.Interval():
		r.normalizeInterval(&h, legacyUp)
	case r.kind == schema.Unknown:
		h.At, h.Completed, h.From, h.Until = in.times.At, in.times.Completed, in.times.From, in.times.Until
	default:
		r.forbiddenTimes(in.has & (schema.ItemAt | schema.ItemCompleted | schema.ItemFrom | schema.ItemUntil))
	}
	if !h.Completed.IsZero() && h.Completed.Compare(h.At) < 0 {
		r.rootWarn("RS-MD-05", "completed is before at, and ignored")
		h.Completed = Datetime{}
	}
	if !h.Until.IsZero() && h.Until.Compare(h.From) < 0 {
		r.rootWarn("RS-MD-10", "until is before from, and taken to be the same")
		h.Until = h.From
	}
	if atEnd {
		r.normalizeEnd(&h)
	}
	h.Dialect = in.dialect
	r.header = h
}

// normalizeCapability determines the kind of the document.
func (r *Reader) normalizeCapability(h *Header) {
	in := &r.root
	h.Capability = Capability(in.capability)
	switch {
	case in.capability == "resourcesync":
		r.rootWarn("RS-VER-02", "capability resourcesync, which is description now")
		h.Capability = Description
		r.dialect(dialect09)
	case in.capability == string(CapabilityList) && in.index:
		r.rootWarn("RS-VER-16", "an index of Capability Lists, read as a Source Description")
		h.Capability, h.Index = Description, false
		r.dialect(dialectBeta)
	case in.index && (in.capability == string(ResourceDumpManifest) || in.capability == string(ChangeDumpManifest)):
		r.rootWarn("RS-VER-18", "a manifest in parts, as in version 0.5")
		r.dialect(dialectBeta)
		h.Capability = Capability(in.capability)
		in.manifests = true
		return
	case in.capability == "" && in.alphaType == "changeset":
		r.rootWarn("RS-VER-15", "rs:type changeset, which is capability changelist now")
		h.Capability = ChangeList
	case in.capability == "" && in.alphaType != "":
		r.rootWarn("RS-VER-15", "rs:type at the root, where capability is expected now")
	case in.capability == "" && in.seenMD:
		r.rootWarn("RS-MD-01", "the rs:md of the document has no capability")
	}
	switch {
	case h.Capability == "" || schema.KindOf(h.Capability, h.Index) != schema.Unknown:
	case schema.KindOf(h.Capability, false) != schema.Unknown:
		r.rootNote("RS-GEN-04", "a sitemapindex with capability "+string(h.Capability)+", of which there are no indexes")
	default:
		r.rootNote("RS-GEN-06", "unknown capability "+xmlscan.Clip(string(h.Capability)))
	}
}

// normalizeLinks converts the root's links to current relations. It reports
// whether one of them had to be renamed.
func (r *Reader) normalizeLinks(h *Header) (legacyUp bool) {
	for _, l := range r.root.links {
		switch l.Rel {
		case "top":
			r.rootWarn("RS-VER-03", "link top, which is up now")
			r.dialect(dialectPreBeta)
			legacyUp = true
		case "resourcesync":
			r.rootWarn("RS-VER-04", "link resourcesync, which is up now")
			r.dialect(dialect09)
			legacyUp = true
		}
	}
	allowed, up := r.rule.RootMust|r.rule.RootMay, false
	for _, l := range r.root.links {
		switch {
		case l.Rel == "top", l.Rel == "resourcesync":
			l.Rel = RelUp
		case l.Rel == RelUp && legacyUp:
			r.rootWarn("RS-VER-05", "link up beside top or resourcesync, which is index now")
			l.Rel = RelIndex
		}
		if bad := schema.LinkItem(l.Rel) &^ (allowed | schema.LinkUp | schema.LinkIndex); bad != 0 {
			r.rootWarn("RS-LN-04", "a "+bad.String()+" at the root of a document of this kind, ignored")
			continue
		}
		up = up || l.Rel == RelUp
		h.Links = append(h.Links, l)
	}
	if !up && r.rule.RootMust&schema.LinkUp != 0 {
		r.rootWarn("RS-AMB-03", "the document has no link up")
	}
	return legacyUp
}

// normalizeSnapshot determines at and completed.
func (r *Reader) normalizeSnapshot(h *Header) {
	in := &r.root
	h.At, h.Completed = in.times.At, in.times.Completed
	switch {
	case in.has&schema.ItemAt != 0:
		r.forbiddenTimes(in.has & (schema.ItemFrom | schema.ItemUntil))
	case in.has&schema.ItemFrom != 0:
		r.rootWarn("RS-VER-07", "no at, but from, which is taken for it")
		r.dialect(dialect09)
		h.At = in.times.From
		if h.Completed.IsZero() {
			h.Completed = in.times.Until
		}
	case in.has&schema.ItemModified != 0:
		r.rootWarn("RS-VER-08", "no at, but modified, which is taken for it")
		r.dialect(dialectBeta)
		h.At, h.Approximate = in.modified, true
	default:
		r.rootWarn("RS-MD-13", "the document does not say at what time it was true")
	}
}

// normalizeInterval determines from and until.
func (r *Reader) normalizeInterval(h *Header, legacyUp bool) {
	in := &r.root
	h.From, h.Until = in.times.From, in.times.Until
	r.forbiddenTimes(in.has & (schema.ItemAt | schema.ItemCompleted))
	switch {
	case in.has&schema.ItemFrom != 0:
		if !h.Until.IsZero() && legacyUp {
			r.rootWarn("RS-VER-10", "until in a document of version 0.9, which may still grow")
			h.Living = true
		}
	case in.has&schema.ItemModified != 0:
		r.rootWarn("RS-VER-09", "no from, but modified: from when on it is complete is not known")
		r.dialect(dialectBeta)
		h.From, h.Until, h.FromUnproven = r.firstTime, Datetime{}, true
	default:
		r.rootWarn("RS-MD-14", "the document does not say from when on it is complete")
		h.From, h.FromUnproven = r.firstTime, true
	}
}

func (r *Reader) forbiddenTimes(bad schema.Item) {
	for i := range bad.Each() {
		r.rootWarn("RS-MD-12", i.String()+" at the root of a document of this kind, ignored")
	}
}

// normalizeEnd checks what only the whole document shows.
func (r *Reader) normalizeEnd(h *Header) {
	if r.kind.Events() && r.stats.Entries > 0 && r.stats.Datetimes == 0 && !r.firstTime.IsZero() {
		r.rootNote("RS-VER-11", "no entry has a datetime: lastmod is the time of the events")
	}
	if r.s.Offset() > warnBytes {
		r.rootWarn("RS-IDX-01", "more than 50 MB")
	}
	if h.FromUnproven && h.From.IsZero() {
		h.From = r.firstTime
	}
}

// rootWarn warns once.
func (r *Reader) rootWarn(rule, message string) {
	if r.first(rule + message) {
		r.warn(rule, message)
	}
}

// rootNote reports, once, something that is not an error.
func (r *Reader) rootNote(rule, message string) {
	if r.first(rule + message) {
		r.note(rule, message)
	}
}

func (r *Reader) first(key string) bool {
	if r.root.reported[key] {
		return false
	}
	if r.root.reported == nil {
		r.root.reported = make(map[string]bool)
	}
	r.root.reported[key] = true
	return true
}

// SortChanges sorts changes into the order in which they happened, for
// documents that list the newest first or are unordered: by datetime, or by
// lastmod if no entry has a datetime. Entries without a time stay behind the
// one they followed, and equal times keep the order of the document
// (RS-CHL-11).
func SortChanges(entries []Entry) {
	dated := slices.ContainsFunc(entries, func(e Entry) bool { return !e.Datetime.IsZero() })
	type timed struct {
		at Datetime
		e  Entry
	}
	list := make([]timed, len(entries))
	var last Datetime
	for i, e := range entries {
		t := e.Datetime
		if !dated {
			t = e.Lastmod
		}
		if !t.IsZero() {
			last = t
		}
		list[i] = timed{last, e}
	}
	slices.SortStableFunc(list, func(a, b timed) int { return a.at.Compare(b.at) })
	for i := range list {
		entries[i] = list[i].e
	}
}
