package destination

import (
	"encoding/binary"
	"errors"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A want is what the Source last said of one URI: how it should be here.
type want struct {
	URI     string
	Gone    bool // the last thing that happened is a deletion
	Change  resourcesync.Change
	Lastmod resourcesync.Datetime
	Length  int64 // -1 when not stated
	Hashes  resourcesync.Hashes
	Type    string
	Coding  string              // content coding
	Instead string              // Gone: the URI of the representation of the same that is kept instead of it
	Refused string              // why it must not be fetched; empty: it may
	Links   []resourcesync.Link // those of use to a Destination, see usefulLink
	Member  member              // where its content is in a package; zero: not stated
	pack    int                 // number of the package whose manifest has this entry; zero: it is of another document
	applied bool                // it was, earlier in this run
	claimed bool                // a notification says so, and none of the Source's documents did yet

	notBefore time.Time // of what is pending: when its server may be asked again; zero: at any time
	passing   bool      // of what is pending: it failed in the run under way, for a reason that may pass

	main    string // of a further representation of a record of a feed: the URI of the first
	excused bool   // of what is pending: that it is not served was reported

	chain []step // of patches that lead to it; not encoded
	rank
}

// described returns what is stated of the content.
func (w *want) described() content.Description {
	return content.Description{URI: w.URI, Length: w.Length, Hashes: w.Hashes}
}

// A member is a place in a package.
type member struct {
	Package int    // its number in the reading of the dump, from 1; zero: none
	Path    string // as the manifest has it
}

// A step is one link of a chain of patches: what turns one version of a
// resource into the next.
type step struct {
	from   resourcesync.Hashes // of the version it starts from; none if not stated
	sure   bool                // that version is the one held, if from does not say otherwise
	length int64               // of the version it makes; -1 if not stated
	link   resourcesync.Link   // to the patch
	member member              // where the patch is in a package; zero: in none
}

// A rank says which of several wants of one URI is the last word.
type rank struct {
	class wantClass
	doc   int   // number of the document within this reading
	pos   int64 // of the entry in it
	nth   int   // of the entries of that document that say the same
	event resourcesync.Datetime
	mod   resourcesync.Datetime
}

// event and mod are the two candidates for the time of an event: datetime, and
// lastmod for documents without a single datetime. Which of them counts is
// only known at the end of the document (RS-EM-07), so both are kept. Entries
// without a time have that of their predecessor (RS-CHL-11).

// A wantClass is where a want comes from. Higher classes say more of now.
type wantClass uint8

const (
	wantOwed   wantClass = iota + 1 // from an earlier run
	wantPacked                      // from a manifest, of content that the last word may turn out to be: never a word itself
	wantListed                      // from a Resource List, or the manifests of a Resource Dump read in place of one
	wantChange                      // from a Change List, or the manifests of a Change Dump read in place of one
)

// sameLastmod reports whether the Source states the time we know, as finely as
// it states it.
func sameLastmod(held time.Time, stated resourcesync.Datetime) bool {
	if held.IsZero() || stated.IsZero() {
		return false
	}
	t := stated.Time()
	if held.Equal(t.Truncate(time.Microsecond)) {
		return true
	}
	switch held = held.UTC(); stated.Granularity() {
	case resourcesync.Minute:
		return held.Truncate(time.Minute).Equal(t)
	case resourcesync.Day:
		return held.Truncate(24 * time.Hour).Equal(t)
	case resourcesync.Month:
		return held.Year() == t.Year() && held.Month() == t.Month()
	case resourcesync.Year:
		return held.Year() == t.Year()
	}
	return false
}

// The encoding of wants, for rows of the scratch space and for pending work.
// Its first byte is a version: pending work outlives the program that wrote it.
// Version 1 had neither links nor members; rows of Held still use it.
const (
	wantVersion = 2
	heldVersion = 1
)

var errWant = errors.New("damaged entry in the journal")

func (w *want) appendTo(b []byte) []byte {
	var flags byte
	if w.Gone {
		flags = 1
	}
	if w.applied {
		flags |= 2
	}
	if w.Instead != "" {
		flags |= 4
	}
	if w.claimed {
		flags |= 16
	}
	if w.pack > 0 {
		flags |= 8
	}
	if w.passing {
		flags |= 32
	}
	if !w.notBefore.IsZero() {
		flags |= 64
	}
	if w.main != "" {
		flags |= 128
	}
	b = append(b, wantVersion, flags, byte(w.Change), byte(w.class))
	b = appendDatetime(b, w.Lastmod)
	b = binary.AppendVarint(b, w.Length)
	b = appendHashes(b, w.Hashes)
	b = appendString(b, w.Type)
	b = appendString(b, w.Coding)
	b = appendString(b, w.Refused)
	b = binary.AppendUvarint(b, uint64(w.doc))
	b = binary.AppendUvarint(b, uint64(w.pos))
	b = binary.AppendUvarint(b, uint64(w.nth))
	b = appendDatetime(b, w.event)
	b = appendDatetime(b, w.mod)
	b = binary.AppendUvarint(b, uint64(len(w.Links)))
	for i := range w.Links {
		b = appendLink(b, &w.Links[i])
	}
	b = binary.AppendUvarint(b, uint64(w.Member.Package))
	b = appendString(b, w.Member.Path)
	if w.Instead != "" {
		b = appendString(b, w.Instead)
	}
	if w.pack > 0 {
		b = binary.AppendUvarint(b, uint64(w.pack))
	}
	if !w.notBefore.IsZero() { // last: programs before do not read it
		b = binary.AppendVarint(b, w.notBefore.Unix())
	}
	if w.main != "" {
		b = appendBool(appendString(b, w.main), w.excused)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendLink(b []byte, l *resourcesync.Link) []byte {
	for _, s := range [...]string{l.Rel, l.Href, l.Type, l.Encoding, l.Path} {
		b = appendString(b, s)
	}
	b = appendDatetime(b, l.Modified)
	length := int64(-1)
	if l.HasLength {
		length = l.Length
	}
	b = binary.AppendVarint(b, length)
	b = binary.AppendUvarint(b, uint64(l.Pri))
	return appendHashes(b, l.Hashes)
}

func (d *decoder) link() resourcesync.Link {
	l := resourcesync.Link{Rel: d.string(), Href: d.string(), Type: d.string(), Encoding: d.string(), Path: d.string(), Modified: d.datetime()}
	if n := d.varint(); n >= 0 {
		l.Length, l.HasLength = n, true
	}
	l.Pri, l.Hashes = int(d.uvarint()), d.hashes()
	return l
}

func appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = append(b, byte(h.Algorithm))
		b = appendString(b, h.Digest)
	}
	return b
}

func (d *decoder) hashes() (hs resourcesync.Hashes) {
	n := d.uvarint()
	if n > 0 && n <= uint64(len(d.b)) {
		hs = make(resourcesync.Hashes, 0, min(n, 4))
	}
	for ; n > 0 && d.ok(); n-- {
		alg := resourcesync.Algorithm(d.byte())
		hs = append(hs, resourcesync.Hash{Algorithm: alg, Digest: d.string()})
	}
	return hs
}

// decodeWant reads one want from the front of b and returns the rest. The want
// shares the memory of b.
func decodeWant(uri, b string) (want, string, error) {
	d := decoder{b: b}
	version := d.byte()
	if version != 1 && version != wantVersion {
		return want{}, "", errWant
	}
	w := want{URI: uri}
	flags := d.byte()
	w.Gone, w.applied, w.claimed = flags&1 != 0, flags&2 != 0, flags&16 != 0
	w.Change = resourcesync.Change(d.byte())
	w.class = wantClass(d.byte())
	w.Lastmod = d.datetime()
	w.Length, w.Hashes = d.varint(), d.hashes()
	w.Type, w.Coding, w.Refused = d.string(), d.string(), d.string()
	w.doc, w.pos, w.nth = int(d.uvarint()), int64(d.uvarint()), int(d.uvarint())
	w.event, w.mod = d.datetime(), d.datetime()
	if version > 1 {
		for n := d.uvarint(); n > 0 && d.ok(); n-- {
			w.Links = append(w.Links, d.link())
		}
		w.Member = member{int(d.uvarint()), d.string()}
		if flags&4 != 0 {
			w.Instead = d.string()
		}
		if flags&8 != 0 {
			w.pack = int(d.uvarint())
		}
		w.passing = flags&32 != 0
		if flags&64 != 0 {
			w.notBefore = saved.Until(time.Unix(d.varint(), 0), time.Now(), fetch.MaxDeferral)
		}
		if flags&128 != 0 {
			w.main, w.excused = d.string(), d.byte() != 0
		}
	}
	if !d.ok() {
		return want{}, "", errWant
	}
	return w, d.b, nil
}

// The intent of a batch: rows of Held, one after the other.

func appendHeld(b []byte, h *journal.Held) []byte {
	b = append(b, heldVersion)
	b = appendString(b, h.URI)
	b = appendString(b, h.Path)
	b = binary.AppendVarint(b, h.Length)
	b = appendDatetime(b, resourcesync.NewDatetime(h.Lastmod))
	b = appendHashes(b, h.Hashes)
	b = appendString(b, h.ETag)
	b = appendString(b, h.Modified)
	b = binary.AppendUvarint(b, uint64(len(h.Sets)))
	for _, n := range h.Sets {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func decodeHeld(b []byte) (journal.Held, []byte, error) {
	d := decoder{b: string(b)}
	if d.byte() != heldVersion {
		return journal.Held{}, nil, errWant
	}
	h := journal.Held{URI: d.string(), Path: d.string(), Length: d.varint(), Lastmod: d.datetime().Time(), Hashes: d.hashes()}
	h.ETag, h.Modified = d.string(), d.string()
	for n := d.uvarint(); n > 0 && d.ok(); n-- {
		h.Sets = append(h.Sets, int(d.uvarint()))
	}
	if !d.ok() {
		return journal.Held{}, nil, errWant
	}
	return h, b[len(b)-len(d.b):], nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendDatetime(b []byte, d resourcesync.Datetime) []byte {
	if d.IsZero() {
		return append(b, 0)
	}
	t := d.Time()
	b = append(b, 1+byte(d.Granularity())) // programs before read any of them as the finest
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// A decoder takes values off the front of b; after one that is not there all
// are zero and ok is false.
type decoder struct {
	b   string
	bad bool
}

func (d *decoder) ok() bool { return !d.bad }

func (d *decoder) fail() { d.b, d.bad = "", true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.b) && i < binary.MaxVarintLen64; i++ {
		c := d.b[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.b = d.b[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) datetime() resourcesync.Datetime {
	c := d.byte()
	if c == 0 {
		return resourcesync.Datetime{}
	}
	sec, nsec := d.varint(), d.uvarint()
	if !d.ok() || nsec > 999_999_999 || c-1 > byte(resourcesync.Year) {
		d.fail()
		return resourcesync.Datetime{}
	}
	t := resourcesync.NewDatetime(time.Unix(sec, int64(nsec)))
	if t.IsZero() {
		d.fail()
	}
	return t.WithGranularity(resourcesync.Granularity(c - 1))
}
