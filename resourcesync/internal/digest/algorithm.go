// Package digest reads and writes the values of hash attributes: tokens of
// algorithms, and digests in hex.
package digest

import "strings"

// An Algorithm is a hash function that documents of the standard use.
type Algorithm uint8

// The known algorithms (RS-HASH-02).
const (
	MD5 Algorithm = iota + 1
	SHA1
	SHA256
	SHA384
	SHA512

	Algorithms // their number and one more
)

// info holds the token and the digest size in bytes.
var info = [Algorithms]struct {
	name string
	size int
}{{}, {"md5", 16}, {"sha-1", 20}, {"sha-256", 32}, {"sha-384", 48}, {"sha-512", 64}}

// Lookup returns the algorithm with the given token, in any case, or 0. It
// reports whether the token is an alias (RS-HASH-03).
func Lookup(token string) (a Algorithm, alias bool) {
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
	if a >= Algorithms {
		return ""
	}
	return info[a].name
}

// Size returns the size of a digest of a in bytes.
func (a Algorithm) Size() int {
	if a >= Algorithms {
		return 0
	}
	return info[a].size
}
