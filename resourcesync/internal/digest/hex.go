package digest

import (
	"encoding/binary"
	"slices"
)

// AppendHex appends the digits of a digest.
func AppendHex(b []byte, digest string) []byte {
	at := len(b)
	b = slices.Grow(b, 2*len(digest))[:at+2*len(digest)]
	hex := b[at:]
	for len(digest) >= 4 && len(hex) >= 8 {
		binary.LittleEndian.PutUint64(hex, hexPairs[digest[0]]|hexPairs[digest[1]]<<16|hexPairs[digest[2]]<<32|hexPairs[digest[3]]<<48)
		hex, digest = hex[8:], digest[4:]
	}
	for i := range len(digest) {
		binary.LittleEndian.PutUint16(hex[2*i:], uint16(hexPairs[digest[i]]))
	}
	return b
}

// hexPairs holds the two digits of each byte, the first in the lowest bits.
var hexPairs = func() (t [256]uint64) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = uint64(digits[i>>4]) | uint64(digits[i&15])<<8
	}
	return t
}()

// AppendUnhex decodes an even number of hex digits and appends the bytes. It
// reports whether all of them are hex digits.
func AppendUnhex(dst, digits []byte) ([]byte, bool) {
	bad, at := uint64(0), len(dst)
	dst = slices.Grow(dst, len(digits)/2)[:at+len(digits)/2]
	out := dst[at:]
	for len(digits) >= 8 && len(out) >= 4 {
		four, wrong := unhex8(binary.LittleEndian.Uint64(digits))
		binary.LittleEndian.PutUint32(out, four)
		bad |= wrong
		out, digits = out[4:], digits[8:]
	}
	if len(out) > 0 {
		rest := [8]byte{'0', '0', '0', '0', '0', '0', '0', '0'}
		copy(rest[:], digits)
		four, wrong := unhex8(binary.LittleEndian.Uint64(rest[:]))
		for i := range out {
			out[i] = byte(four >> (8 * i))
		}
		bad |= wrong
	}
	return dst, bad == 0
}

// unhex8 decodes eight digits, the first in the lowest bits; wrong is 0 if all of
// them are hex digits.
func unhex8(digits uint64) (four uint32, wrong uint64) {
	const each = 0x0101010101010101
	letters := digits >> 6 & each
	values := digits&(0x0f*each) + 9*letters
	// What the values are written as has to be the digits, in lower case.
	tens := (values + 6*each) >> 4 & each
	wrong = (values + 0x30*each + 0x27*tens) ^ (digits | letters<<5) | values&(0xf0*each)
	values = (values<<4 | values>>8) & 0x00ff00ff00ff00ff
	values = (values | values>>8) & 0x0000ffff0000ffff
	return uint32(values | values>>16), wrong
}
