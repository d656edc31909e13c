package resourcesync

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/xmlscan"
)

// An Algorithm is a hash function that documents of the standard use.
type Algorithm uint8

// The algorithms that this package supports (RS-HASH-02).
const (
	MD5 Algorithm = iota + 1
	SHA1
	SHA256
	SHA384
	SHA512

	algorithms
)

// algorithmInfo holds the token and the digest size in bytes.
var algorithmInfo = [algorithms]struct {
	name string
	size int
}{{}, {"md5", 16}, {"sha-1", 20}, {"sha-256", 32}, {"sha-384", 48}, {"sha-512", 64}}

// ErrHash reports an invalid hash.
var ErrHash = errors.New("invalid hash")

// ParseAlgorithm returns the algorithm with the given token, in any case; it
// also accepts aliases such as sha256 (RS-HASH-03).
func ParseAlgorithm(token string) (Algorithm, error) {
	a, _ := parseAlgorithm(token)
	if a == 0 {
		return 0, fmt.Errorf("unknown hash algorithm %q", xmlscan.Clip(token))
	}
	return a, nil
}

// parseAlgorithm also reports whether the token is an alias.
func parseAlgorithm(token string) (a Algorithm, alias bool) {
	switch strings.ToLower(token) {
	case "md5":
		return MD5, false
	case "sha-1":
		return SHA1, false
	case "sha-256":
		return SHA256, false
	case "sha-384":
		return SHA384, false
	case "sha-512":
		return SHA512, false
	case "sha1":
		return SHA1, true
	case "sha256":
		return SHA256, true
	case "sha384":
		return SHA384, true
	case "sha512":
		return SHA512, true
	}
	return 0, false
}

// String returns the token of a, or "" for none.
func (a Algorithm) String() string {
	if a >= algorithms {
		return ""
	}
	return algorithmInfo[a].name
}

// Size returns the size of a digest of a in bytes.
func (a Algorithm) Size() int {
	if a >= algorithms {
		return 0
	}
	return algorithmInfo[a].size
}

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
	at := len(b)
	b = slices.Grow(b, 2*len(h.Digest))[:at+2*len(h.Digest)]
	hex, digest := b[at:], h.Digest
	for len(digest) >= 4 && len(hex) >= 8 {
		binary.LittleEndian.PutUint64(hex, hexPairs[digest[0]]|hexPairs[digest[1]]<<16|hexPairs[digest[2]]<<32|hexPairs[digest[3]]<<48)
		hex, digest = hex[8:], digest[4:]
	}
	for i := range len(digest) {
		binary.LittleEndian.PutUint16(hex[2*i:], uint16(hexPairs[digest[i]]))
	}
	return b
}

// valid reports whether h can be written.
func (h Hash) valid() bool {
	return h.Algorithm > 0 && h.Algorithm < algorithms && len(h.Digest) == h.Algorithm.Size()
}

// hexPairs holds the two digits of each byte, the first in the lowest bits.
var hexPairs = func() (t [256]uint64) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = uint64(digits[i>>4]) | uint64(digits[i&15])<<8
	}
	return t
}()

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
	parseHashes(s, func(a Algorithm, digest []byte) bool {
		if hs.Get(a) != "" {
			return false
		}
		hs = append(hs, Hash{a, string(digest)})
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

// parseHashes passes each usable value of s to add, which reports whether it
// accepted it, and each deviation to warn.
func parseHashes(s string, add func(Algorithm, []byte) bool, warn func(string)) {
	n := 0
	for value := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		if n++; n > maxHashes {
			warn("too many hash values")
			return
		}
		token, text, found := strings.Cut(value, ":")
		a, alias := parseAlgorithm(token)
		switch {
		case !found:
			warn(fmt.Sprintf("hash %q has no algorithm", xmlscan.Clip(value)))
			continue
		case a == 0:
			continue // an unknown algorithm is allowed, and ignored
		case alias:
			warn(fmt.Sprintf("algorithm spelt %q", xmlscan.Clip(token)))
		}
		digest, plain := parseDigest(a, text)
		switch {
		case digest == nil:
			warn(fmt.Sprintf("%s digest %q is neither hex nor base64 of the right length", a, xmlscan.Clip(text)))
			continue
		case !plain:
			warn(fmt.Sprintf("%s digest in base64", a))
		}
		if !add(a, digest) {
			warn(fmt.Sprintf("a second %s digest", a))
		}
	}
}

// parseDigest parses a digest in hex or, as a deviation, in base64
// (RS-HASH-04).
func parseDigest(a Algorithm, text string) (digest []byte, plain bool) {
	if len(text) == 2*a.Size() {
		if d, err := hex.DecodeString(text); err == nil {
			return d, true
		}
	}
	text = strings.TrimRight(text, "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if d, err := enc.DecodeString(text); err == nil && len(d) == a.Size() {
			return d, false
		}
	}
	return nil, false
}
