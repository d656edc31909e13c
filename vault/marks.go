package vault

import (
	"encoding/binary"
	"math/rand/v2"
)

const (
	// exactMarks is how many digests are held as they are, eight bytes each of
	// them and about as much again.
	exactMarks = 1 << 20

	// filterBits is how large the filter is that holds more: 32 MiB. Of ten
	// million one in a thousand others seems to be among them, of fifty million
	// one in twelve; each time others do.
	filterBits = 1 << 28

	filterHashes = 4
)

// marks is a set of digests of bounded size. What was added it has; what it has
// was added, or seems so: what nobody needs then stays until the next sweep.
type marks struct {
	exact  map[uint64]struct{}
	filter []uint64 // nil while exact is enough
	salt   uint64
	limit  int // of exact
}

func newMarks(limit int) *marks {
	return &marks{exact: make(map[uint64]struct{}), salt: rand.Uint64(), limit: limit}
}

// short is enough of a digest to tell what may be removed: should two agree in
// it, one is kept for the other's sake.
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

// maxUses is how many chunks that others use are held in memory at a time.
const maxUses = 1 << 20

// uses says which chunks of blobs are used by others, of those blobs whose
// digests lie in a range. Where that would be too many, the range gets smaller.
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

// narrow gives up the upper half of the range.
func (u *uses) narrow() {
	u.last = u.first + (u.last-u.first)/2
	for d, used := range u.of {
		if d.short() > u.last {
			u.count -= len(used)
			delete(u.of, d)
		}
	}
}
