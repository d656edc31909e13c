package sqldb

import (
	"encoding/binary"
	"errors"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A record column holds a catalog.Record but for its URI:
//
//	format     byte: recordFormat
//	seq        uvarint
//	event time varint, microseconds since 1970
//	lastmod    varint, microseconds since 1970; that of the zero Time when unknown
//	length     varint, -1 when unknown
//	type, encoding, token
//	           each uvarint n, n bytes
//	hashes     for each to the end: byte algorithm, uvarint n, n bytes
//
// SQL never looks into it, and reading a row costs by the column: with a column
// for each field a reading of the set takes twice as long.
const recordFormat = 1

var errRecord = errors.New("damaged record")

// appendRecord appends r to b.
func appendRecord(b []byte, r *catalog.Record) []byte {
	b = append(b, recordFormat)
	b = binary.AppendUvarint(b, uint64(r.Seq))
	b = binary.AppendVarint(b, r.EventTime.UnixMicro())
	b = binary.AppendVarint(b, r.Lastmod.UnixMicro())
	b = binary.AppendVarint(b, r.Length)
	for _, s := range [...]string{r.Type, r.Encoding, r.Token} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, h := range r.Hashes {
		b = append(b, byte(h.Algorithm))
		b = binary.AppendUvarint(b, uint64(len(h.Digest)))
		b = append(b, h.Digest...)
	}
	return b
}

// parseRecord sets all of r but its URI. The strings of r share one copy of b.
func parseRecord(b []byte, r *catalog.Record) error {
	if len(b) == 0 || b[0] != recordFormat {
		return errRecord
	}
	p := recordParser{s: string(b), i: 1}
	r.Seq = catalog.Seq(p.uvarint())
	r.EventTime = time.UnixMicro(p.varint()).UTC()
	r.Lastmod = time.UnixMicro(p.varint()).UTC()
	r.Length = p.varint()
	r.Type, r.Encoding, r.Token = p.string(), p.string(), p.string()
	r.Hashes = nil
	if p.i < len(p.s) && !p.bad {
		r.Hashes = make(resourcesync.Hashes, 0, 2)
	}
	for p.i < len(p.s) && !p.bad {
		algorithm := resourcesync.Algorithm(p.s[p.i])
		p.i++
		r.Hashes = append(r.Hashes, resourcesync.Hash{Algorithm: algorithm, Digest: p.string()})
	}
	if p.bad {
		return errRecord
	}
	return nil
}

// A recordParser reads the fields of s from i on. Damage sticks.
type recordParser struct {
	s   string
	i   int
	bad bool
}

func (p *recordParser) uvarint() uint64 {
	var v uint64
	for shift := 0; p.i < len(p.s) && shift < 64; shift += 7 {
		c := p.s[p.i]
		p.i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	p.bad = true
	return 0
}

func (p *recordParser) varint() int64 {
	v := p.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (p *recordParser) string() string {
	n := p.uvarint()
	if p.bad || n > uint64(len(p.s)-p.i) {
		p.bad = true
		return ""
	}
	s := p.s[p.i : p.i+int(n)]
	p.i += int(n)
	return s
}
