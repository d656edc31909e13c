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
	pools [1 << 6]sync.Pool // by the set of algorithms
}

// Algorithms returns the algorithms to compute for content described by hs:
// those stated, else SHA-256, so that a later change can be detected.
func Algorithms(hs resourcesync.Hashes) uint8 {
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

func (p *Hashers) Get(set uint8) *resourcesync.Hasher {
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

// NewHasher returns a hasher for the hashes of hs that can be computed.
func NewHasher(hs resourcesync.Hashes) *resourcesync.Hasher {
	var algs []resourcesync.Algorithm
	for _, h := range hs {
		if HasKnown(resourcesync.Hashes{h}) {
			algs = append(algs, h.Algorithm)
		}
	}
	return resourcesync.NewHasher(algs...)
}
