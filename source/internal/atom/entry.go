package atom

import (
	"encoding/binary"
	"errors"

	"lockstep/atompmh"
	"lockstep/catalog"
)

// A buildEntry is an entry on its way through a sorter.
type buildEntry struct {
	atompmh.Entry
	fresh bool        // off the catalog, and to get a time
	seq   catalog.Seq // of the change, if fresh
	at    int64       // of that in microseconds; of what was published, in milliseconds
}

// idKey sorts by identifier.
func (e *buildEntry) idKey(tag byte) []byte { return append([]byte(e.ID), 0, tag) }

// encode writes e, but for Updated.
func (e *buildEntry) encode() []byte {
	b := make([]byte, 0, 256)
	flags := byte(e.Kind) << 1
	if e.fresh {
		flags |= 1
	}
	b = append(b, flags)
	b = binary.AppendVarint(b, int64(e.seq))
	b = binary.AppendVarint(b, e.at)
	b = appendText(b, e.ID, e.Title, e.Summary)
	b = binary.AppendUvarint(b, uint64(len(e.Links)))
	for i := range e.Links {
		l := &e.Links[i]
		b = appendText(b, l.Rel, l.Href, l.Type, l.Hreflang, l.Title)
		b = binary.AppendVarint(b, l.Length)
	}
	return b
}

func appendText(b []byte, all ...string) []byte {
	for _, s := range all {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// errCutShort reports that what was to be sorted is not as it was written.
var errCutShort = errors.New("sort: an entry is cut short")

func decodeBuildEntry(b []byte) (*buildEntry, error) {
	if len(b) == 0 {
		return nil, errCutShort
	}
	d := &textDecoder{b: b[1:]}
	e := &buildEntry{fresh: b[0]&1 != 0, seq: catalog.Seq(d.number()), at: d.number()}
	e.Entry = atompmh.Entry{Kind: atompmh.Kind(b[0] >> 1), ID: d.text(), Title: d.text(), Summary: d.text()}
	for n := d.count(); n > 0 && !d.short; n-- {
		l := atompmh.Link{Rel: d.text(), Href: d.text(), Type: d.text(), Hreflang: d.text(), Title: d.text()}
		l.Length = d.number()
		e.Links = append(e.Links, l)
	}
	if d.short {
		return nil, errCutShort
	}
	return e, nil
}

// A textDecoder reads what appendText and binary wrote.
type textDecoder struct {
	b     []byte
	short bool
}

func (d *textDecoder) number() int64 {
	v, n := binary.Varint(d.b)
	return int64(d.advance(uint64(v), n))
}

func (d *textDecoder) count() uint64 {
	v, n := binary.Uvarint(d.b)
	return d.advance(v, n)
}

func (d *textDecoder) advance(v uint64, n int) uint64 {
	if n <= 0 {
		d.short, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *textDecoder) text() string {
	n := d.count()
	if n > uint64(len(d.b)) {
		d.short, d.b = true, nil
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}
