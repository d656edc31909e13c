package resourcesync

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha512"
	"hash"
	"io"

	"lockstep/internal/hashlanes"
	"lockstep/resourcesync/internal/digest"
)

// A Hasher computes several digests in one pass over the bytes written to it.
type Hasher struct {
	states  [digest.Algorithms]hash.Hash
	several bool // of these
	size    int64
	sums    []byte // memory for Sum
}

// NewHasher returns a Hasher for the given algorithms; it ignores unknown ones
// and repetitions.
func NewHasher(algs ...Algorithm) *Hasher {
	h := new(Hasher)
	for _, a := range algs {
		switch a {
		case MD5:
			h.states[a] = md5.New()
		case SHA1:
			h.states[a] = sha1.New()
		case SHA256:
			h.states[a] = hashlanes.NewSHA256()
		case SHA384:
			h.states[a] = sha512.New384()
		case SHA512:
			h.states[a] = sha512.New()
		}
	}
	n := 0
	for _, s := range h.states {
		if s != nil {
			n++
		}
	}
	h.several = n > 1
	return h
}

// NewHasher returns a Hasher for the algorithms of hs, to verify content
// against hs.
func (hs Hashes) NewHasher() *Hasher {
	var algs [digest.Algorithms]Algorithm
	n := 0
	for i := range hs {
		if n < len(algs) {
			algs[n] = hs[i].Algorithm
			n++
		}
	}
	return NewHasher(algs[:n]...)
}

// Write adds p to the digests. It never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	piece := len(p)
	if h.several {
		piece = 16 << 10 // stays in the processor's cache from one algorithm to the next
	}
	for rest := p; len(rest) > 0; {
		n := min(piece, len(rest))
		for _, s := range h.states {
			if s != nil {
				s.Write(rest[:n]) // a hash.Hash never fails
			}
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Split returns one Writer for each algorithm and at least one, which may be
// used concurrently. The caller writes the same bytes to all of them, instead
// of to h; h must not be used until all have received the same. Writing never
// fails.
func (h *Hasher) Split() []io.Writer {
	ws := []io.Writer{(*hasherSize)(&h.size)}
	for _, s := range h.states {
		if s != nil {
			ws = append(ws, s)
		}
	}
	if len(ws) > 1 { // the first algorithm counts the size too
		ws[1] = io.MultiWriter(ws[0], ws[1])
		ws = ws[1:]
	}
	return ws
}

// A hasherSize counts the bytes written to it.
type hasherSize int64

func (n *hasherSize) Write(p []byte) (int, error) {
	*n += hasherSize(len(p))
	return len(p), nil
}

// Size returns the number of bytes written.
func (h *Hasher) Size() int64 { return h.size }

// Sum returns the digests of the bytes written so far, in the order of the
// algorithms' constants.
func (h *Hasher) Sum() Hashes {
	all, n := h.sums[:0], 0
	for _, s := range h.states {
		if s != nil {
			all, n = s.Sum(all), n+1
		}
	}
	if n == 0 {
		return nil
	}
	h.sums = all
	hs, text := make(Hashes, 0, n), string(all)
	for a, s := range h.states {
		if s != nil {
			size := Algorithm(a).Size()
			hs = append(hs, Hash{Algorithm(a), text[:size]})
			text = text[size:]
		}
	}
	return hs
}

// Reset restarts h with the same algorithms.
func (h *Hasher) Reset() {
	h.size = 0
	for _, s := range h.states {
		if s != nil {
			s.Reset()
		}
	}
}
