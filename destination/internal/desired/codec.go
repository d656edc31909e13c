package desired

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// The first byte of an encoded Resource is a version, because another version of
// the program may read pending work. Version 1 had neither links nor members, and
// version 2 only the links that lead to content; version 1 of an encoded row did not
// end with what the Source states.
const (
	resourceVersion = 3
	heldVersion     = 2
)

// ErrDamaged reports that an entry of the Journal cannot be decoded.
var ErrDamaged = errors.New("damaged entry in the journal")

// Append appends the encoding of w to b.
func (w *Resource) Append(b []byte) []byte {
	var flags byte
	if w.Gone {
		flags = 1
	}
	if w.Applied {
		flags |= 2
	}
	if w.Instead != "" {
		flags |= 4
	}
	if w.Unconfirmed {
		flags |= 16
	}
	if w.ManifestPackage > 0 {
		flags |= 8
	}
	if w.Transient {
		flags |= 32
	}
	if !w.NotBefore.IsZero() {
		flags |= 64
	}
	if w.MainURI != "" {
		flags |= 128
	}
	b = append(b, resourceVersion, flags, byte(w.Change), byte(w.Class))
	foreign := w.hasForeign()
	b = append(b, boolByte(w.Undescribed)|boolByte(w.Companion)<<1|boolByte(foreign)<<2)
	b = AppendDatetime(b, w.Lastmod)
	b = binary.AppendVarint(b, w.Length)
	b = appendHashes(b, w.Hashes)
	b = AppendString(b, w.Type)
	b = AppendString(b, w.Coding)
	b = AppendString(b, w.Refused)
	b = binary.AppendUvarint(b, uint64(w.Doc))
	b = binary.AppendUvarint(b, uint64(w.Pos))
	b = binary.AppendUvarint(b, uint64(w.Nth))
	b = AppendDatetime(b, w.Event)
	b = AppendDatetime(b, w.Modified)
	b = binary.AppendUvarint(b, uint64(len(w.Links)))
	for i := range w.Links {
		b = appendLink(b, &w.Links[i])
	}
	b = binary.AppendUvarint(b, uint64(w.Member.Package))
	b = AppendString(b, w.Member.Path)
	if w.Instead != "" {
		b = AppendString(b, w.Instead)
	}
	if w.ManifestPackage > 0 {
		b = binary.AppendUvarint(b, uint64(w.ManifestPackage))
	}
	if !w.NotBefore.IsZero() { // at the end, because older programs do not read it
		b = binary.AppendVarint(b, w.NotBefore.Unix())
	}
	if w.MainURI != "" {
		b = appendBool(AppendString(b, w.MainURI), w.Excused)
	}
	if foreign {
		b = AppendString(b, w.Foreign.String())
		for i := range w.Links {
			b = AppendString(b, w.Links[i].Foreign.String())
		}
	}
	return b
}

// hasForeign reports whether w or one of its links has foreign attributes or elements.
func (w *Resource) hasForeign() bool {
	return !w.Foreign.IsZero() || slices.ContainsFunc(w.Links, func(l resourcesync.Link) bool { return !l.Foreign.IsZero() })
}

func appendBool(b []byte, v bool) []byte { return append(b, boolByte(v)) }

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendLink(b []byte, l *resourcesync.Link) []byte {
	for _, s := range [...]string{l.Rel, l.Href, l.Type, l.Encoding, l.Path} {
		b = AppendString(b, s)
	}
	b = AppendDatetime(b, l.Modified)
	length := int64(-1)
	if l.HasLength {
		length = l.Length
	}
	b = binary.AppendVarint(b, length)
	b = binary.AppendUvarint(b, uint64(l.Pri))
	return appendHashes(b, l.Hashes)
}

func (d *Decoder) link() resourcesync.Link {
	l := resourcesync.Link{Rel: d.Text(), Href: d.Text(), Type: d.Text(), Encoding: d.Text(), Path: d.Text(), Modified: d.Datetime()}
	if n := d.varint(); n >= 0 {
		l.Length, l.HasLength = n, true
	}
	l.Pri, l.Hashes = int(d.Uvarint()), d.hashes()
	return l
}

func (d *Decoder) foreign() resourcesync.Foreign {
	f, err := resourcesync.ParseForeign(d.Text())
	if err != nil {
		d.fail()
	}
	return f
}

func appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = append(b, byte(h.Algorithm))
		b = AppendString(b, h.Digest)
	}
	return b
}

func (d *Decoder) hashes() (hs resourcesync.Hashes) {
	n := d.Uvarint()
	if n > 0 && n <= uint64(len(d.B)) {
		hs = make(resourcesync.Hashes, 0, min(n, 4))
	}
	for ; n > 0 && d.OK(); n-- {
		alg := resourcesync.Algorithm(d.Byte())
		hs = append(hs, resourcesync.Hash{Algorithm: alg, Digest: d.Text()})
	}
	return hs
}

// Decode reads one Resource from the front of b and returns the rest. The
// Resource shares the memory of b.
func Decode(uri, b string) (Resource, string, error) {
	d := Decoder{B: b}
	version := d.Byte()
	if version < 1 || version > resourceVersion {
		return Resource{}, "", ErrDamaged
	}
	w := Resource{URI: uri, Undescribed: version < 3}
	flags := d.Byte()
	w.Gone, w.Applied, w.Unconfirmed = flags&1 != 0, flags&2 != 0, flags&16 != 0
	w.Change = resourcesync.Change(d.Byte())
	w.Class = Class(d.Byte())
	var more byte
	if version > 2 {
		more = d.Byte()
		w.Undescribed, w.Companion = more&1 != 0, more&2 != 0
	}
	w.Lastmod = d.Datetime()
	w.Length, w.Hashes = d.varint(), d.hashes()
	w.Type, w.Coding, w.Refused = d.Text(), d.Text(), d.Text()
	w.Doc, w.Pos, w.Nth = int(d.Uvarint()), int64(d.Uvarint()), int(d.Uvarint())
	w.Event, w.Modified = d.Datetime(), d.Datetime()
	if version > 1 {
		for n := d.Uvarint(); n > 0 && d.OK(); n-- {
			w.Links = append(w.Links, d.link())
		}
		w.Member = Member{int(d.Uvarint()), d.Text()}
		if flags&4 != 0 {
			w.Instead = d.Text()
		}
		if flags&8 != 0 {
			w.ManifestPackage = int(d.Uvarint())
		}
		w.Transient = flags&32 != 0
		if flags&64 != 0 {
			w.NotBefore = saved.Until(time.Unix(d.varint(), 0), time.Now(), fetch.MaxDeferral)
		}
		if flags&128 != 0 {
			w.MainURI, w.Excused = d.Text(), d.Byte() != 0
		}
		if more&4 != 0 {
			w.Foreign = d.foreign()
			for i := range w.Links {
				w.Links[i].Foreign = d.foreign()
			}
		}
	}
	if !d.OK() {
		return Resource{}, "", ErrDamaged
	}
	return w, d.B, nil
}

// AppendHeld appends the encoding of h to b. The intent of a batch is a sequence of
// such rows.
func AppendHeld(b []byte, h *journal.Held) []byte {
	b = append(b, heldVersion)
	b = AppendString(b, h.URI)
	b = AppendString(b, h.Path)
	b = binary.AppendVarint(b, h.Length)
	b = AppendDatetime(b, resourcesync.NewDatetime(h.Lastmod))
	b = appendHashes(b, h.Hashes)
	b = AppendString(b, h.ETag)
	b = AppendString(b, h.Modified)
	b = binary.AppendUvarint(b, uint64(len(h.Sets)))
	for _, n := range h.Sets {
		b = binary.AppendUvarint(b, uint64(n))
	}
	var buf [512]byte
	stated := h.AppendStated(buf[:0])
	return append(binary.AppendUvarint(b, uint64(len(stated))), stated...)
}

// DecodeHeld reads one row from the front of b and returns the rest.
func DecodeHeld(b []byte) (journal.Held, []byte, error) {
	d := Decoder{B: string(b)}
	version := d.Byte()
	if version != 1 && version != heldVersion {
		return journal.Held{}, nil, ErrDamaged
	}
	h := journal.Held{URI: d.Text(), Path: d.Text(), Length: d.varint(), Lastmod: d.Datetime().Time(), Hashes: d.hashes()}
	h.ETag, h.Modified = d.Text(), d.Text()
	for n := d.Uvarint(); n > 0 && d.OK(); n-- {
		h.Sets = append(h.Sets, int(d.Uvarint()))
	}
	stated := ""
	if version > 1 {
		stated = d.Text()
	}
	if !d.OK() || h.DecodeStated([]byte(stated)) != nil {
		return journal.Held{}, nil, ErrDamaged
	}
	return h, b[len(b)-len(d.B):], nil
}

// AppendString appends the encoding of s to b.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendDatetime appends the encoding of d to b.
func AppendDatetime(b []byte, d resourcesync.Datetime) []byte {
	if d.IsZero() {
		return append(b, 0)
	}
	t := d.Time()
	b = append(b, 1+byte(d.Granularity())) // older programs read every granularity as the finest
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// AppendPatches appends the encoding of chain to b.
func AppendPatches(b []byte, chain []Patch) []byte {
	b = binary.AppendUvarint(b, uint64(len(chain)))
	for i := range chain {
		s := &chain[i]
		b = appendBool(appendHashes(b, s.From), s.FromHeld)
		b = appendLink(binary.AppendVarint(b, s.Length), &s.Link)
		b = AppendString(binary.AppendUvarint(b, uint64(s.Member.Package)), s.Member.Path)
	}
	return b
}

// Patches decodes the value that AppendPatches encoded.
func (d *Decoder) Patches() (chain []Patch) {
	for n := d.Uvarint(); n > 0 && d.OK(); n-- {
		chain = append(chain, Patch{From: d.hashes(), FromHeld: d.Byte() == 1, Length: d.varint(), Link: d.link(),
			Member: Member{int(d.Uvarint()), d.Text()}})
	}
	return chain
}

// A Decoder reads values from the front of its text. After a missing value all
// further values are zero and OK returns false.
type Decoder struct {
	B   string // remaining text
	bad bool
}

// OK reports whether no value was missing so far.
func (d *Decoder) OK() bool { return !d.bad }

func (d *Decoder) fail() { d.B, d.bad = "", true }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.fail()
		return 0
	}
	c := d.B[0]
	d.B = d.B[1:]
	return c
}

// Uvarint reads an unsigned number.
func (d *Decoder) Uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.B) && i < binary.MaxVarintLen64; i++ {
		c := d.B[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.B = d.B[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

func (d *Decoder) varint() int64 {
	v := d.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// Text decodes the value that AppendString encoded.
func (d *Decoder) Text() string {
	n := d.Uvarint()
	if n > uint64(len(d.B)) {
		d.fail()
		return ""
	}
	s := d.B[:n]
	d.B = d.B[n:]
	return s
}

// Datetime decodes the value that AppendDatetime encoded.
func (d *Decoder) Datetime() resourcesync.Datetime {
	c := d.Byte()
	if c == 0 {
		return resourcesync.Datetime{}
	}
	sec, nsec := d.varint(), d.Uvarint()
	if !d.OK() || nsec > 999_999_999 || c-1 > byte(resourcesync.Year) {
		d.fail()
		return resourcesync.Datetime{}
	}
	t := resourcesync.NewDatetime(time.Unix(sec, int64(nsec)))
	if t.IsZero() {
		d.fail()
	}
	return t.WithGranularity(resourcesync.Granularity(c - 1))
}
