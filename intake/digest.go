package intake

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"

	"lockstep/resourcesync"
)

// digester computes several digests in one pass.
type digester struct {
	algs []resourcesync.Algorithm
	sums []hash.Hash
	size int64
}

func newDigester(algs ...resourcesync.Algorithm) *digester {
	h := &digester{algs: algs}
	for _, a := range algs {
		switch a {
		case resourcesync.MD5:
			h.sums = append(h.sums, md5.New())
		case resourcesync.SHA1:
			h.sums = append(h.sums, sha1.New())
		case resourcesync.SHA256:
			h.sums = append(h.sums, sha256.New())
		case resourcesync.SHA384:
			h.sums = append(h.sums, sha512.New384())
		case resourcesync.SHA512:
			h.sums = append(h.sums, sha512.New())
		}
	}
	return h
}

func (h *digester) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	for _, s := range h.sums {
		s.Write(p) // a hash.Hash never fails
	}
	return len(p), nil
}

func (h *digester) Size() int64 { return h.size }

func (h *digester) Sum() resourcesync.Hashes {
	hs := make(resourcesync.Hashes, len(h.sums))
	for i, s := range h.sums {
		hs[i] = resourcesync.Hash{Algorithm: h.algs[i], Digest: string(s.Sum(nil))}
	}
	return hs
}

func (h *digester) Reset() {
	h.size = 0
	for _, s := range h.sums {
		s.Reset()
	}
}
