package resourcesync

import (
	"slices"

	"lockstep/internal/xmlscan"
)

// checkHeader returns an error if no document can begin with h.
func checkHeader(h *Header, k kind) error {
	if k == kindUnknown {
		if h.Index && documentKind(h.Capability, false) != kindUnknown {
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
		has |= relationItem(l.Rel)
	}
	if err := checkItems(has, rules[k].rootMust, rules[k].rootMay, "the root"); err != nil {
		return err
	}
	switch {
	case !h.At.printable() || !h.Completed.printable() || !h.From.printable() || !h.Until.printable():
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
func checkItems(has, must, may item, where string) error {
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
	if has&^itemContent == itemLastmod && w.kind == kindResourceList && len(e.Links) == 0 {
		return w.checkContent(e) // nearly all entries take this path
	}
	for i := range e.Links {
		if err := w.checkEntryLink(e, &e.Links[i]); err != nil {
			return err
		}
		has |= relationItem(e.Links[i].Rel)
	}
	r := &rules[w.kind]
	if has&^(r.must|r.may) != 0 || r.must&^has != 0 {
		return checkItems(has, r.must, r.may, "the entry")
	}
	if e.ChangeFreq != "" && !validChangeFreq(e.ChangeFreq) {
		return broken("RS-XML-14", "changefreq %q is none of the seven words", xmlscan.Clip(e.ChangeFreq))
	}
	if err := w.checkContent(e); err != nil {
		return err
	}
	switch w.kind {
	case kindChangeList, kindChangeManifest, kindNotification:
		return w.checkChange(e, has)
	case kindResourceManifest:
		return checkPath(e.Path)
	case kindCapabilityList, kindDescription, kindDescriptionIndex:
		return w.checkCapability(e)
	}
	if has&(itemAt|itemCompleted|itemFrom|itemUntil) != 0 || w.openPart {
		return w.checkPart(e)
	}
	return nil
}

// CheckEntry returns a [*RuleError] if e cannot be the only entry of a document
// of capability c: the Writer of such a document would refuse it.
func CheckEntry(c Capability, e *Entry) error {
	w := Writer{header: Header{Capability: c}, kind: documentKind(c, false)}
	if err := w.check(e); err != nil {
		return err
	}
	_, err := w.appendEntry(nil, e)
	return err
}

// checkContent checks the description of a representation.
func (w *Writer) checkContent(e *Entry) error {
	if !e.Lastmod.printable() {
		return broken("RS-DT-01", "lastmod has a year that four digits cannot say")
	}
	if e.Type != "" && e.Type != w.goodType {
		if !validMediaType(e.Type) || endsBlank(e.Type) {
			return broken("RS-TYPE-01", "type %q is no media type", xmlscan.Clip(e.Type))
		}
		w.goodType = e.Type
	}
	if e.Encoding != "" && !validEncoding(e.Encoding) {
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
func (w *Writer) checkChange(e *Entry, has item) error {
	switch {
	case e.Change > Deleted:
		return broken("RS-EM-02", "change %d is none", e.Change)
	case e.Datetime.IsZero():
		return broken("RS-CHL-04", "the entry lacks datetime")
	case !e.Datetime.printable():
		return broken("RS-DT-01", "datetime has a year that four digits cannot say")
	case e.Datetime.Compare(w.lastEvent) < 0:
		return broken("RS-CHL-03", "datetime %s is before that of the entry in front, %s", e.Datetime, w.lastEvent)
	case e.Datetime.Compare(w.header.From) < 0:
		return broken("RS-EM-04", "datetime %s is before the document's from, %s", e.Datetime, w.header.From)
	case !w.header.Until.IsZero() && e.Datetime.Compare(w.header.Until) > 0:
		return broken("RS-EM-04", "datetime %s is after the document's until, %s", e.Datetime, w.header.Until)
	case e.Change == Deleted && has&(itemContent|itemPath) != 0:
		return broken("RS-CHL-08", "a deleted resource has no %s", has&(itemContent|itemPath))
	case w.kind == kindChangeManifest && e.Change != Deleted:
		return checkPath(e.Path)
	}
	return nil
}

// checkPath checks the path of a bitstream in a package.
func checkPath(p string) error {
	if !validPath(p) {
		return broken("RS-PATH-01", "path %q is no place in a package: it must begin with / and stay inside", xmlscan.Clip(p))
	}
	return nil
}

// checkCapability checks an entry that names the document of a capability.
func (w *Writer) checkCapability(e *Entry) error {
	c := e.Capability
	switch {
	case w.kind == kindDescription && c != CapabilityList:
		return broken("RS-SD-06", "capability %q in a Source Description, want %s", xmlscan.Clip(string(c)), CapabilityList)
	case w.kind == kindDescriptionIndex && c != "" && c != Description:
		return broken("RS-IDX-10", "capability %q in an index of Source Descriptions", xmlscan.Clip(string(c)))
	case w.kind != kindCapabilityList:
		return nil
	case c == ResourceDumpManifest || c == ChangeDumpManifest || c == CapabilityList || c == Description:
		return broken("RS-CL-12", "capability %s cannot be listed in a Capability List", c)
	case documentKind(c, false) == kindUnknown:
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
	case !e.At.printable() || !e.Completed.printable() || !e.From.printable() || !e.Until.printable():
		return broken("RS-DT-01", "a datetime has a year that four digits cannot say")
	case !e.Completed.IsZero() && e.Completed.Compare(e.At) < 0:
		return broken("RS-MD-05", "completed %s is before at %s", e.Completed, e.At)
	case !e.Until.IsZero() && e.Until.Compare(e.From) < 0:
		return broken("RS-MD-10", "until %s is before from %s", e.Until, e.From)
	case w.kind == kindResourceArchive || w.kind == kindChangeArchive:
		return nil
	case !e.At.IsZero() && e.At.Compare(h.At) < 0:
		return broken("RS-RLI-03", "the part's at %s is before the document's, %s", e.At, h.At)
	case !h.Completed.IsZero() && e.Completed.Compare(h.Completed) > 0:
		return broken("RS-RLI-03", "the part's completed %s is after the document's, %s", e.Completed, h.Completed)
	case !e.From.IsZero() && e.From.Compare(h.From) < 0:
		return broken("RS-CHI-05", "the part's from %s is before the document's, %s", e.From, h.From)
	case !h.Until.IsZero() && e.Until.Compare(h.Until) > 0:
		return broken("RS-CHI-05", "the part's until %s is after the document's, %s", e.Until, h.Until)
	case w.kind != kindChangeListIndex && w.kind != kindChangeDumpIndex:
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
	case kindChangeList, kindChangeManifest, kindNotification:
		w.lastEvent = e.Datetime
	case kindCapabilityList:
		w.listed = append(w.listed, e.Capability)
	case kindChangeListIndex, kindChangeDumpIndex:
		w.lastUntil = e.Until
		w.openPart = !e.From.IsZero() && e.Until.IsZero()
	}
}

// checkLink checks the rules for every link.
func checkLink(l *Link) error {
	switch {
	case !validRel(l.Rel):
		return broken("RS-LN-03", "relation %q is neither one name in lower case nor a URI", xmlscan.Clip(l.Rel))
	case l.Encoding != "" && !validEncoding(l.Encoding):
		return broken("RS-ENC-01", "encoding %q of link %s is no list of content codings", xmlscan.Clip(l.Encoding), xmlscan.Clip(l.Rel))
	case l.Type != "" && (!validMediaType(l.Type) || endsBlank(l.Type)):
		return broken("RS-TYPE-01", "type %q of link %s is no media type", xmlscan.Clip(l.Type), xmlscan.Clip(l.Rel))
	case l.Pri < 0 || l.Pri > maxPri:
		return broken("RS-PRI-01", "pri %d of link %s is not between 1 and 999999", l.Pri, xmlscan.Clip(l.Rel))
	case !l.Modified.printable():
		return broken("RS-DT-01", "modified of link %s has a year that four digits cannot say", xmlscan.Clip(l.Rel))
	}
	return checkHashes(l.Hashes, l.Length, l.HasLength)
}

// checkEntryLink checks a link of an entry.
func (w *Writer) checkEntryLink(e *Entry, l *Link) error {
	if err := checkLink(l); err != nil {
		return err
	}
	manifest := w.kind == kindResourceManifest || w.kind == kindChangeManifest
	switch {
	case l.Path != "" && !manifest:
		return broken("RS-PATH-01", "link %s has a path outside a manifest", xmlscan.Clip(l.Rel))
	case l.Path != "" && !validPath(l.Path):
		return checkPath(l.Path)
	case l.Rel == RelHub && e.Capability != ChangeNotification:
		return broken("RS-LN-04", "link hub on an entry that is no change-notification")
	case l.Rel != RelPatch:
		return nil
	case e.Change != Updated:
		return broken("RS-REL-30", "a patch link on an entry whose change is not updated")
	case l.Type == "":
		return broken("RS-REL-31", "the patch link lacks type")
	case w.kind == kindChangeManifest && l.Path == "":
		return broken("RS-CDM-06", "the patch link lacks path")
	}
	return nil
}

// present returns the items that e states, except links.
func present(e *Entry) item {
	has := presentTimes(e.At, e.Completed, e.From, e.Until)
	if !e.Lastmod.IsZero() {
		has |= itemLastmod
	}
	if e.ChangeFreq != "" {
		has |= itemChangeFreq
	}
	if e.Capability != "" {
		has |= itemCapability
	}
	if e.Change != 0 {
		has |= itemChange
	}
	if !e.Datetime.IsZero() {
		has |= itemDatetime
	}
	if len(e.Hashes) > 0 {
		has |= itemHash
	}
	if e.HasLength {
		has |= itemLength
	}
	if e.Type != "" {
		has |= itemType
	}
	if e.Encoding != "" {
		has |= itemEncoding
	}
	if e.Path != "" {
		has |= itemPath
	}
	return has
}

func presentTimes(at, completed, from, until Datetime) (has item) {
	if !at.IsZero() {
		has |= itemAt
	}
	if !completed.IsZero() {
		has |= itemCompleted
	}
	if !from.IsZero() {
		has |= itemFrom
	}
	if !until.IsZero() {
		has |= itemUntil
	}
	return has
}

// validChangeFreq reports whether s is one of the words of RS-XML-14.
func validChangeFreq[T string | []byte](s T) bool {
	switch string(s) {
	case "always", "hourly", "daily", "weekly", "monthly", "yearly", "never":
		return true
	}
	return false
}
