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
	bad, at := byte(0), len(dst)
	dst = slices.Grow(dst, len(digits)/2)[:at+len(digits)/2]
	out := dst[at:]
	for i := range out {
		pair := digits[2*i : 2*i+2]
		hi, lo := unhex[pair[0]], unhex[pair[1]]
		bad |= hi | lo
		out[i] = hi<<4 | lo
	}
	return dst, bad <= 15
}

// unhex holds the value of each hex digit, and 0xff for other bytes.
var unhex = func() (t [256]byte) {
	for i := range t {
		switch c := byte(i); {
		case c >= '0' && c <= '9':
			t[i] = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			t[i] = c | 0x20 - 'a' + 10
		default:
			t[i] = 0xff
		}
	}
	return t
}()
