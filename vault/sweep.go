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

// Swept counts what a Sweep came to.
type Swept struct {
	Kept      int64 // blobs that stay as they are
	Removed   int64 // blobs that nobody needs any more
	Rewritten int64 // blobs of which others still use some
	Bytes     int64 // that the store has less
	Damaged   int64 // needed contents of which not even the table can be read
}

// removeEach is how many blobs are removed at once.
const removeEach = 256

// Sweep removes what nobody needs. needed yields the contents that are, in any
// order, also more than once; its error ends the Sweep. What was Put or found by
// Has since the Sweep began, or under a [Vault.Hold], stays, and so does what is
// open. It may run beside everything else; a second one waits for the first.
//
// After an error nothing that is needed has been removed. Memory is bounded: of
// many million contents a few that nobody needs may stay until the next time.
func (v *Vault) Sweep(ctx context.Context, needed func(context.Context) iter.Seq2[Digest, error]) (Swept, error) {
	select {
	case v.sweep <- struct{}{}:
	case <-ctx.Done():
		return Swept{}, ctx.Err()
	}
	defer func() { <-v.sweep }()
	s := sweeper{ctx: ctx, v: v, needed: newMarks(exactMarks), used: newMarks(exactMarks)}
	err := s.run(needed)
	if err != nil {
		err = fmt.Errorf("sweep kept contents: %w", err)
	}
	return s.swept, err
}

// A sweeper is one Sweep.
type sweeper struct {
	ctx    context.Context // of the one call of Sweep
	v      *Vault
	swept  Swept
	needed *marks // contents
	used   *marks // blobs of which the needed contents have chunks
	begun  bool   // something has been removed or rewritten, or will be at once
	left   bool   // a blob that needs others is as it was because somebody wants it just now
}

// run sweeps. The order matters: first it begins to watch what is pinned, then
// it reads what is needed, then what the contents need that are, and only then
// it changes anything: it takes from blobs what is not used of them, and at last
// removes those that are not used at all.
func (s *sweeper) run(needed func(context.Context) iter.Seq2[Digest, error]) error {
	if err := s.clear(); err != nil {
		return err
	}
	unfinished, err := s.v.unfinished(s.ctx)
	if err != nil {
		return err
	}
	s.begun = unfinished
	now, unwatch := s.v.pins.watch()
	defer unwatch()
	for _, d := range now {
		s.needed.add(d)
	}
	for d, err := range needed(s.ctx) {
		if err != nil {
			return err
		}
		s.needed.add(d)
	}
	for first := uint64(0); ; {
		u := newUses(first, maxUses)
		if err := s.look(u); err != nil {
			return err
		}
		if err := s.rewrite(u); err != nil {
			return err
		}
		if u.last == ^uint64(0) {
			break
		}
		first = u.last + 1
	}
	if err := s.remove(); err != nil || !s.begun || s.left {
		return err
	}
	return s.v.finished(s.ctx)
}

// clear removes what an earlier process left unfinished.
func (s *sweeper) clear() error {
	store, ok := s.v.store.(blob.Sweeper)
	if !ok || s.v.cleared {
		return nil
	}
	_, err := store.Sweep(s.ctx, slices.Values([]string{}))
	s.v.cleared = err == nil
	return err
}

// blobs yields the blobs of the vault.
func (s *sweeper) blobs() iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.v.store.List(s.ctx, "") {
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

// look finds out what the needed contents use of blobs that are not needed
// themselves.
func (s *sweeper) look(u *uses) error {
	damaged := int64(0)
	for info, err := range s.blobs() {
		if err != nil {
			return err
		}
		d, _ := parseName(info.Name)
		if kindOf(info.Size) != kindShared || !s.needed.has(d) {
			continue
		}
		r, t, err := s.v.load(s.ctx, d)
		switch _, bad := errors.AsType[*DamagedError](err); {
		case bad:
			s.v.warn(s.ctx, err)
			damaged++
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue // replaced, or seemed to be needed
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

// rewrite takes from blobs what is not used of them: all those that themselves
// need others, which are then free to go, and those of which less than half is
// used.
func (s *sweeper) rewrite(u *uses) error {
	for d, used := range u.of {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		info, err := s.v.store.Stat(s.ctx, d.name())
		if errors.Is(err, blob.ErrNotExist) {
			continue // whoever uses it is damaged
		}
		if err != nil {
			return err
		}
		if err := s.rewriteOne(info, d, used); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) rewriteOne(info blob.Info, d Digest, used map[uint64]struct{}) error {
	free, done := s.v.pins.take(d)
	defer done()
	if len(free) == 0 {
		s.left = s.left || kindOf(info.Size) == kindShared
		return nil
	}
	r, t, err := s.v.load(s.ctx, d)
	if _, bad := errors.AsType[*DamagedError](err); bad {
		// What of it is used cannot be told from what is not. Who uses it knows
		// where it is, and may find it unharmed.
		s.v.warn(s.ctx, err)
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
	if err := s.begin(); err != nil {
		return err
	}
	size, err := s.v.shrink(s.ctx, r, d, t, used)
	if err != nil {
		return err
	}
	s.swept.Rewritten++
	s.swept.Bytes += info.Size - size
	return nil
}

// shrink puts a remnant with the used chunks of a blob in its place.
func (v *Vault) shrink(ctx context.Context, r blob.Reader, d Digest, t *table, used map[uint64]struct{}) (int64, error) {
	sp := spool{ctx: ctx, store: v.store}
	defer sp.Close() // what was not ended
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
		// Also if it is damaged: who reads it will be told.
		buf = slices.Grow(buf[:0], c.stored)[:c.stored]
		if err := readFull(r, buf, c.off); err != nil {
			return 0, err
		}
		if err := sp.write(buf); err != nil {
			return 0, err
		}
		c.off = int64(len(magic)) + rest.data
		rest.data += int64(c.stored)
		rest.chunks = append(rest.chunks, c)
	}
	end := rest.appendTo(nil, d)
	w, err := sp.end(d.name(), end)
	if err != nil {
		return 0, err
	}
	defer w.Close() // drops it, unless committed
	return int64(len(magic)) + rest.data + int64(len(end)), v.store.Commit(ctx, w)
}

// remove removes the blobs that are not used, and those that need others and are
// not needed themselves: of these, what is used was rewritten before.
func (s *sweeper) remove() error {
	var gone []blob.Info
	for info, err := range s.blobs() {
		if err != nil {
			return err
		}
		d, _ := parseName(info.Name)
		if s.needed.has(d) || s.used.has(d) && kindOf(info.Size) != kindShared {
			s.swept.Kept++
			continue
		}
		if gone = append(gone, info); len(gone) == removeEach {
			if err := s.removeAll(gone); err != nil {
				return err
			}
			gone = gone[:0]
		}
	}
	return s.removeAll(gone)
}

func (s *sweeper) removeAll(infos []blob.Info) error {
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
	if err := s.begin(); err != nil {
		return err
	}
	names := make([]string, len(free))
	for i, d := range free {
		names[i] = d.name()
	}
	if err := s.v.store.Remove(s.ctx, names...); err != nil {
		return err
	}
	for _, d := range free {
		s.swept.Removed++
		s.swept.Bytes += sizes[d]
	}
	return nil
}

// begin leaves a mark before the first change.
func (s *sweeper) begin() error {
	if s.begun {
		return nil
	}
	err := s.v.begun(s.ctx)
	s.begun = err == nil
	return err
}
