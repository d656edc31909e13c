package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"lockstep/blob"
)

// Swept counts the results of a Sweep.
type Swept struct {
	Kept      int64 // unchanged blobs
	Removed   int64 // blobs that were no longer needed
	Rewritten int64 // blobs of which others still use a part
	Bytes     int64 // by which the store became smaller
	Damaged   int64 // needed contents whose tables cannot be read
}

// removeEach is how many blobs are removed at once.
const removeEach = 256

// Sweep removes contents that are no longer needed. needed yields the needed
// ones, in any order and possibly several times; its error ends the Sweep.
// Contents that were Put or found by Has since the Sweep began, or under a
// [Vault.Hold], are kept, and so are open ones. Sweep may run concurrently with
// all other methods; a second Sweep waits for the first.
//
// After an error nothing that is needed has been removed. Memory is bounded:
// among many million contents a few unneeded ones may remain until the next
// Sweep.
func (v *Vault) Sweep(ctx context.Context, needed func(context.Context) iter.Seq2[Digest, error]) (Swept, error) {
	select {
	case v.sweep <- struct{}{}:
	case <-ctx.Done():
		return Swept{}, ctx.Err()
	}
	defer func() { <-v.sweep }()
	s := sweeper{v: v, needed: newMarks(exactMarks), used: newMarks(exactMarks)}
	err := s.run(ctx, needed)
	if err != nil {
		err = fmt.Errorf("sweep kept contents: %w", err)
	}
	return s.swept, err
}

// A sweeper is the state of one Sweep.
type sweeper struct {
	v      *Vault
	swept  Swept
	needed *marks // contents
	used   *marks // blobs that have chunks of the needed contents
	begun  bool   // data was removed or rewritten, or is about to be
	left   bool   // a blob that uses others was not rewritten because it is in use now
}

// run sweeps. The order matters: it first begins to record pins, then reads what
// is needed, then which chunks the needed contents use. Only then it changes
// anything: it removes unused parts of blobs, and finally unused blobs.
func (s *sweeper) run(ctx context.Context, needed func(context.Context) iter.Seq2[Digest, error]) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	unfinished, err := s.v.unfinished(ctx)
	if err != nil {
		return err
	}
	s.begun = unfinished
	now, unwatch := s.v.pins.watch()
	defer unwatch()
	for _, d := range now {
		s.needed.add(d)
	}
	for d, err := range needed(ctx) {
		if err != nil {
			return err
		}
		s.needed.add(d)
	}
	for first := uint64(0); ; {
		u := newUses(first, maxUses)
		if err := s.look(ctx, u); err != nil {
			return err
		}
		if err := s.rewrite(ctx, u); err != nil {
			return err
		}
		if u.last == ^uint64(0) {
			break
		}
		first = u.last + 1
	}
	if err := s.remove(ctx); err != nil || !s.begun || s.left {
		return err
	}
	return s.v.finished(ctx)
}

// clear removes unfinished blobs of an earlier process.
func (s *sweeper) clear(ctx context.Context) error {
	store, ok := s.v.store.(blob.Sweeper)
	if !ok || s.v.cleared {
		return nil
	}
	_, err := store.Sweep(ctx, slices.Values([]string{}))
	s.v.cleared = err == nil
	return err
}

// blobs yields the blobs of the vault.
func (s *sweeper) blobs(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.v.store.List(ctx, "") {
			if err != nil {
				yield(info, err)
				return
			}
			if _, ours := parseName(info.Name); ours && !yield(info, nil) {
				return
			}
		}
	}
}

// look determines which chunks the needed contents use in blobs that are not
// needed themselves.
func (s *sweeper) look(ctx context.Context, u *uses) error {
	damaged := int64(0)
	for info, err := range s.blobs(ctx) {
		if err != nil {
			return err
		}
		d, _ := parseName(info.Name)
		if kindOf(info.Size) != kindShared || !s.needed.has(d) {
			continue
		}
		r, t, err := s.v.load(ctx, d)
		switch _, bad := errors.AsType[*DamagedError](err); {
		case bad:
			s.v.warn(ctx, err)
			damaged++
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue // replaced, or only seemed to be needed
		case err != nil:
			return err
		}
		_ = r.Close() // only read from
		for _, c := range t.chunks {
			if c.source == 0 {
				continue
			}
			source := t.sources[c.source-1]
			s.used.add(source)
			if !s.needed.has(source) {
				u.add(source, c.digest)
			}
		}
	}
	s.swept.Damaged = damaged
	return nil
}

// rewrite removes the unused parts of blobs: of all blobs that use others,
// which can then be removed, and of those of which less than half is used.
func (s *sweeper) rewrite(ctx context.Context, u *uses) error {
	for d, used := range u.of {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := s.v.store.Stat(ctx, d.name())
		if errors.Is(err, blob.ErrNotExist) {
			continue // contents that use it are damaged
		}
		if err != nil {
			return err
		}
		if err := s.rewriteOne(ctx, info, d, used); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) rewriteOne(ctx context.Context, info blob.Info, d Digest, used map[uint64]struct{}) error {
	free, done := s.v.pins.take(d)
	defer done()
	if len(free) == 0 {
		s.left = s.left || kindOf(info.Size) == kindShared
		return nil
	}
	r, t, err := s.v.load(ctx, d)
	if _, bad := errors.AsType[*DamagedError](err); bad {
		// Its table is unreadable, so its used chunks are unknown. The contents that
		// use it know their positions, and may find them intact.
		s.v.warn(ctx, err)
		s.needed.add(d)
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close() // only read from
	rest := int64(0)
	for _, c := range t.chunks {
		if _, is := used[c.digest.short()]; is && c.source == 0 {
			rest += int64(c.stored)
		}
	}
	if t.kind != kindShared && rest > t.data/2 {
		return nil
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	size, err := s.v.shrink(ctx, r, d, t, used)
	if err != nil {
		return err
	}
	s.swept.Rewritten++
	s.swept.Bytes += info.Size - size
	return nil
}

// shrink replaces a blob by a remnant with the used chunks.
func (v *Vault) shrink(ctx context.Context, r blob.Reader, d Digest, t *table, used map[uint64]struct{}) (int64, error) {
	sp := spool{store: v.store}
	defer sp.Close() // in case of an error
	rest := table{kind: kindRemnant, size: t.size}
	seen := make(map[Digest]struct{})
	var buf []byte
	for _, c := range t.chunks {
		_, is := used[c.digest.short()]
		_, twice := seen[c.digest]
		if !is || c.source != 0 || twice {
			continue
		}
		seen[c.digest] = struct{}{}
		// Even if it is damaged: its readers will get the error.
		buf = slices.Grow(buf[:0], c.stored)[:c.stored]
		if err := readFull(r, buf, c.off); err != nil {
			return 0, err
		}
		if err := sp.write(ctx, buf); err != nil {
			return 0, err
		}
		c.off = int64(len(magic)) + rest.data
		rest.data += int64(c.stored)
		rest.chunks = append(rest.chunks, c)
	}
	end := rest.appendTo(nil, d)
	w, err := sp.end(ctx, d.name(), end)
	if err != nil {
		return 0, err
	}
	defer w.Close() // drops it, unless committed
	return int64(len(magic)) + rest.data + int64(len(end)), v.store.Commit(ctx, w)
}

// remove removes unused blobs, and those that use others and are not needed
// themselves: their used chunks were rewritten before.
func (s *sweeper) remove(ctx context.Context) error {
	var gone []blob.Info
	for info, err := range s.blobs(ctx) {
		if err != nil {
			return err
		}
		d, _ := parseName(info.Name)
		if s.needed.has(d) || s.used.has(d) && kindOf(info.Size) != kindShared {
			s.swept.Kept++
			continue
		}
		if gone = append(gone, info); len(gone) == removeEach {
			if err := s.removeAll(ctx, gone); err != nil {
				return err
			}
			gone = gone[:0]
		}
	}
	return s.removeAll(ctx, gone)
}

func (s *sweeper) removeAll(ctx context.Context, infos []blob.Info) error {
	sizes := make(map[Digest]int64, len(infos))
	ds := make([]Digest, len(infos))
	for i, info := range infos {
		ds[i], _ = parseName(info.Name)
		sizes[ds[i]] = info.Size
	}
	free, done := s.v.pins.take(ds...)
	defer done()
	s.swept.Kept += int64(len(ds) - len(free))
	s.left = s.left || len(free) < len(ds)
	if len(free) == 0 {
		return nil
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	names := make([]string, len(free))
	for i, d := range free {
		names[i] = d.name()
	}
	if err := s.v.store.Remove(ctx, names...); err != nil {
		return err
	}
	for _, d := range free {
		s.swept.Removed++
		s.swept.Bytes += sizes[d]
	}
	return nil
}

// begin creates the marker before the first change.
func (s *sweeper) begin(ctx context.Context) error {
	if s.begun {
		return nil
	}
	err := s.v.begun(ctx)
	s.begun = err == nil
	return err
}
