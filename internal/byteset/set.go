package byteset

import "math/bits"

// A Set is a set of bytes; [New] creates one. It is safe for concurrent use.
type Set struct {
	has [256]bool

	// A byte with the lower half l and the upper half h is in the set if
	// halves[l]&halves[16+h] is not 0: each bit stands for the upper halves that the
	// same lower halves belong to.
	halves [32]byte
	wide   bool // halves can represent the set, and the processor has AVX2
}

// New returns the set of the bytes for which has returns true.
func New(has func(c byte) bool) *Set {
	s := &Set{wide: hasAVX2}
	var rows [16]uint16 // the lower halves of each upper half
	for c := range 256 {
		if s.has[c] = has(byte(c)); s.has[c] {
			rows[c>>4] |= 1 << (c & 15)
		}
	}
	groups := map[uint16]int{}
	for high, row := range rows {
		group, known := groups[row]
		switch {
		case row == 0:
			continue
		case !known && len(groups) == 8:
			s.wide = false
			return s
		case !known:
			group = len(groups)
			groups[row] = group
			for row := row; row != 0; row &= row - 1 {
				s.halves[bits.TrailingZeros16(row)] |= 1 << group
			}
		}
		s.halves[16+high] |= 1 << group
	}
	return s
}

// Index returns the position of the first byte of b that is in the set, or len(b).
func (s *Set) Index(b []byte) int {
	if s.wide && len(b) >= blockSize {
		return index(&b[0], len(b), &s.halves)
	}
	for i, c := range b {
		if s.has[c] {
			return i
		}
	}
	return len(b)
}

// blockSize is the number of bytes that are examined at a time.
const blockSize = 32
