package memento

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Policy says which versions stay: those that one of its fields keeps, and
// the version a resource has now.
type Policy struct {
	All   bool          // all
	Count int           // so many of each resource, the newest
	Age   time.Duration // those that were replaced, or deleted, less than this ago

	// What published documents name (ME-RET-01). All with a Seq above FloorSeq
	// stay, so that the zero Policy keeps all; and of each resource what it was
	// when the set was at one of SnapshotSeqs.
	FloorSeq     int64
	SnapshotSeqs []int64
}

// Retained is what a [Retain] came to.
type Retained struct {
	Kept, Dropped int64     // versions, those that are Gone not counted
	Bytes         int64     // lengths of those kept
	Oldest        time.Time // At of the oldest of them; zero: none
}

// Retain drops the versions of the set that the policy does not keep. Of what is
// gone nothing is told but that it was: a version that is Gone stays for as long
// as one before it does.
//
// Memory is bounded by p.Count versions. It may be broken off and repeated; what
// is appended meanwhile stays.
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

// dropBatch is how many versions are dropped at a time: others want to write
// as well.
const dropBatch = 1000

// A retention is the state of one Retain.
type retention struct {
	store  Store
	set    string
	policy Policy
	seqs   []int64   // the policy's snapshots, rising
	cutoff time.Time // what was replaced later stays
	done   Retained
	drop   []Version // not yet dropped

	// Of the resource the walk is at:
	mementos int64       // how many came by
	kept     bool        // one of those decided on stays
	waiting  []candidate // oldest first; the first may be one of the newest, as far as is known
}

// A candidate is a version to be decided on.
type candidate struct {
	Version
	stays bool
	no    int64 // among the mementos of the resource, from 1
}

// decide decides on v, or on some before it. next is the version that replaced
// it, nil if there is none: then it is the last of its resource.
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

// stays reports whether v stays whatever else there is of the resource.
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
	// Of two versions of one change, which taking in a resource again makes, a
	// snapshot may name either.
	i, _ := slices.BinarySearch(r.seqs, v.Seq)
	return i < len(r.seqs) && (r.seqs[i] < next.Seq || next.Seq <= v.Seq)
}

// settle counts what stays, and drops the rest.
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
	r.drop = r.drop[:0:0] // the store may keep it
	return nil
}
