package memento

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Policy selects the versions to keep: those that any of its fields selects,
// and the current version of each resource.
type Policy struct {
	All   bool          // all
	Count int           // this many of each resource, the newest
	Age   time.Duration // those that were replaced, or deleted, more recently than this

	// Versions that published documents name (ME-RET-01). All with a Seq above
	// FloorSeq are kept, so that the zero Policy keeps all; and for each resource
	// its state when the set was at one of SnapshotSeqs.
	FloorSeq     int64
	SnapshotSeqs []int64
}

// Retained is the result of a [Retain].
type Retained struct {
	Kept, Dropped int64     // versions, not counting those that are Gone
	Bytes         int64     // lengths of those kept
	Oldest        time.Time // At of the oldest kept version; zero: none
}

// Retain drops the versions of the set that the policy does not keep. Of dropped
// versions only their existence is recorded. A version that is Gone is kept as
// long as one before it is.
//
// Memory is bounded by p.Count versions. Retain may be canceled and repeated;
// versions appended meanwhile are kept.
func Retain(ctx context.Context, s Store, set string, p Policy, now time.Time) (Retained, error) {
	r := retention{store: s, set: set, policy: p, seqs: slices.Sorted(slices.Values(p.SnapshotSeqs)), cutoff: now.Add(-p.Age)}
	var last Version
	for v, err := range s.Walk(ctx, set, "") {
		if err == nil && !last.IsZero() {
			next := &v
			if v.URI != last.URI {
				next = nil
			}
			err = r.decide(ctx, &last, next)
		}
		if err != nil {
			return r.done, fmt.Errorf("retain versions of %s: %w", set, err)
		}
		last = v
	}
	var err error
	if !last.IsZero() {
		err = r.decide(ctx, &last, nil)
	}
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return r.done, fmt.Errorf("retain versions of %s: %w", set, err)
	}
	return r.done, nil
}

// dropBatch is how many versions are dropped at a time, so that other writers
// get their turn.
const dropBatch = 1000

// A retention is the state of one Retain.
type retention struct {
	store  Store
	set    string
	policy Policy
	seqs   []int64   // the policy's snapshots, in rising order
	cutoff time.Time // versions replaced later are kept
	done   Retained
	drop   []Version // not yet dropped

	// State of the resource that the walk has reached:
	mementos int64       // number seen
	kept     bool        // one of those decided is kept
	waiting  []candidate // oldest first; the first may still be one of the newest
}

// A candidate is a version to be decided on.
type candidate struct {
	Version
	stays bool
	no    int64 // position among the mementos of the resource, from 1
}

// decide decides on v, or on versions before it. next is the version that
// replaced it; nil means that v is the last of its resource.
func (r *retention) decide(ctx context.Context, v, next *Version) error {
	c := candidate{Version: *v, stays: r.stays(v, next)}
	if !v.Gone {
		r.mementos++
		c.no = r.mementos
	}
	r.waiting = append(r.waiting, c)
	for len(r.waiting) > 0 {
		c := &r.waiting[0]
		stays := c.stays
		switch {
		case stays:
		case c.Gone:
			stays = r.kept
		case r.mementos-c.no < int64(r.policy.Count):
			if next != nil {
				return nil // more may follow
			}
			stays = true
		}
		if err := r.settle(ctx, c, stays); err != nil {
			return err
		}
		r.waiting = r.waiting[1:]
	}
	if next == nil {
		r.mementos, r.kept, r.waiting = 0, false, nil
	}
	return nil
}

// stays reports whether v is kept regardless of other versions of the resource.
func (r *retention) stays(v, next *Version) bool {
	switch {
	case r.policy.All, v.Seq > r.policy.FloorSeq:
		return true
	case next == nil:
		return !v.Gone
	case r.policy.Age > 0 && (next.At.After(r.cutoff) || next.Event.After(r.cutoff)):
		return true
	case v.Gone:
		return false
	}
	// Of two versions of one change, which result from adding a resource again, a
	// snapshot may name either.
	i, _ := slices.BinarySearch(r.seqs, v.Seq)
	return i < len(r.seqs) && (r.seqs[i] < next.Seq || next.Seq <= v.Seq)
}

// settle counts kept versions, and drops the others.
func (r *retention) settle(ctx context.Context, c *candidate, stays bool) error {
	if !stays {
		r.drop = append(r.drop, Version{URI: c.URI, At: c.At, Gone: c.Gone})
		if len(r.drop) < dropBatch {
			return nil
		}
		return r.flush(ctx)
	}
	if c.Gone {
		return nil
	}
	r.kept = true
	r.done.Kept++
	r.done.Bytes += c.Length
	if r.done.Oldest.IsZero() || c.At.Before(r.done.Oldest) {
		r.done.Oldest = c.At
	}
	return nil
}

func (r *retention) flush(ctx context.Context) error {
	if len(r.drop) == 0 {
		return nil
	}
	if err := r.store.Drop(ctx, r.set, r.drop); err != nil {
		return err
	}
	for _, v := range r.drop {
		if !v.Gone {
			r.done.Dropped++
		}
	}
	r.drop = r.drop[:0:0] // the store may retain it
	return nil
}
