package destination

import (
	"encoding/hex"
	"fmt"
	"sync"

	"lockstep/resourcesync"
)

// A ContentError reports content that is not what the Source describes: the
// resource changed since, or it is damaged.
type ContentError struct {
	URI  string
	What string // "hash md5" or "length"
	Want string
	Got  string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("verify %s: %s is %s, the Source states %s", e.URI, e.What, e.Got, e.Want)
}

// verify checks content of so many bytes with these hashes against what the
// Source states. A hash that matches beats a length that does not: the warning
// tells. One known hash that fails is a failure (RS-HASH-06).
func verify(w *want, length int64, got resourcesync.Hashes) (warning string, err error) {
	verified := false
	for _, stated := range w.Hashes {
		digest := got.Get(stated.Algorithm)
		if digest == "" {
			continue // unknown to us: no check
		}
		if digest != stated.Digest {
			return "", &ContentError{w.URI, "hash " + stated.Algorithm.String(), hex.EncodeToString([]byte(stated.Digest)), hex.EncodeToString([]byte(digest))}
		}
		verified = true
	}
	if w.Length < 0 || w.Length == length {
		return "", nil
	}
	wrong := &ContentError{w.URI, "length", fmt.Sprint(w.Length), fmt.Sprint(length)}
	if verified {
		return wrong.Error() + "; the hash is right, so it was kept", nil
	}
	return "", wrong
}

// hashers lends Hashers, which are costly to make for small files.
type hashers struct {
	pools [1 << 6]sync.Pool // by the set of algorithms
}

// algorithmsOf returns the algorithms to compute for content described by hs:
// those stated, else SHA-256, so that a change can be told later.
func algorithmsOf(hs resourcesync.Hashes) uint8 {
	var set uint8
	for _, h := range hs {
		if h.Algorithm >= resourcesync.MD5 && h.Algorithm <= resourcesync.SHA512 {
			set |= 1 << h.Algorithm
		}
	}
	if set == 0 {
		set = 1 << resourcesync.SHA256
	}
	return set
}

func (p *hashers) get(set uint8) *resourcesync.Hasher {
	if h, ok := p.pools[set].Get().(*resourcesync.Hasher); ok {
		h.Reset()
		return h
	}
	var algs []resourcesync.Algorithm
	for a := resourcesync.MD5; a <= resourcesync.SHA512; a++ {
		if set&(1<<a) != 0 {
			algs = append(algs, a)
		}
	}
	return resourcesync.NewHasher(algs...)
}

func (p *hashers) put(set uint8, h *resourcesync.Hasher) { p.pools[set].Put(h) }

// A localError is one of the store: the fault is here, not at the Source.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }
