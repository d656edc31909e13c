package resourcesync

import (
	"slices"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/lexical"
	"lockstep/resourcesync/internal/schema"
)

// checkHeader returns an error if no document can begin with h.
func checkHeader(h *Header, k schema.Kind) error {
	if k == schema.Unknown {
		if h.Index && schema.KindOf(h.Capability, false) != schema.Unknown {
			return broken("RS-GEN-04", "no index of documents with capability %s", h.Capability)
		}
		return broken("RS-MD-01", "unknown capability %q", xmlscan.Clip(string(h.Capability)))
	}
	has := presentTimes(h.At, h.Completed, h.From, h.Until)
	for i := range h.Links {
		l := &h.Links[i]
		if err := checkLink(l); err != nil {
			return err
		}
		if l.Rel == "top" || l.Rel == "resourcesync" {
			return broken("RS-VER-04", "link %s at the root, which is up now", l.Rel)
		}
		if !l.Modified.IsZero() || len(l.Hashes) > 0 || l.HasLength || l.Encoding != "" || l.Pri != 0 || l.Path != "" {
			return broken("RS-LN-02", "link %s at the root has more than rel, href and type", xmlscan.Clip(l.Rel))
		}
		has |= schema.LinkItem(l.Rel)
	}
	if err := checkItems(has, k.Rule().RootMust, k.Rule().RootMay, "the root"); err != nil {
		return err
	}
	switch {
	case !h.At.at.Printable() || !h.Completed.at.Printable() || !h.From.at.Printable() || !h.Until.at.Printable():
		return broken("RS-DT-01", "a datetime has a year that four digits cannot say")
	case !h.Completed.IsZero() && h.Completed.Compare(h.At) < 0:
		return broken("RS-MD-05", "completed %s is before at %s", h.Completed, h.At)
	case !h.Until.IsZero() && h.Until.Compare(h.From) < 0:
		return broken("RS-MD-10", "until %s is before from %s", h.Until, h.From)
	}
	return nil
}

// checkItems returns an error if a forbidden item is present, or a required one
// missing.
func checkItems(has, must, may schema.Item, where string) error {
	if bad := has &^ (must | may); bad != 0 {
		return broken("RS-MD-12", "%s may not have %s in a document of this kind", where, bad)
	}
	if lacks := must &^ has; lacks != 0 {
		return broken("RS-MD-01", "%s lacks %s, which documents of this kind must have", where, lacks)
	}
	return nil
}

// check returns an error if e cannot be the next entry.
func (w *Writer) check(e *Entry) error {
	has := present(e)
	if has&^schema.ItemContent == schema.ItemLastmod && w.kind == schema.ResourceList && len(e.Links) == 0 {
		return w.checkContent(e) // nearly all entries take this path
	}
	for i := range e.Links {
		if err := w.checkEntryLink(e, &e.Links[i]); err != nil {
			return err
		}
		has |= schema.LinkItem(e.Links[i].Rel)
	}
	r := w.kind.Rule()
	if has&^(r.Must|r.May) != 0 || r.Must&^has != 0 {
		return checkItems(has, r.Must, r.May, "the entry")
	}
	if e.ChangeFreq != "" && !lexical.ChangeFreq(e.ChangeFreq) {
		return broken("RS-XML-14", "changefreq %q is none of the seven words", xmlscan.Clip(e.ChangeFreq))
	}
	if err := w.checkContent(e); err != nil {
		return err
	}
	switch w.kind {
	case schema.ChangeList, schema.ChangeManifest, schema.Notification:
		return w.checkChange(e, has)
	case schema.ResourceManifest:
		return checkPath(e.Path)
	case schema.CapabilityList, schema.Description, schema.DescriptionIndex:
		return w.checkCapability(e)
	}
	if has&(schema.ItemAt|schema.ItemCompleted|schema.ItemFrom|schema.ItemUntil) != 0 || w.openPart {
		return w.checkPart(e)
	}
	return nil
}

// CheckEntry returns a [*RuleError] if e cannot be the only entry of a document
// of capability c: the Writer of such a document would refuse it.
func CheckEntry(c Capability, e *Entry) error {
	w := Writer{header: Header{Capability: c}, kind: schema.KindOf(c, false)}
	if err := w.check(e); err != nil {
		return err
	}
	_, err := w.appendEntry(nil, e)
	return err
}

// checkContent checks the description of a representation.
func (w *Writer) checkContent(e *Entry) error {
	if !e.Lastmod.at.Printable() {
		return broken("RS-DT-01", "lastmod has a year that four digits cannot say")
	}
	if e.Type != "" && e.Type != w.goodType {
		if !lexical.MediaType(e.Type) || lexical.EndsBlank(e.Type) {
			return broken("RS-TYPE-01", "type %q is no media type", xmlscan.Clip(e.Type))
		}
		w.goodType = e.Type
	}
	if e.Encoding != "" && !lexical.Encoding(e.Encoding) {
		return broken("RS-ENC-01", "encoding %q is no list of content codings", xmlscan.Clip(e.Encoding))
	}
	return checkHashes(e.Hashes, e.Length, e.HasLength)
}

func checkHashes(hs Hashes, length int64, hasLength bool) error {
	if hasLength && length < 0 {
		return broken("RS-LEN-01", "length %d is negative", length)
	}
	seen := 0
	for i := range hs {
		if !hs[i].valid() {
			return broken("RS-HASH-02", "hash %d is of no known algorithm, or of the wrong length", i+1)
		}
		if seen&(1<<hs[i].Algorithm) != 0 {
			return broken("RS-HASH-02", "two %s digests", hs[i].Algorithm)
		}
		seen |= 1 << hs[i].Algorithm
	}
	return nil
}

// checkChange checks an entry that is an event.
func (w *Writer) checkChange(e *Entry, has schema.Item) error {
	switch {
	case e.Change > Deleted:
		return broken("RS-EM-02", "change %d is none", e.Change)
	case e.Datetime.IsZero():
		return broken("RS-CHL-04", "the entry lacks datetime")
	case !e.Datetime.at.Printable():
		return broken("RS-DT-01", "datetime has a year that four digits cannot say")
	case e.Datetime.Compare(w.lastEvent) < 0:
		return broken("RS-CHL-03", "datetime %s is before that of the entry in front, %s", e.Datetime, w.lastEvent)
	case e.Datetime.Compare(w.header.From) < 0:
		return broken("RS-EM-04", "datetime %s is before the document's from, %s", e.Datetime, w.header.From)
	case !w.header.Until.IsZero() && e.Datetime.Compare(w.header.Until) > 0:
		return broken("RS-EM-04", "datetime %s is after the document's until, %s", e.Datetime, w.header.Until)
	case e.Change == Deleted && has&(schema.ItemContent|schema.ItemPath) != 0:
		return broken("RS-CHL-08", "a deleted resource has no %s", has&(schema.ItemContent|schema.ItemPath))
	case w.kind == schema.ChangeManifest && e.Change != Deleted:
		return checkPath(e.Path)
	}
	return nil
}

// checkPath checks the path of a bitstream in a package.
func checkPath(p string) error {
	if !lexical.Path(p) {
		return broken("RS-PATH-01", "path %q is no place in a package: it must begin with / and stay inside", xmlscan.Clip(p))
	}
	return nil
}

// checkCapability checks an entry that names the document of a capability.
func (w *Writer) checkCapability(e *Entry) error {
	c := e.Capability
	switch {
	case w.kind == schema.Description && c != CapabilityList:
		return broken("RS-SD-06", "capability %q in a Source Description, want %s", xmlscan.Clip(string(c)), CapabilityList)
	case w.kind == schema.DescriptionIndex && c != "" && c != Description:
		return broken("RS-IDX-10", "capability %q in an index of Source Descriptions", xmlscan.Clip(string(c)))
	case w.kind != schema.CapabilityList:
		return nil
	case c == ResourceDumpManifest || c == ChangeDumpManifest || c == CapabilityList || c == Description:
		return broken("RS-CL-12", "capability %s cannot be listed in a Capability List", c)
	case schema.KindOf(c, false) == schema.Unknown:
		return broken("RS-CL-06", "unknown capability %q", xmlscan.Clip(string(c)))
	case slices.Contains(w.listed, c):
		return broken("RS-CL-02", "capability %s is listed already", c)
	case c == ChangeNotification && e.Link(RelHub) == "":
		return broken("RS-CL-06", "capability %s without a link hub", c)
	}
	return nil
}

// checkPart checks the time interval that an index or dump states for a part.
func (w *Writer) checkPart(e *Entry) error {
	h := &w.header
	switch {
	case !e.At.at.Printable() || !e.Completed.at.Printable() || !e.From.at.Printable() || !e.Until.at.Printable():
		return broken("RS-DT-01", "a datetime has a year that four digits cannot say")
	case !e.Completed.IsZero() && e.Completed.Compare(e.At) < 0:
		return broken("RS-MD-05", "completed %s is before at %s", e.Completed, e.At)
	case !e.Until.IsZero() && e.Until.Compare(e.From) < 0:
		return broken("RS-MD-10", "until %s is before from %s", e.Until, e.From)
	case w.kind == schema.ResourceArchive || w.kind == schema.ChangeArchive:
		return nil
	case !e.At.IsZero() && e.At.Compare(h.At) < 0:
		return broken("RS-RLI-03", "the part's at %s is before the document's, %s", e.At, h.At)
	case !h.Completed.IsZero() && e.Completed.Compare(h.Completed) > 0:
		return broken("RS-RLI-03", "the part's completed %s is after the document's, %s", e.Completed, h.Completed)
	case !e.From.IsZero() && e.From.Compare(h.From) < 0:
		return broken("RS-CHI-05", "the part's from %s is before the document's, %s", e.From, h.From)
	case !h.Until.IsZero() && e.Until.Compare(h.Until) > 0:
		return broken("RS-CHI-05", "the part's until %s is after the document's, %s", e.Until, h.Until)
	case w.kind != schema.ChangeListIndex && w.kind != schema.ChangeDumpIndex:
		return nil
	case w.openPart:
		return broken("RS-CHI-05", "the part in front has no until: only the last can be open")
	case e.Until.IsZero() && !h.Until.IsZero():
		return broken("RS-CHI-05", "a part without until in an index with until")
	case !w.lastUntil.IsZero() && !e.From.IsZero() && e.From.Compare(w.lastUntil) != 0:
		return broken("RS-CHI-05", "the part's from %s is not the until of the part in front, %s", e.From, w.lastUntil)
	}
	return nil
}

// remember records what the next entry is checked against.
func (w *Writer) remember(e *Entry) {
	switch w.kind {
	case schema.ChangeList, schema.ChangeManifest, schema.Notification:
		w.lastEvent = e.Datetime
	case schema.CapabilityList:
		w.listed = append(w.listed, e.Capability)
	case schema.ChangeListIndex, schema.ChangeDumpIndex:
		w.lastUntil = e.Until
		w.openPart = !e.From.IsZero() && e.Until.IsZero()
	}
}

// checkLink checks the rules for every link.
func checkLink(l *Link) error {
	switch {
	case !validRel(l.Rel):
		return broken("RS-LN-03", "relation %q is neither one name in lower case nor a URI", xmlscan.Clip(l.Rel))
	case l.Encoding != "" && !lexical.Encoding(l.Encoding):
		return broken("RS-ENC-01", "encoding %q of link %s is no list of content codings", xmlscan.Clip(l.Encoding), xmlscan.Clip(l.Rel))
	case l.Type != "" && (!lexical.MediaType(l.Type) || lexical.EndsBlank(l.Type)):
		return broken("RS-TYPE-01", "type %q of link %s is no media type", xmlscan.Clip(l.Type), xmlscan.Clip(l.Rel))
	case l.Pri < 0 || l.Pri > maxPri:
		return broken("RS-PRI-01", "pri %d of link %s is not between 1 and 999999", l.Pri, xmlscan.Clip(l.Rel))
	case !l.Modified.at.Printable():
		return broken("RS-DT-01", "modified of link %s has a year that four digits cannot say", xmlscan.Clip(l.Rel))
	case l.Foreign.HasElements():
		return broken("RS-XML-07", "link %s has elements; it may have foreign attributes only", xmlscan.Clip(l.Rel))
	}
	return checkHashes(l.Hashes, l.Length, l.HasLength)
}

// checkEntryLink checks a link of an entry.
func (w *Writer) checkEntryLink(e *Entry, l *Link) error {
	if err := checkLink(l); err != nil {
		return err
	}
	manifest := w.kind == schema.ResourceManifest || w.kind == schema.ChangeManifest
	switch {
	case l.Path != "" && !manifest:
		return broken("RS-PATH-01", "link %s has a path outside a manifest", xmlscan.Clip(l.Rel))
	case l.Path != "" && !lexical.Path(l.Path):
		return checkPath(l.Path)
	case l.Rel == RelHub && e.Capability != ChangeNotification:
		return broken("RS-LN-04", "link hub on an entry that is no change-notification")
	case l.Rel != RelPatch:
		return nil
	case e.Change != Updated:
		return broken("RS-REL-30", "a patch link on an entry whose change is not updated")
	case l.Type == "":
		return broken("RS-REL-31", "the patch link lacks type")
	case w.kind == schema.ChangeManifest && l.Path == "":
		return broken("RS-CDM-06", "the patch link lacks path")
	}
	return nil
}

// present returns the items that e states, except links.
func present(e *Entry) schema.Item {
	has := presentTimes(e.At, e.Completed, e.From, e.Until)
	if !e.Lastmod.IsZero() {
		has |= schema.ItemLastmod
	}
	if e.ChangeFreq != "" {
		has |= schema.ItemChangeFreq
	}
	if e.Capability != "" {
		has |= schema.ItemCapability
	}
	if e.Change != 0 {
		has |= schema.ItemChange
	}
	if !e.Datetime.IsZero() {
		has |= schema.ItemDatetime
	}
	if len(e.Hashes) > 0 {
		has |= schema.ItemHash
	}
	if e.HasLength {
		has |= schema.ItemLength
	}
	if e.Type != "" {
		has |= schema.ItemType
	}
	if e.Encoding != "" {
		has |= schema.ItemEncoding
	}
	if e.Path != "" {
		has |= schema.ItemPath
	}
	return has
}

func presentTimes(at, completed, from, until Datetime) (has schema.Item) {
	if !at.IsZero() {
		has |= schema.ItemAt
	}
	if !completed.IsZero() {
		has |= schema.ItemCompleted
	}
	if !from.IsZero() {
		has |= schema.ItemFrom
	}
	if !until.IsZero() {
		has |= schema.ItemUntil
	}
	return has
}
