package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"lockstep/memento"
)

// A version column holds a memento.Version but for what is in the key:
//
//	format   byte: versionFormat, and bits
//	seq      uvarint
//	event    varint, microseconds after At
//	length   varint
//
// and, of one that is not Gone,
//
//	digest   32 bytes
//	lastmod  varint, microseconds after At; only if known and not At
//	type, encoding
//	         each uvarint n, n bytes
const (
	versionFormat   = 0x10
	versionGone     = 1 << 0
	versionLastmod  = 1 << 1 // known
	versionModified = 1 << 2 // and not At

	versionBits = versionGone | versionLastmod | versionModified
)

var errVersion = errors.New("damaged version")

// AppendVersion appends v, whose Event is set, to b.
func AppendVersion(b []byte, v *memento.Version) []byte {
	at := v.At.UnixMicro()
	lastmod := v.Lastmod.UnixMicro() - at
	format := byte(versionFormat)
	switch {
	case v.Gone:
		format |= versionGone
	case v.Lastmod.IsZero():
	case lastmod == 0:
		format |= versionLastmod
	default:
		format |= versionLastmod | versionModified
	}
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(v.Seq))
	b = binary.AppendVarint(b, v.Event.UnixMicro()-at)
	b = binary.AppendVarint(b, v.Length)
	if v.Gone {
		return b
	}
	b = append(b, v.Digest[:]...)
	if format&versionModified != 0 {
		b = binary.AppendVarint(b, lastmod)
	}
	for _, s := range [...]string{v.Type, v.Encoding} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// ParseVersion sets all of v except its URI.
func ParseVersion(at int64, b []byte, v *memento.Version) error {
	*v = memento.Version{URI: v.URI, At: time.UnixMicro(at).UTC()}
	if !readVersion(at, b, v) {
		return fmt.Errorf("version of %s at %s: %w", v.URI, v.At.Format(time.RFC3339Nano), errVersion)
	}
	return nil
}

func readVersion(at int64, b []byte, v *memento.Version) (ok bool) {
	if len(b) == 0 || b[0]&^versionBits != versionFormat {
		return false
	}
	format := b[0]
	p := parser{s: string(b), i: 1}
	v.Gone = format&versionGone != 0
	v.Seq = int64(p.uvarint())
	v.Event = time.UnixMicro(at + p.varint()).UTC()
	v.Length = p.varint()
	if v.Gone {
		return !p.bad && p.i == len(p.s)
	}
	if p.i += copy(v.Digest[:], p.s[p.i:]); p.bad || len(p.s) < p.i+2 {
		return false
	}
	switch {
	case format&versionModified != 0:
		v.Lastmod = time.UnixMicro(at + p.varint()).UTC()
	case format&versionLastmod != 0:
		v.Lastmod = v.At
	}
	v.Type, v.Encoding = p.string(), p.string()
	return !p.bad && p.i == len(p.s)
}
