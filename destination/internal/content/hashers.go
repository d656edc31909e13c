package content

import (
	"context"
	"sync"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// Hashers lends hashers, because making one takes long compared with hashing a
// small file. The zero value is ready to use.
type Hashers struct {
	All   bool              // verify all hashes that are stated, not only the strongest
	pools [1 << 6]sync.Pool // by the set of algorithms
}

// Algorithms returns the algorithms to compute for content described by hs: the
// strongest of those stated, with All each of them (RS-HASH-06), and SHA-256 if
// there is none, so that a later change can be detected.
func (p *Hashers) Algorithms(hs resourcesync.Hashes) uint8 {
	if p.All {
		return All(hs)
	}
	return Strongest(hs)
}

// Strongest returns the strongest algorithm of hs that can be computed, as a set:
// what it confirms, a weaker one cannot make more certain. It returns SHA-256 if
// there is none.
func Strongest(hs resourcesync.Hashes) uint8 {
	strongest := resourcesync.Algorithm(0)
	for _, h := range hs {
		if h.Algorithm <= resourcesync.SHA512 {
			strongest = max(strongest, h.Algorithm) // they are numbered by strength
		}
	}
	if strongest == 0 {
		strongest = resourcesync.SHA256
	}
	return 1 << strongest
}

// All returns the set of the algorithms of hs that can be computed, or SHA-256 if
// there is none.
func All(hs resourcesync.Hashes) uint8 {
	set := Strongest(hs)
	for _, h := range hs {
		if h.Algorithm >= resourcesync.MD5 && h.Algorithm <= resourcesync.SHA512 {
			set |= 1 << h.Algorithm
		}
	}
	return set
}

func (p *Hashers) Get(set uint8) *resourcesync.Hasher {
	if h, ok := p.pools[set].Get().(*resourcesync.Hasher); ok {
		h.Reset()
		return h
	}
	return newHasher(set)
}

func (p *Hashers) Put(set uint8, h *resourcesync.Hasher) { p.pools[set].Put(h) }

// Blob reads a committed blob and returns its length and hashes.
func (p *Hashers) Blob(ctx context.Context, s blob.Store, path string, algs uint8) (int64, resourcesync.Hashes, error) {
	r, err := s.Open(ctx, path)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	h := p.Get(algs)
	defer p.Put(algs, h)
	n, err := Copy(nil, h, WithContext(ctx, r))
	if err != nil {
		return 0, nil, err
	}
	return n, h.Sum(), nil
}

// Sum reads r to its end and returns how many bytes came and their hashes.
func (p *Hashers) Sum(ctx context.Context, r blob.Reader, algs uint8) (int64, resourcesync.Hashes, error) {
	h := p.Get(algs)
	defer p.Put(algs, h)
	n, err := Copy(nil, h, WithContext(ctx, r))
	if err != nil {
		return n, nil, err
	}
	return n, h.Sum(), nil
}

// HasKnown reports whether hs has a hash that can be computed.
func HasKnown(hs resourcesync.Hashes) bool {
	for _, h := range hs {
		if h.Algorithm >= resourcesync.MD5 && h.Algorithm <= resourcesync.SHA512 {
			return true
		}
	}
	return false
}

// NewHasher returns a hasher for the strongest of the hashes of hs, or all of them,
// that can be computed.
func NewHasher(hs resourcesync.Hashes, all bool) *resourcesync.Hasher {
	if !HasKnown(hs) {
		return resourcesync.NewHasher()
	}
	set := (&Hashers{All: all}).Algorithms(hs)
	return newHasher(set)
}

func newHasher(set uint8) *resourcesync.Hasher {
	var algs []resourcesync.Algorithm
	for a := resourcesync.MD5; a <= resourcesync.SHA512; a++ {
		if set&(1<<a) != 0 {
			algs = append(algs, a)
		}
	}
	return resourcesync.NewHasher(algs...)
}
