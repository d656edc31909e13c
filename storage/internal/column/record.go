// Package column encodes what is stored in one column of a table although it has
// several values: records of a catalog, versions, hashes, numbers and texts.
package column

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A record column holds a catalog.Record but for its URI:
//
//	format     byte: recordPlain
//	seq        uvarint
//	event time varint, microseconds since 1970
//	lastmod    varint, microseconds since 1970; that of the zero Time when unknown
//	length     varint, -1 when unknown
//	type, encoding, token
//	           each uvarint n, n bytes
//	hashes     for each to the end: byte algorithm, uvarint n, n bytes
//
// A record with links has recordLinked instead of recordPlain; the hashes and
// then the links are each preceded by their number, as uvarint:
//
//	link       rel, href, type, encoding, modified: each uvarint n, n bytes;
//	           varint length, -1 when unknown; uvarint pri;
//	           uvarint number of hashes, hashes
//
// A record with foreign attributes or elements, or with links that have some, has
// recordForeign instead of recordLinked; its texts, first that of the record, follow
// behind the links, each as uvarint n, n bytes.
//
// SQL never looks into it, and reading a row costs by the column: with a column
// for each field a reading of the set takes twice as long.
const (
	recordPlain   = 1
	recordLinked  = 2
	recordForeign = 3
)

var errRecord = errors.New("damaged record")

// AppendRecord appends r to b.
func AppendRecord(b []byte, r *catalog.Record) []byte {
	format := formatOf(r)
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(r.Seq))
	b = binary.AppendVarint(b, r.EventTime.UnixMicro())
	b = binary.AppendVarint(b, r.Lastmod.UnixMicro())
	b = binary.AppendVarint(b, r.Length)
	for _, s := range [...]string{r.Type, r.Encoding, r.Token} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if format == recordPlain {
		return appendHashes(b, r.Hashes)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Hashes)))
	b = appendHashes(b, r.Hashes)
	b = binary.AppendUvarint(b, uint64(len(r.Links)))
	for i := range r.Links {
		b = appendLink(b, &r.Links[i])
	}
	if format == recordForeign {
		b = appendForeign(b, r.Foreign)
		for i := range r.Links {
			b = appendForeign(b, r.Links[i].Foreign)
		}
	}
	return b
}

// formatOf returns the format of r.
func formatOf(r *catalog.Record) byte {
	switch {
	case !r.Foreign.IsZero(), slices.ContainsFunc(r.Links, func(l resourcesync.Link) bool { return !l.Foreign.IsZero() }):
		return recordForeign
	case len(r.Links) > 0:
		return recordLinked
	}
	return recordPlain
}

func appendForeign(b []byte, f resourcesync.Foreign) []byte {
	s := f.String()
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	for _, h := range hs {
		b = append(b, byte(h.Algorithm))
		b = binary.AppendUvarint(b, uint64(len(h.Digest)))
		b = append(b, h.Digest...)
	}
	return b
}

func appendLink(b []byte, l *resourcesync.Link) []byte {
	modified := ""
	if !l.Modified.IsZero() {
		modified = l.Modified.String()
	}
	for _, s := range [...]string{l.Rel, l.Href, l.Type, l.Encoding, modified} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	length := int64(-1)
	if l.HasLength {
		length = l.Length
	}
	b = binary.AppendVarint(b, length)
	b = binary.AppendUvarint(b, uint64(l.Pri))
	b = binary.AppendUvarint(b, uint64(len(l.Hashes)))
	return appendHashes(b, l.Hashes)
}

// ParseRecord sets all of r except its URI. The strings of r share one copy of
// b.
func ParseRecord(b []byte, r *catalog.Record) error {
	if len(b) == 0 || b[0] < recordPlain || b[0] > recordForeign {
		return errRecord
	}
	p := parser{s: string(b), i: 1}
	r.Seq = catalog.Seq(p.uvarint())
	r.EventTime = time.UnixMicro(p.varint()).UTC()
	r.Lastmod = time.UnixMicro(p.varint()).UTC()
	r.Length = p.varint()
	r.Type, r.Encoding, r.Token = p.string(), p.string(), p.string()
	r.Hashes, r.Links, r.Foreign = nil, nil, resourcesync.Foreign{}
	if b[0] != recordPlain {
		r.Hashes = p.hashes(p.uvarint())
		for n := p.uvarint(); n > 0 && !p.bad; n-- {
			r.Links = append(r.Links, p.link())
		}
		if b[0] == recordForeign {
			r.Foreign = p.foreign()
			for i := range r.Links {
				r.Links[i].Foreign = p.foreign()
			}
		}
		p.bad = p.bad || p.i < len(p.s)
	} else if p.i < len(p.s) {
		r.Hashes = p.hashes(toEnd)
	}
	if p.bad {
		return errRecord
	}
	return nil
}

// toEnd as a number of hashes means all that follow.
const toEnd = math.MaxUint64

// hashes parses n hashes.
func (p *parser) hashes(n uint64) resourcesync.Hashes {
	if n == 0 {
		return nil
	}
	hs := make(resourcesync.Hashes, 0, 2)
	for i := uint64(0); i < n && p.i < len(p.s) && !p.bad; i++ {
		algorithm := resourcesync.Algorithm(p.s[p.i])
		p.i++
		hs = append(hs, resourcesync.Hash{Algorithm: algorithm, Digest: p.string()})
	}
	p.bad = p.bad || n != toEnd && uint64(len(hs)) < n
	return hs
}

func (p *parser) link() resourcesync.Link {
	l := resourcesync.Link{Rel: p.string(), Href: p.string(), Type: p.string(), Encoding: p.string()}
	if s := p.string(); s != "" {
		modified, err := resourcesync.ParseDatetime(s)
		p.bad = p.bad || err != nil
		l.Modified = modified
	}
	if n := p.varint(); n >= 0 {
		l.Length, l.HasLength = n, true
	}
	l.Pri = int(p.uvarint())
	l.Hashes = p.hashes(p.uvarint())
	return l
}

func (p *parser) foreign() resourcesync.Foreign {
	f, err := resourcesync.ParseForeign(p.string())
	p.bad = p.bad || err != nil
	return f
}

// A parser parses the fields of s from i on. Its error is sticky.
type parser struct {
	s   string
	i   int
	bad bool
}

func (p *parser) uvarint() uint64 {
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

func (p *parser) varint() int64 {
	v := p.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (p *parser) string() string {
	n := p.uvarint()
	if p.bad || n > uint64(len(p.s)-p.i) {
		p.bad = true
		return ""
	}
	s := p.s[p.i : p.i+int(n)]
	p.i += int(n)
	return s
}
