package byteset

import "math/bits"

// A Set is a set of bytes; [New] creates one. It is safe for concurrent use.
type Set struct {
	has [256]byte // 1 for those in the set

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
		if has(byte(c)) {
			s.has[c] = 1
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
	i := 0
	for ; i+8 <= len(b); i += 8 {
		p, has := b[i:i+8], &s.has
		if has[p[0]]|has[p[1]]|has[p[2]]|has[p[3]]|has[p[4]]|has[p[5]]|has[p[6]]|has[p[7]] != 0 {
			break
		}
	}
	for i < len(b) && s.has[b[i]] == 0 {
		i++
	}
	return i
}

// blockSize is the number of bytes that are examined at a time.
const blockSize = 32
