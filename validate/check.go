package validate

import (
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
)

// A checker checks a document, entry by entry, for violations that the Reader
// does not report.
type checker struct {
	finding.Place
	doc    *document
	now    time.Time
	reader *resourcesync.Reader

	names    map[string]bool // locs, or paths, found so far
	last     *resourcesync.Entry
	open     bool // a part without until was found
	paths    map[string]bool
	noSHA256 bool // reported
}

func newChecker(p finding.Place, doc *document, now time.Time, r *resourcesync.Reader) *checker {
	return &checker{Place: p, doc: doc, now: now, reader: r, names: make(map[string]bool), paths: make(map[string]bool)}
}

// lacks reports whether the current entry has no attribute of that name. An
// unusable one does not count: the Reader has reported it.
func (c *checker) lacks(name string, missing bool) bool {
	return missing && !c.doc.part.has(before(c.reader)-1, name)
}

// at returns the location of the current entry.
func (c *checker) at() string { return finding.Position(c.reader.Position()) }

// first reports whether name occurs for the first time, as far as bounded
// memory allows.
func first(names map[string]bool, name string) bool {
	if names[name] {
		return false
	}
	if len(names) < maxListed {
		names[name] = true
	}
	return true
}

// entry checks the next entry.
func (c *checker) entry(e *resourcesync.Entry) {
	if n := len(e.Loc); n < 12 || n > 2048 {
		c.Warnf("RS-XML-10", c.at(), "a loc of %d characters", n)
	}
	if len(e.Hashes) > 0 && e.Hashes.Get(resourcesync.SHA256) == "" && !c.noSHA256 {
		c.noSHA256 = true
		c.Advisef("RS-HASH-02", c.at(), "a hash, but not by sha-256")
	}
	switch k := c.doc.kind; {
	case k&(finding.KindDescription|finding.KindDescriptionIndex) != 0:
		c.description(e)
	case k == finding.KindCapabilityList:
		c.capability(e)
	case k&finding.Indexes != 0:
		c.part(e)
	case k&(finding.KindResourceDump|finding.KindChangeDump) != 0:
		c.dumped(e)
	case k == finding.KindArchive:
		c.archived(e)
	case k == finding.KindArchiveIndex && !first(c.names, e.Loc):
		c.Advisef("RA-DOC-09", c.at(), "%s has a second entry", e.Loc)
	case k&finding.Manifests != 0:
		c.packed(e)
	}
	if c.doc.kind&finding.Events != 0 {
		c.change(e)
	}
	if len(e.Links) > 0 {
		c.links(e)
	}
	if c.doc.kind&(finding.Indexes|finding.KindChangeDump|finding.KindArchive) != 0 {
		c.last = &resourcesync.Entry{Loc: e.Loc, Metadata: e.Metadata}
	}
}

// description checks an entry of a Source Description.
func (c *checker) description(e *resourcesync.Entry) {
	if !first(c.names, e.Loc) {
		c.Advisef("RS-SD-04", c.at(), "%s has a second entry", e.Loc)
	}
	if c.doc.kind == finding.KindDescriptionIndex {
		if e.Capability != "" && e.Capability != resourcesync.Description {
			c.Errorf("RS-IDX-10", c.at(), "capability %s in an index of Source Descriptions", e.Capability)
		}
		return
	}
	if e.Capability != "" && e.Capability != resourcesync.CapabilityList {
		c.Errorf("RS-SD-06", c.at(), "capability %s, where capabilitylist belongs", e.Capability)
	}
	if e.Link(resourcesync.RelDescribedBy) == "" {
		c.Warnf("RS-SD-07", c.at(), "no link describedby to information about the set")
	}
}

// capability checks an entry of a Capability List.
func (c *checker) capability(e *resourcesync.Entry) {
	switch e.Capability {
	case resourcesync.ResourceDumpManifest, resourcesync.ChangeDumpManifest, resourcesync.CapabilityList, resourcesync.Description:
		c.Advisef("RS-CL-12", c.at(), "an entry with capability %s", e.Capability)
	case resourcesync.ChangeNotification:
		if e.Link(resourcesync.RelHub) == "" {
			c.Errorf("RN-CH-07", c.at(), "an entry for change-notification without a link hub")
		}
		return
	}
	// A capability of another specification may have hubs too.
	if e.Link(resourcesync.RelHub) != "" && kindOf(&resourcesync.Header{Capability: e.Capability}) != finding.KindUnknown {
		c.Advisef("RS-LN-04", c.at(), "a link hub in an entry for %s", e.Capability)
	}
}

// Rules of indexes: the same rules have different names for each kind.
type indexRules struct{ twice, order, times, from string }

var indexRule = map[finding.Kinds]indexRules{
	finding.KindResourceListIndex: {twice: "RS-RLI-02", times: "RS-RLI-03"},
	finding.KindResourceDumpIndex: {twice: "RS-RDI-01", times: "RS-RDI-01"},
	finding.KindChangeListIndex:   {twice: "RS-CHI-03", order: "RS-CHI-02", times: "RS-CHI-05", from: "RS-CHI-03"},
	finding.KindChangeDumpIndex:   {twice: "RS-CDI-01", order: "RS-CDI-01", times: "RS-CDI-01", from: "RS-CDI-01"},
}

// part checks an entry of an index.
func (c *checker) part(e *resourcesync.Entry) {
	r, h := indexRule[c.doc.kind], &c.doc.header
	if !first(c.names, e.Loc) {
		c.Errorf(r.twice, c.at(), "%s has a second entry", e.Loc)
	}
	if c.doc.kind&finding.Snapshots != 0 {
		c.snapshotPart(e, r, h)
		return
	}
	if e.From.IsZero() {
		if c.lacks("from", true) {
			c.Warnf(r.from, c.at(), "an entry without from")
		}
		return
	}
	last := c.last
	switch {
	case last != nil && !last.From.IsZero() && e.From.Compare(last.From) < 0:
		c.Errorf(r.order, c.at(), "from %s is before that of the part in front, %s", e.From, last.From)
	case c.open:
		c.Advisef(r.times, c.at(), "the part in front is open: only the last can be")
	case last != nil && !last.Until.IsZero() && e.From.Compare(last.Until) != 0:
		c.Advisef(r.times, c.at(), "from %s is not the until of the part in front, %s", e.From, last.Until)
	case last == nil && !h.FromUnproven && e.From.Compare(h.From) != 0:
		c.Advisef(r.times, c.at(), "the first part begins at %s, the index at %s", e.From, h.From)
	case !h.Until.IsZero() && (e.Until.IsZero() || e.Until.Compare(h.Until) > 0):
		c.Advisef(r.times, c.at(), "a part that does not end by the until of the index, %s", h.Until)
	}
	c.open = e.Until.IsZero()
}

// snapshotPart checks the times of a part of a Resource List or Dump.
func (c *checker) snapshotPart(e *resourcesync.Entry, r indexRules, h *resourcesync.Header) {
	switch {
	case !e.At.IsZero() && !h.At.IsZero() && e.At.Compare(h.At) < 0:
		c.Advisef(r.times, c.at(), "at %s is before that of the index, %s", e.At, h.At)
	case !h.Completed.IsZero() && e.Completed.Compare(h.Completed) > 0:
		c.Advisef(r.times, c.at(), "completed %s is after that of the index, %s", e.Completed, h.Completed)
	}
}

// dumped checks an entry of a dump: a package.
func (c *checker) dumped(e *resourcesync.Entry) {
	twice, advised := "RS-RD-02", "RS-RD-03"
	if c.doc.kind == finding.KindChangeDump {
		twice, advised = "RS-CD-02", "RS-CD-02"
	}
	if !first(c.names, e.Loc) {
		c.Errorf(twice, c.at(), "%s has a second entry", e.Loc)
	}
	switch {
	case c.lacks("type", e.Type == ""):
		c.Warnf(advised, c.at(), "a package without type")
	case e.Type != "" && visit.BaseType(e.Type) != "application/zip":
		c.Warnf("RS-RD-05", c.at(), "a package of type %s", e.Type)
	}
	if c.lacks("length", !e.HasLength) {
		c.Warnf(advised, c.at(), "a package without length")
	}
	if c.doc.kind != finding.KindChangeDump {
		return
	}
	if c.lacks("from", e.From.IsZero()) {
		c.Warnf(advised, c.at(), "a package without from")
	}
	if c.lacks("until", e.Until.IsZero()) {
		c.Advisef("RS-CD-06", c.at(), "a package without until")
	}
	last := c.last
	switch {
	case last == nil || last.From.IsZero() || e.From.IsZero():
	case e.From.Compare(last.From) < 0:
		c.Warnf("RS-CD-03", c.at(), "from %s is before that of the package in front, %s", e.From, last.From)
	case !last.Until.IsZero() && e.From.Compare(last.Until) != 0:
		c.Advisef("RS-MD-11", c.at(), "from %s is not the until of the package in front, %s", e.From, last.Until)
	}
}

// packed checks an entry of a manifest.
func (c *checker) packed(e *resourcesync.Entry) {
	changes := c.doc.kind == finding.KindChangeDumpManifest
	if e.Change == resourcesync.Deleted {
		return
	}
	if changes && c.lacks("path", e.Path == "") {
		if hasPatch(e) { // the text of the standard requires both, but one of its examples has only the patch
			c.Warnf("RS-CDM-04", c.at(), "%s with a patch only, without path of the whole", e.Change)
		} else {
			c.Errorf("RS-CDM-04", c.at(), "%s without path", e.Change)
		}
	}
	rule := "RS-RDM-03"
	if changes {
		rule = "RS-CDM-05"
	}
	if e.Path != "" && !first(c.paths, e.Path) {
		c.Advisef(rule, c.at(), "path %s is that of an entry in front, too", e.Path)
	}
	if c.lacks("type", e.Type == "") {
		if changes {
			rule = "RS-CDM-04"
		}
		c.Warnf(rule, c.at(), "an entry without type")
	}
}

// change checks an entry about a change.
func (c *checker) change(e *resourcesync.Entry) {
	if c.lacks("datetime", e.Datetime.IsZero()) {
		c.Advisef("RS-EM-03", c.at(), "a change without datetime")
	}
	if e.Change == resourcesync.Deleted && !e.Lastmod.IsZero() && !e.Datetime.IsZero() {
		c.Advisef("RS-CHL-08", c.at(), "a deletion with lastmod")
	}
}

// end checks the header of the document.
func (c *checker) end(h *resourcesync.Header) {
	switch k := c.doc.kind; {
	case k == finding.KindSitemap:
		if !c.doc.faulted && h.Capability == "" { // otherwise the capability comes after the entries
			c.Errorf("RS-MD-01", "root", "a plain Sitemap: nothing at the root says what kind of document it is")
		}
		return
	case k&(finding.KindDescription|finding.KindDescriptionIndex) != 0 && h.Link(resourcesync.RelUp) != "":
		c.Advisef("RS-SD-02", "root", "a Source Description with a link up")
	case k == finding.KindDescription && h.Link(resourcesync.RelDescribedBy) == "":
		c.Warnf("RS-SD-03", "root", "no link describedby to information about the Source")
	case k == finding.KindCapabilityList && h.Link(resourcesync.RelDescribedBy) == "":
		c.Warnf("RS-CL-05", "root", "no link describedby to information about the set")
	case k&finding.AnyIndex != 0 && h.Link(resourcesync.RelIndex) != "":
		c.Errorf("RS-IDX-04", "root", "an index that is part of an index")
	case k == finding.KindNotification && h.Until.IsZero() && !c.doc.root.has(0, "until"):
		c.Errorf("RN-PL-02", "root", "a notification without until")
	case k == finding.KindChangeDumpManifest && h.Until.IsZero() && !c.doc.root.has(0, "until"):
		c.Advisef("RS-CDM-01", "root", "a manifest without until")
	}
	if !h.Until.IsZero() && h.Until.Time().After(c.now.Add(visit.ClockSkew)) {
		c.Advisef("RS-AMB-25", "root", "until %s lies in the future", h.Until)
	}
	if !h.Modified.IsZero() && !h.Approximate && !h.FromUnproven {
		c.Errorf("RS-XML-07", "root", "modified at the root, which the standard has given up")
	}
	for i := range h.Links {
		c.rootLink(&h.Links[i])
	}
}
