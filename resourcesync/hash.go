package resourcesync

// An Algorithm is a hash function the standard's documents name.
type Algorithm uint8

// The algorithms this package knows (RS-HASH-02).
const (
	MD5 Algorithm = iota + 1
	SHA1
	SHA256
	SHA384
	SHA512
)

// A Hash is one digest. Hashes are comparable with ==.
type Hash struct {
	Algorithm Algorithm
	Digest    string // the raw digest bytes, not hex
}

// Hashes are the digests stated for one resource, at most one per algorithm.
// An empty Hashes means that nothing is known (RS-HASH-06).
type Hashes []Hash

// Get returns the raw digest for a, or "".
func (hs Hashes) Get(a Algorithm) string {
	for i := range hs {
		if hs[i].Algorithm == a {
			return hs[i].Digest
		}
	}
	return ""
}
