package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"lockstep/resourcesync"
)

// Stated is what the Source states of the content of a resource, in its own
// words: [Held] says what the mirror has. It is never changed once it is part of
// a Held, with which it may share Hashes.
type Stated struct {
	Lastmod  resourcesync.Datetime // zero: not stated
	Length   int64                 // -1: not stated
	Hashes   resourcesync.Hashes
	Encoding string               // content coding
	Foreign  resourcesync.Foreign // what it states in namespaces of a community; of several sets the first one decides
	Others   []Description        // of a resource of several sets, what others of them say that the first one does not, by number
}

// A Description is what one of the sets of a resource says of it, apart from its content.
type Description struct {
	Set     int // its number in the Journal
	Type    string
	Links   []resourcesync.Link
	Foreign resourcesync.Foreign
}

// SameDescription reports whether two sets say the same of a resource, in all details.
func SameDescription(a, b *Description) bool {
	return a.Type == b.Type && a.Foreign == b.Foreign && slices.EqualFunc(a.Links, b.Links, func(x, y resourcesync.Link) bool { return compareLinks(x, y) == 0 })
}

// The relations of links that the Journal keeps. The order never changes: rows contain
// the positions.
var relations = [...]string{
	resourcesync.RelDescribedBy, "describes", "collection", "profile", "via", "canonical", "alternate",
	resourcesync.RelMemento, "timegate", RelHop,
}

// RelHop is the relation of a resource to itself at an Aggregator that it has passed
// between its origin, to which its via link leads (RS-REL-71), and its upstream; or to the
// base URL of an Aggregator that republished its description only. Without it an
// Aggregator could not recognize a resource that returns to it.
const RelHop = "urn:x-lockstep:hop"

// KeepsLink reports whether a row has the links of a relation: those that relate
// the resource to others, and not those that lead to its content.
func KeepsLink(rel string) bool { return slices.Contains(relations[:], rel) }

// isOfVersion reports whether links of a relation lead to versions of the
// resource: they change with its content, or with the setup of the server, and
// say nothing of the resource.
func isOfVersion(rel string) bool { return rel == resourcesync.RelMemento || rel == "timegate" }

// Redescribes reports whether is has another media type, other links or other foreign
// attributes and elements than was: the resource has changed, even if its content has
// not. Links to versions do not count, nor does the order of links other than via, whose
// first is the origin (RS-REL-72). What an earlier version of the program recorded is not
// compared.
func Redescribes(was, is *Held) bool {
	if was.Stated == nil || is.Stated == nil {
		return false
	}
	return was.Type != is.Type || was.Stated.Foreign != is.Stated.Foreign || !sameLinks(was.Links, is.Links)
}

// SameStatement reports whether two rows repeat the same statement of the
// Source, in all of its details.
func SameStatement(a, b *Held) bool {
	if a.Stated == nil || b.Stated == nil {
		return a.Stated == b.Stated
	}
	s, o := a.Stated, b.Stated
	return a.Type == b.Type && s.Foreign == o.Foreign && slices.EqualFunc(a.Links, b.Links, func(x, y resourcesync.Link) bool { return compareLinks(x, y) == 0 }) &&
		compareDatetimes(s.Lastmod, o.Lastmod) == 0 && s.Length == o.Length && slices.Equal(s.Hashes, o.Hashes) && s.Encoding == o.Encoding
}

func sameLinks(a, b []resourcesync.Link) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	return slices.EqualFunc(withoutVersions(a), withoutVersions(b), func(x, y resourcesync.Link) bool { return compareLinks(x, y) == 0 })
}

// withoutVersions returns the links that do not lead to versions, in an order that
// depends on the Source for via links only.
func withoutVersions(links []resourcesync.Link) []resourcesync.Link {
	links = slices.DeleteFunc(slices.Clone(links), func(l resourcesync.Link) bool { return isOfVersion(l.Rel) })
	slices.SortStableFunc(links, func(a, b resourcesync.Link) int {
		if a.Rel == "via" && b.Rel == "via" {
			return 0
		}
		return compareLinks(a, b)
	})
	return links
}

// compareLinks orders links by their relation first.
func compareLinks(a, b resourcesync.Link) int {
	return cmp.Or(strings.Compare(a.Rel, b.Rel), strings.Compare(a.Href, b.Href), strings.Compare(a.Type, b.Type), strings.Compare(a.Encoding, b.Encoding),
		strings.Compare(a.Path, b.Path), compareDatetimes(a.Modified, b.Modified), cmp.Compare(lengthOf(&a), lengthOf(&b)), cmp.Compare(a.Pri, b.Pri),
		slices.CompareFunc(a.Hashes, b.Hashes, func(x, y resourcesync.Hash) int {
			return cmp.Or(cmp.Compare(x.Algorithm, y.Algorithm), strings.Compare(x.Digest, y.Digest))
		}), strings.Compare(a.Foreign.String(), b.Foreign.String()))
}

func compareDatetimes(a, b resourcesync.Datetime) int {
	return cmp.Or(a.Compare(b), cmp.Compare(a.Granularity(), b.Granularity()))
}

func lengthOf(l *resourcesync.Link) int64 {
	if l.HasLength {
		return l.Length
	}
	return -1
}

// The encoding of Type, Links and Stated of a row, which leaves out what the rest
// of the row says already:
//
//	format   byte: statedFormat, statedForeign or statedOthers
//	type     uvarint n, n bytes
//	lastmod  byte: 0 none, 1+granularity that of the row, 65+granularity another,
//	         and then varint seconds since 1970, uvarint nanoseconds
//	length   uvarint: 0 none, 1 that of the row, 2+length another
//	hashes   uvarint number; each a byte for the algorithm, plus 128 if the row
//	         has the same, otherwise followed by uvarint n, n bytes
//	encoding uvarint n, n bytes
//	foreign  uvarint n, n bytes; not with statedFormat
//	others   uvarint number; each uvarint set, type and foreign as above, uvarint
//	         number of links, links as below; only with statedOthers
//	links    to the end, each
//	         byte: 1+position in relations, or 0, uvarint n, n bytes
//	         href: uvarint bytes of the URI that it begins with, uvarint n, n bytes
//	         byte of bits: which of the following there are
//	         type, encoding, path: uvarint n, n bytes; modified, length, hashes as
//	         above; uvarint pri; foreign: uvarint n, n bytes
//
// A common entry needs little more than its type.
const (
	statedFormat  = 1
	statedForeign = 2 // the resource, or one of its links, has foreign attributes or elements
	statedOthers  = 3 // likewise, or it has not; and sets say different things of it
)

// Bits of a link.
const (
	linkType = 1 << iota
	linkEncoding
	linkPath
	linkModified
	linkLength
	linkHashes
	linkPri
	linkForeign
)

const (
	sameAsRow   = 0x80 // of the algorithm of a hash
	ownDatetime = 64
)

var errStated = errors.New("damaged statement in the journal")

// AppendStated appends the encoding of Type, Links and Stated of h to b; nothing
// where Stated is nil.
func (h *Held) AppendStated(b []byte) []byte {
	s := h.Stated
	if s == nil {
		return b
	}
	format := byte(statedFormat)
	switch {
	case len(s.Others) > 0:
		format = statedOthers
	case h.hasForeign():
		format = statedForeign
	}
	b = appendText(append(b, format), h.Type)
	b = h.appendDatetime(b, s.Lastmod)
	b = h.appendLength(b, s.Length)
	b = h.appendHashes(b, s.Hashes)
	b = appendText(b, s.Encoding)
	if format != statedFormat {
		b = appendText(b, s.Foreign.String())
	}
	if format == statedOthers {
		b = h.appendOthers(b)
	}
	for i := range h.Links {
		b = h.appendLink(b, &h.Links[i])
	}
	return b
}

func (h *Held) appendOthers(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h.Stated.Others)))
	for i := range h.Stated.Others {
		o := &h.Stated.Others[i]
		b = appendText(binary.AppendUvarint(b, uint64(o.Set)), o.Type)
		b = binary.AppendUvarint(appendText(b, o.Foreign.String()), uint64(len(o.Links)))
		for j := range o.Links {
			b = h.appendLink(b, &o.Links[j])
		}
	}
	return b
}

func (h *Held) hasForeign() bool {
	return !h.Stated.Foreign.IsZero() || slices.ContainsFunc(h.Links, func(l resourcesync.Link) bool { return !l.Foreign.IsZero() })
}

func (h *Held) appendDatetime(b []byte, d resourcesync.Datetime) []byte {
	t := d.Time()
	switch {
	case d.IsZero():
		return append(b, 0)
	case t.Equal(h.Lastmod):
		return append(b, 1+byte(d.Granularity()))
	}
	b = append(b, ownDatetime+1+byte(d.Granularity()))
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

func (h *Held) appendLength(b []byte, n int64) []byte {
	switch n {
	case -1:
		return append(b, 0)
	case h.Length:
		return append(b, 1)
	}
	return binary.AppendUvarint(b, 2+uint64(n))
}

func (h *Held) appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, s := range hs {
		if h.Hashes.Get(s.Algorithm) == s.Digest {
			b = append(b, byte(s.Algorithm)|sameAsRow)
		} else {
			b = appendText(append(b, byte(s.Algorithm)), s.Digest)
		}
	}
	return b
}

func (h *Held) appendLink(b []byte, l *resourcesync.Link) []byte {
	rel := slices.Index(relations[:], l.Rel) + 1
	if b = append(b, byte(rel)); rel == 0 {
		b = appendText(b, l.Rel)
	}
	n := 0
	for n < len(l.Href) && n < len(h.URI) && l.Href[n] == h.URI[n] {
		n++
	}
	b = appendText(binary.AppendUvarint(b, uint64(n)), l.Href[n:])
	at := len(b)
	b = append(b, 0)
	for bit, s := range [...]string{l.Type, l.Encoding, l.Path} {
		if s != "" {
			b[at] |= linkType << bit
			b = appendText(b, s)
		}
	}
	if !l.Modified.IsZero() {
		b[at] |= linkModified
		b = h.appendDatetime(b, l.Modified)
	}
	if l.HasLength {
		b[at] |= linkLength
		b = h.appendLength(b, l.Length)
	}
	if len(l.Hashes) > 0 {
		b[at] |= linkHashes
		b = h.appendHashes(b, l.Hashes)
	}
	if l.Pri != 0 {
		b[at] |= linkPri
		b = binary.AppendUvarint(b, uint64(l.Pri))
	}
	if !l.Foreign.IsZero() {
		b[at] |= linkForeign
		b = appendText(b, l.Foreign.String())
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeStated sets Type, Links and Stated to what AppendStated encoded for a row
// that is otherwise equal. What is empty leaves them unknown.
func (h *Held) DecodeStated(b []byte) error {
	h.Type, h.Links, h.Stated = "", nil, nil
	if len(b) == 0 {
		return nil
	}
	d := statedDecoder{row: h, b: string(b)}
	format := d.byte()
	if format < statedFormat || format > statedOthers {
		return errStated
	}
	kind := d.text()
	s := &Stated{Lastmod: d.datetime(), Length: d.length(), Hashes: d.hashes(), Encoding: d.text()}
	if format != statedFormat {
		s.Foreign = d.foreign()
	}
	if format == statedOthers {
		s.Others = d.others()
	}
	var links []resourcesync.Link
	for len(d.b) > 0 && !d.bad {
		links = append(links, d.link())
	}
	if d.bad {
		return errStated
	}
	h.Type, h.Links, h.Stated = kind, links, s
	return nil
}

// A statedDecoder reads values from the front of its text. After a missing or
// impossible value bad is set, and further values are zero.
type statedDecoder struct {
	row *Held
	b   string
	bad bool
}

func (d *statedDecoder) fail() { d.b, d.bad = "", true }

func (d *statedDecoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *statedDecoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.b) && i < binary.MaxVarintLen64; i++ {
		c := d.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.b = d.b[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

func (d *statedDecoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *statedDecoder) foreign() resourcesync.Foreign {
	f, err := resourcesync.ParseForeign(d.text())
	if err != nil {
		d.fail()
	}
	return f
}

func (d *statedDecoder) others() (all []Description) {
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		o := Description{Set: int(d.uvarint()), Type: d.text(), Foreign: d.foreign()}
		for links := d.uvarint(); links > 0 && !d.bad; links-- {
			o.Links = append(o.Links, d.link())
		}
		all = append(all, o)
	}
	return all
}

func (d *statedDecoder) datetime() resourcesync.Datetime {
	c := d.byte()
	if c == 0 {
		return resourcesync.Datetime{}
	}
	t := d.row.Lastmod
	if c > ownDatetime {
		c -= ownDatetime
		v := d.uvarint()
		nanos := d.uvarint()
		if nanos > 999_999_999 {
			d.fail()
		}
		t = time.Unix(int64(v>>1)^-int64(v&1), int64(nanos))
	}
	at := resourcesync.NewDatetime(t)
	if at.IsZero() || c-1 > byte(resourcesync.Year) {
		d.fail()
		return resourcesync.Datetime{}
	}
	return at.WithGranularity(resourcesync.Granularity(c - 1))
}

func (d *statedDecoder) length() int64 {
	switch n := d.uvarint(); n {
	case 0:
		return -1
	case 1:
		return d.row.Length
	default:
		if n-2 > 1<<63-1 {
			d.fail()
			return -1
		}
		return int64(n - 2)
	}
}

func (d *statedDecoder) hashes() (hs resourcesync.Hashes) {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	if d.areRowHashes(int(n)) { // mostly: the row's own need no memory
		d.b = d.b[n:]
		return d.row.Hashes
	}
	for ; n > 0 && !d.bad; n-- {
		c := d.byte()
		s := resourcesync.Hash{Algorithm: resourcesync.Algorithm(c &^ sameAsRow)}
		if c&sameAsRow == 0 {
			s.Digest = d.text()
		} else if s.Digest = d.row.Hashes.Get(s.Algorithm); s.Digest == "" {
			d.fail()
		}
		hs = append(hs, s)
	}
	return hs
}

// areRowHashes reports whether the next n hashes are those of the row, in its order.
func (d *statedDecoder) areRowHashes(n int) bool {
	if n != len(d.row.Hashes) {
		return false
	}
	for i := range n {
		if d.b[i] != byte(d.row.Hashes[i].Algorithm)|sameAsRow {
			return false
		}
	}
	return true
}

func (d *statedDecoder) link() (l resourcesync.Link) {
	rel := int(d.byte())
	switch {
	case rel == 0:
		l.Rel = d.text()
	case rel <= len(relations):
		l.Rel = relations[rel-1]
	default:
		d.fail()
	}
	n := d.uvarint()
	rest := d.text()
	if n > uint64(len(d.row.URI)) {
		d.fail()
		return l
	}
	l.Href = d.row.URI[:n] + rest
	has := d.byte()
	if has&linkType != 0 {
		l.Type = d.text()
	}
	if has&linkEncoding != 0 {
		l.Encoding = d.text()
	}
	if has&linkPath != 0 {
		l.Path = d.text()
	}
	if has&linkModified != 0 {
		l.Modified = d.datetime()
	}
	if has&linkLength != 0 {
		l.Length, l.HasLength = d.length(), true
	}
	if has&linkHashes != 0 {
		l.Hashes = d.hashes()
	}
	if has&linkPri != 0 {
		l.Pri = int(d.uvarint())
	}
	if has&linkForeign != 0 {
		l.Foreign = d.foreign()
	}
	return l
}
