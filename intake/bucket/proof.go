package bucket

import (
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"lockstep/blob"
)

const (
	maxCandidates = 4        // objects that may be read to verify a bucket's entity tags: some may be gone, or be of another kind
	maxProof      = 64 << 20 // bytes of one; without a smaller object entity tags are not trusted
)

// A proof determines whether the entity tags of a bucket that look like an MD5 are
// one, by reading one of the smallest objects. This is done once in a scan, when it
// is first needed.
type proof struct {
	candidates []object // the smallest objects whose entity tags have the form of an MD5

	once   sync.Once
	proved bool
	err    error
}

// offer considers an object as a candidate. It must be called before proven.
func (p *proof) offer(o object) {
	if o.size == 0 || o.size > maxProof || md5Form(o.etag) == "" {
		return
	}
	full := len(p.candidates) == maxCandidates
	if full && o.size >= p.candidates[maxCandidates-1].size {
		return
	}
	i, _ := slices.BinarySearchFunc(p.candidates, o, func(a, b object) int { return cmp.Compare(a.size, b.size) })
	p.candidates = slices.Insert(p.candidates, i, o)
	p.candidates = p.candidates[:min(len(p.candidates), maxCandidates)]
}

// proven reports whether entity tags in the form of an MD5 can be trusted. The
// error is one that prevented the check.
func (p *proof) proven(ctx context.Context, s *scan) (bool, error) {
	p.once.Do(func() {
		for i := range p.candidates {
			var done bool
			if done, p.proved, p.err = s.prove(ctx, &p.candidates[i]); done || p.err != nil {
				return
			}
		}
	})
	return p.proved, p.err
}

// prove compares the content of an object with its entity tag; done is false if the
// object differs from its listing.
func (s *scan) prove(ctx context.Context, o *object) (done, proved bool, err error) {
	body, h, err := s.b.objects.Get(ctx, o.key())
	if errors.Is(err, blob.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("check whether entity tags are hashes: %w", err)
	}
	defer body.Close() // only read from
	if strings.Trim(h.Get("ETag"), `"`) != o.etag || !plain(h) {
		return false, false, nil
	}
	sum := md5.New()
	n, err := io.Copy(sum, io.LimitReader(body, o.size+1))
	s.Bytes.Add(n)
	if err != nil {
		return false, false, fmt.Errorf("check whether entity tags are hashes: read %q: %w", o.key(), err)
	}
	return true, string(sum.Sum(nil)) == md5Form(o.etag), nil
}
