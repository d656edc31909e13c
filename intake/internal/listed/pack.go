package listed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// Records are packed while they are sorted. Equal records have equal packed forms, so
// a hash of the packed form shows whether an origin has changed its description of a
// resource.

// AppendRecord appends the packed form of r, without its URI and Token.
func AppendRecord(b []byte, r *catalog.Record) []byte {
	if r.Lastmod.IsZero() {
		b = append(b, 0)
	} else {
		b = binary.AppendVarint(append(b, 1), r.Lastmod.UnixMicro())
	}
	b = binary.AppendVarint(b, r.Length)
	b = AppendText(b, r.Type)
	b = AppendText(b, r.Encoding)
	b = appendHashes(b, r.Hashes)
	b = binary.AppendUvarint(b, uint64(len(r.Links)))
	for i := range r.Links {
		l := &r.Links[i]
		b = AppendText(b, l.Rel)
		b = AppendText(b, l.Href)
		b = AppendText(b, l.Type)
		b = AppendText(b, l.Encoding)
		b = AppendText(b, l.Modified.String())
		b = appendHashes(b, l.Hashes)
		length := int64(-1)
		if l.HasLength {
			length = l.Length
		}
		b = binary.AppendVarint(b, length)
		b = binary.AppendUvarint(b, uint64(l.Pri))
	}
	return appendForeign(b, r)
}

// appendForeign appends the foreign attributes and elements of r and of its links, or
// nothing if there are none, as in the fingerprints of earlier versions.
func appendForeign(b []byte, r *catalog.Record) []byte {
	hasForeign := func(l resourcesync.Link) bool { return !l.Foreign.IsZero() }
	if r.Foreign.IsZero() && !slices.ContainsFunc(r.Links, hasForeign) {
		return b
	}
	b = AppendText(b, r.Foreign.String())
	for i := range r.Links {
		b = AppendText(b, r.Links[i].Foreign.String())
	}
	return b
}

// AppendText appends the length of s and then s.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHashes(b []byte, hs resourcesync.Hashes) []byte {
	b = append(b, byte(len(hs)))
	for _, h := range hs {
		b = AppendText(append(b, byte(h.Algorithm)), h.Digest)
	}
	return b
}

// errPacked reports a record that was not packed by [AppendRecord].
var errPacked = errors.New("a stored record is damaged")

// ParseRecord is the inverse of [AppendRecord].
func ParseRecord(b []byte) (catalog.Record, error) {
	p := packed{b: b}
	var r catalog.Record
	if p.byte() != 0 {
		r.Lastmod = time.UnixMicro(p.varint()).UTC()
	}
	r.Length = p.varint()
	r.Type, r.Encoding = p.text(), p.text()
	r.Hashes = p.hashes()
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		l := resourcesync.Link{Rel: p.text(), Href: p.text(), Type: p.text(), Encoding: p.text()}
		if s := p.text(); s != "" {
			var err error
			l.Modified, err = resourcesync.ParseDatetime(s)
			p.bad = p.bad || err != nil
		}
		l.Hashes = p.hashes()
		if n := p.varint(); n >= 0 {
			l.Length, l.HasLength = n, true
		}
		l.Pri = int(p.uvarint())
		r.Links = append(r.Links, l)
	}
	if len(p.b) > 0 {
		r.Foreign = p.foreign()
		for i := range r.Links {
			r.Links[i].Foreign = p.foreign()
		}
	}
	if p.bad || len(p.b) > 0 {
		return catalog.Record{}, errPacked
	}
	return r, nil
}

// packed is the unread rest of a packed record.
type packed struct {
	b   []byte
	bad bool
}

func (p *packed) take(n uint64) []byte {
	if n > uint64(len(p.b)) {
		p.bad, p.b = true, nil
		return nil
	}
	t := p.b[:n]
	p.b = p.b[n:]
	return t
}

func (p *packed) byte() byte {
	if t := p.take(1); t != nil {
		return t[0]
	}
	return 0
}

func (p *packed) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	p.bad = p.bad || n <= 0
	p.take(uint64(max(n, 0)))
	return v
}

func (p *packed) varint() int64 {
	v, n := binary.Varint(p.b)
	p.bad = p.bad || n <= 0
	p.take(uint64(max(n, 0)))
	return v
}

func (p *packed) text() string { return string(p.take(p.uvarint())) }

func (p *packed) foreign() resourcesync.Foreign {
	f, err := resourcesync.ParseForeign(p.text())
	p.bad = p.bad || err != nil
	return f
}

func (p *packed) hashes() (hs resourcesync.Hashes) {
	for n := p.byte(); n > 0 && !p.bad; n-- {
		hs = append(hs, resourcesync.Hash{Algorithm: resourcesync.Algorithm(p.byte()), Digest: p.text()})
	}
	return hs
}

// AppendFingerprint appends 16 characters that differ for different packed records.
func AppendFingerprint(b, packed []byte) []byte {
	sum := sha256.Sum256(packed)
	return base64.RawURLEncoding.AppendEncode(b, sum[:fingerprintBytes])
}

const (
	fingerprintBytes = 12 // enough that no two of 10^9 records collide by chance

	// FingerprintSize is the number of characters of a fingerprint.
	FingerprintSize = 16
)
