package vault

import (
	"encoding/binary"
	"math/rand/v2"
)

const (
	// exactMarks is how many digests are stored exactly, with eight bytes each and
	// about as much overhead.
	exactMarks = 1 << 20

	// filterBits is the size of the filter used for more: 32 MiB. With ten million
	// entries one in a thousand other digests seems to be in it, with fifty million
	// one in twelve; each time different ones.
	filterBits = 1 << 28

	filterHashes = 4
)

// marks is a set of digests of bounded size. It contains every added digest,
// and may seem to contain others: then unneeded data remains until the next
// sweep.
type marks struct {
	exact  map[uint64]struct{}
	filter []uint64 // nil while exact suffices
	salt   uint64
	limit  int // of exact
}

func newMarks(limit int) *marks {
	return &marks{exact: make(map[uint64]struct{}), salt: rand.Uint64(), limit: limit}
}

// short is enough of a digest to decide what may be removed: if two digests
// have the same short form, one is kept because of the other.
func (d Digest) short() uint64 { return binary.BigEndian.Uint64(d[:]) }

func (m *marks) add(d Digest) {
	if m.filter != nil {
		m.set(d.short())
		return
	}
	m.exact[d.short()] = struct{}{}
	if len(m.exact) <= m.limit {
		return
	}
	m.filter = make([]uint64, filterBits/64)
	for h := range m.exact {
		m.set(h)
	}
	m.exact = nil
}

func (m *marks) has(d Digest) bool {
	if m.filter == nil {
		_, found := m.exact[d.short()]
		return found
	}
	for i := range filterHashes {
		if n := m.bit(d.short(), i); m.filter[n/64]&(1<<(n%64)) == 0 {
			return false
		}
	}
	return true
}

func (m *marks) set(h uint64) {
	for i := range filterHashes {
		n := m.bit(h, i)
		m.filter[n/64] |= 1 << (n % 64)
	}
}

// bit returns the i-th bit of a digest.
func (m *marks) bit(h uint64, i int) uint64 {
	h ^= m.salt + uint64(i)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return (h ^ h>>31) % filterBits
}

// maxUses is how many chunks used by others are held in memory at a time.
const maxUses = 1 << 20

// uses records which chunks of blobs others use, for those blobs whose digests
// are in a range. If there are too many, the range becomes smaller.
type uses struct {
	first, last uint64 // of the digests, by their short form
	of          map[Digest]map[uint64]struct{}
	count       int
	limit       int
}

func newUses(first uint64, limit int) *uses {
	return &uses{first: first, last: ^uint64(0), of: make(map[Digest]map[uint64]struct{}), limit: limit}
}

func (u *uses) add(blob, chunk Digest) {
	if h := blob.short(); h < u.first || h > u.last {
		return
	}
	used := u.of[blob]
	if used == nil {
		used = make(map[uint64]struct{})
		u.of[blob] = used
	}
	if _, twice := used[chunk.short()]; twice {
		return
	}
	used[chunk.short()] = struct{}{}
	for u.count++; u.count > u.limit && len(u.of) > 1 && u.last > u.first; {
		u.narrow()
	}
}

// narrow removes the upper half of the range.
func (u *uses) narrow() {
	u.last = u.first + (u.last-u.first)/2
	for d, used := range u.of {
		if d.short() > u.last {
			u.count -= len(used)
			delete(u.of, d)
		}
	}
}
