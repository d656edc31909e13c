package content

import "lockstep/resourcesync"

// A Likeness says whether two descriptions are of the same content.
type Likeness uint8

// What two descriptions can be: of contents that may be the same, that are, and
// that are not.
const (
	Unknown Likeness = iota
	Same
	Different
)

// Compare compares the hashes of two contents, which may be of different
// algorithms.
func Compare(a, b resourcesync.Hashes) Likeness {
	l := Unknown
	for _, h := range a {
		if digest := b.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return Different
			}
			l = Same
		}
	}
	return l
}
