package bitstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// Swept counts the results of a Sweep.
type Swept struct {
	Kept    int64 // representations that are needed
	Removed int64 // representations that were no longer needed
	Bytes   int64 // of those
}

const (
	// sweepMost is how many needed representations a Sweep holds in memory, eight
	// bytes each. If there are more it processes the store in parts, and reads the
	// catalogs once for each part.
	sweepMost = 1 << 20

	// removeEach is how many representations are removed at once.
	removeEach = 256
)

// A mark is the position of a set's catalog when it was swept.
type mark struct {
	set        string
	last, kept catalog.Seq
	staged     int64
}

// Sweep removes bytes that are no longer needed: all except those of the changes
// that the catalogs store, and those, or the indexes, of resources that patches are
// made from. It may run concurrently with all other methods, and is cheap if nothing has changed
// since the last Sweep. All sets whose bytes are in the store must have been
// passed to [Keeper.Catalog] before; the bytes of any other set are removed.
//
// Bytes that a running Apply relies on are kept. If Sweep returns an error, for
// example because a catalog cannot be read, it has removed no bytes that are
// needed.
func (k *Keeper) Sweep(ctx context.Context) (Swept, error) {
	k.sweeping.Lock()
	defer k.sweeping.Unlock()
	var s Swept
	sets := k.all()
	marks, total, err := k.look(ctx, sets)
	if err != nil {
		return s, fmt.Errorf("sweep kept bytes: %w", err)
	}
	if k.swept != nil && slices.Equal(marks, k.swept) {
		return s, nil
	}
	if store, ok := k.store.(blob.Sweeper); ok && k.swept == nil {
		// Unfinished blobs of an earlier process.
		if _, err := store.Sweep(ctx, slices.Values([]string{})); err != nil {
			return s, fmt.Errorf("sweep kept bytes: %w", err)
		}
	}
	for part := range parts(total) {
		if err := k.sweepPart(ctx, sets, part, &s); err != nil {
			return s, fmt.Errorf("sweep kept bytes: %w", err)
		}
	}
	k.swept = marks
	return s, nil
}

// all returns the sets in the order of their names.
func (k *Keeper) all() []*recorder {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*recorder
	for _, name := range slices.Sorted(maps.Keys(k.sets)) {
		all = append(all, k.sets[name])
	}
	return all
}

// look determines the positions of the sets, and the approximate number of
// needed representations.
func (k *Keeper) look(ctx context.Context, sets []*recorder) (marks []mark, total int64, err error) {
	marks = []mark{{staged: k.staged.Load()}}
	for _, r := range sets {
		st, err := r.Catalog.Status(ctx, r.set)
		if err != nil {
			return nil, 0, err
		}
		marks = append(marks, mark{set: r.set, last: st.Last, kept: st.Kept.Seq})
		if r.opts.Past && !st.Kept.At.IsZero() {
			total += int64(st.Last - st.Kept.Seq)
		}
		if r.opts.Patches != nil {
			total += st.Resources
		}
	}
	return marks, total, nil
}

// A part is the digests whose first bits, as a number, are in a range.
type part struct{ first, last uint16 }

// parts divides the digests into parts, each with at most about sweepMost
// needed ones.
func parts(total int64) iter.Seq[part] {
	n := min(total/sweepMost+1, 1<<16)
	return func(yield func(part) bool) {
		for i := range n {
			if !yield(part{uint16(i << 16 / n), uint16((i+1)<<16/n - 1)}) {
				return
			}
		}
	}
}

func (p part) has(d digest) bool {
	head := binary.BigEndian.Uint16(d[:])
	return p.first <= head && head <= p.last
}

// directories yields the name prefixes of the blobs in the part.
func (p part) directories() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := int(p.first >> 8); i <= int(p.last>>8); i++ {
			if !yield(fmt.Sprintf("%02x/", i)) {
				return
			}
		}
	}
}

// sweepPart sweeps one part. The order matters: it first begins to record pins,
// then reads what is needed, then lists the store.
func (k *Keeper) sweepPart(ctx context.Context, sets []*recorder, p part, s *Swept) error {
	k.pins.watch()
	defer k.pins.unwatch()
	var needed []uint64
	for _, r := range sets {
		for d, err := range r.needs(ctx) {
			if err != nil {
				return err
			}
			if p.has(d) {
				needed = append(needed, d.short())
			}
		}
	}
	slices.Sort(needed)
	for dir := range p.directories() {
		if err := k.sweepDirectory(ctx, dir, p, needed, s); err != nil {
			return err
		}
	}
	return nil
}

// short is enough of a digest to decide what may be removed: if two digests
// have the same short form, one is kept because of the other.
func (d digest) short() uint64 { return binary.BigEndian.Uint64(d[:]) }

func (k *Keeper) sweepDirectory(ctx context.Context, dir string, p part, needed []uint64, s *Swept) error {
	var gone []blob.Info
	for info, err := range k.store.List(ctx, dir) {
		if err != nil {
			return err
		}
		d, ours := parseName(info.Name)
		if !ours || !p.has(d) {
			continue
		}
		if _, found := slices.BinarySearch(needed, d.short()); found {
			s.Kept++
			continue
		}
		if gone = append(gone, info); len(gone) == removeEach {
			if err := k.remove(ctx, gone, s); err != nil {
				return err
			}
			gone = gone[:0]
		}
	}
	return k.remove(ctx, gone, s)
}

// remove removes those of the blobs that were not pinned since.
func (k *Keeper) remove(ctx context.Context, infos []blob.Info, s *Swept) error {
	sizes := make(map[digest]int64, len(infos))
	for _, info := range infos {
		d, _ := parseName(info.Name)
		sizes[d] = info.Size
	}
	free, done := k.pins.doom(slices.Collect(maps.Keys(sizes)))
	defer done()
	names := make([]string, len(free))
	for i, d := range free {
		names[i] = d.name()
	}
	if err := k.store.Remove(ctx, names...); err != nil {
		return err
	}
	for _, d := range free {
		s.Removed++
		s.Bytes += sizes[d]
	}
	s.Kept += int64(len(sizes) - len(free))
	return nil
}

// needs yields the digests that the set needs.
func (r *recorder) needs(ctx context.Context) iter.Seq2[digest, error] {
	return func(yield func(digest, error) bool) {
		if r.opts.Past {
			for c, err := range r.Catalog.Changes(ctx, r.set, 0) {
				d, ok := digestOf(c.Hashes)
				if err != nil || ok && c.Change != resourcesync.Deleted {
					if !yield(d, err) || err != nil {
						return
					}
				}
			}
		}
		if r.opts.Patches == nil {
			return
		}
		for rec, err := range r.Catalog.Resources(ctx, r.set, catalog.Range{}) {
			d, ok := digestOf(rec.Hashes)
			if r.opts.Patches.isLarge(rec.Length) {
				d = indexOf(d)
			}
			if err != nil || ok && rec.Length <= r.opts.Patches.MaxBytes {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}
