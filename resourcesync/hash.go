package resourcesync

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/digest"
)

// An Algorithm is a hash function that documents of the standard use.
type Algorithm uint8

// The algorithms that this package supports (RS-HASH-02), numbered as in package
// digest.
const (
	MD5 Algorithm = iota + 1
	SHA1
	SHA256
	SHA384
	SHA512
)

// ErrHash reports an invalid hash.
var ErrHash = errors.New("invalid hash")

// ParseAlgorithm returns the algorithm with the given token, in any case; it
// also accepts aliases such as sha256 (RS-HASH-03).
func ParseAlgorithm(token string) (Algorithm, error) {
	a, _ := digest.Lookup(token)
	if a == 0 {
		return 0, fmt.Errorf("unknown hash algorithm %q", xmlscan.Clip(token))
	}
	return Algorithm(a), nil
}

// String returns the token of a, or "" for none.
func (a Algorithm) String() string { return digest.Algorithm(a).String() }

// Size returns the size of a digest of a in bytes.
func (a Algorithm) Size() int { return digest.Algorithm(a).Size() }

// A Hash is one digest. Hashes are comparable with ==.
type Hash struct {
	Algorithm Algorithm
	Digest    string // the raw digest bytes, not hex
}

// String returns h as written in a document: token:hexdigest.
func (h Hash) String() string { return string(h.AppendTo(nil)) }

// AppendTo appends h to b as written in a document.
func (h Hash) AppendTo(b []byte) []byte {
	b = append(b, h.Algorithm.String()...)
	b = append(b, ':')
	return digest.AppendHex(b, h.Digest)
}

// valid reports whether h can be written.
func (h Hash) valid() bool {
	return len(h.Digest) > 0 && len(h.Digest) == h.Algorithm.Size()
}

// Hashes are the digests of one resource, at most one per algorithm. Empty
// Hashes mean that none is known (RS-HASH-06).
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

// Compare returns how many algorithms hs and o have in common, and one whose
// digests differ, or 0. Content is verified if common is above zero and none
// differs (RS-HASH-06).
func (hs Hashes) Compare(o Hashes) (common int, differs Algorithm) {
	for i := range hs {
		d := o.Get(hs[i].Algorithm)
		if d == "" {
			continue
		}
		common++
		if d != hs[i].Digest && differs == 0 {
			differs = hs[i].Algorithm
		}
	}
	return common, differs
}

// String returns hs as written in a document.
func (hs Hashes) String() string { return string(hs.AppendTo(nil)) }

// AppendTo appends hs to b as written in a document, separated by blanks.
func (hs Hashes) AppendTo(b []byte) []byte {
	for i := range hs {
		if i > 0 {
			b = append(b, ' ')
		}
		b = hs[i].AppendTo(b)
	}
	return b
}

// ParseHashes returns the usable values of a hash attribute (RS-HASH-01,
// RS-HASH-03, RS-HASH-04). It describes the values that it omits or corrects:
// an omitted value is not a mismatch.
func ParseHashes(s string) (hs Hashes, liberties []string) {
	digest.Values(s, func(a digest.Algorithm, sum []byte) bool {
		if hs.Get(Algorithm(a)) != "" {
			return false
		}
		hs = append(hs, Hash{Algorithm(a), string(sum)})
		return true
	}, func(liberty string) { liberties = append(liberties, liberty) })
	return hs, liberties
}

// ParseHash parses a single value token:digest.
func ParseHash(s string) (Hash, error) {
	hs, _ := ParseHashes(s)
	if len(hs) != 1 || len(strings.Fields(s)) != 1 {
		return Hash{}, fmt.Errorf("%w %q", ErrHash, xmlscan.Clip(s))
	}
	return hs[0], nil
}
