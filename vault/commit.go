package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"lockstep/blob"
)

// A Staged is a content that was written but not committed: see [Vault.Commit].
// The caller must close it.
type Staged struct {
	v       *Vault
	digest  Digest
	size    int64
	replace bool        // an existing blob with its name must be replaced
	w       blob.Writer // nil: the vault has the content
	pinned  []Digest
}

// Digest returns the digest of the content.
func (s *Staged) Digest() Digest { return s.digest }

// Size returns its length in bytes.
func (s *Staged) Size() int64 { return s.size }

// Close drops the content, unless it has been committed.
func (s *Staged) Close() error {
	var err error
	if s.w != nil {
		err = s.w.Close()
		s.w = nil
	}
	s.v.pins.unpin(s.pinned...)
	s.pinned = nil
	return err
}

// Commit makes all staged contents durable. After an error some may be stored;
// the others remain staged.
func (v *Vault) Commit(ctx context.Context, staged ...*Staged) error {
	digests := make([]Digest, len(staged))
	for i, s := range staged {
		if s.v != v || len(s.pinned) == 0 {
			return fmt.Errorf("commit content %s: %w", s.digest, fs.ErrClosed)
		}
		digests[i] = s.digest
	}
	// Including those that existed already: they may not be durable yet.
	done, err := v.pins.claim(ctx, digests)
	if err != nil {
		return err
	}
	defer done()
	var open []*Staged
	var ws []blob.Writer
	seen := make(map[Digest]bool, len(digests))
	for _, s := range staged {
		if s.w == nil {
			continue
		}
		there := seen[s.digest]
		if !there {
			if there, err = v.overtaken(ctx, s); err != nil {
				return err
			}
		}
		seen[s.digest] = true
		if there {
			_ = s.w.Close() // it is discarded
			s.w = nil
			continue
		}
		open, ws = append(open, s), append(ws, s.w)
	}
	return v.commit(ctx, open, ws)
}

// overtaken reports whether another call has committed the same content since s
// was staged. That blob must remain, since others may use its chunks already.
func (v *Vault) overtaken(ctx context.Context, s *Staged) (bool, error) {
	t, something, err := v.find(ctx, s.digest, false)
	if err == nil && t == nil && something && !s.replace {
		err = &DamagedError{Digest: s.digest, Blob: s.digest.name(), Err: errFormat}
	}
	return t != nil, err
}

func (v *Vault) commit(ctx context.Context, open []*Staged, ws []blob.Writer) error {
	if len(ws) == 0 {
		return nil
	}
	err := v.store.Commit(ctx, ws...)
	done := len(ws)
	if err != nil {
		done = 0
		if ce, ok := errors.AsType[*blob.CommitError](err); ok {
			done = ce.Done
		}
	}
	for _, s := range open[:done] {
		s.w = nil
		v.healed(s.digest)
	}
	return err
}
