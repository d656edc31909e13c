package simulate

import (
	"encoding/binary"
	"io"
)

// golden is 2^64 divided by the golden ratio: steps of it reach everywhere.
const golden = 0x9e3779b97f4a7c15

// mix64 is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): each bit of x
// influences each bit of the result.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// newContent returns size pseudorandom bytes determined by key. Any part of
// them can be read without the preceding ones.
func newContent(key uint64, size int64) *io.SectionReader {
	return io.NewSectionReader(noise(key), 0, size)
}

// noise is an endless byte sequence: the i-th eight are mix64 of a sum of the
// key and i steps.
type noise uint64

// ReadAt implements [io.ReaderAt].
func (k noise) ReadAt(p []byte, off int64) (int, error) {
	var word [8]byte
	i, n := uint64(off)/8, 0
	if skip := int(off % 8); skip > 0 {
		binary.LittleEndian.PutUint64(word[:], k.word(i))
		n = copy(p, word[skip:])
		i++
	}
	for ; n+8 <= len(p); n += 8 {
		binary.LittleEndian.PutUint64(p[n:], k.word(i))
		i++
	}
	if n < len(p) {
		binary.LittleEndian.PutUint64(word[:], k.word(i))
		copy(p[n:], word[:])
	}
	return len(p), nil
}

func (k noise) word(i uint64) uint64 { return mix64(uint64(k) + golden*i) }
