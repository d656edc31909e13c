package planner

import (
	"cmp"
	"hash/maphash"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
)

// clockSkew is the tolerated difference between the clocks of a Source and this
// machine.
const clockSkew = time.Minute

// regressed reports whether a replaces newer content by older.
func regressed(a *plan.Action) bool {
	return a.Verb == plan.Fetch && a.IsHeld() && !a.FileMissing && !a.Conditional &&
		!a.Lastmod.IsZero() && !a.Held.Lastmod.IsZero() && !a.Held.Lastmod.After(time.Now().Add(clockSkew)) && a.Lastmod.Time().Before(a.Held.Lastmod.Truncate(time.Second))
}

// A Tally contains the totals of a plan.
type Tally struct {
	Created, Updated, Deleted, Released, Unchanged, Refused, Touched int64
	Bytes                                                            int64 // to be fetched, where lengths are stated
	Regressed                                                        int64
	Unselected                                                       int64 // deletions of resources that the Source still has
	Unexplained                                                      int64 // deletions that no Change List lists
	Replaced                                                         int64 // deletions of resources kept in another representation: one for each that is kept
	Passed                                                           int64 // listed, but neither selected nor held
	example                                                          string
	kept                                                             map[uint64]bool // hashes of the representations that are kept
}

// maxKept limits the representations that a Tally remembers. Each of the others counts as
// one that it has not seen.
const maxKept = 100_000

var keptSeed = maphash.MakeSeed()

// replace counts a deletion of a resource of which another representation is kept. Of many
// for which the same is kept, one counts: the others are gone.
func (t *Tally) replace(kept uint64) {
	if t.kept[kept] {
		return
	}
	t.Replaced++
	if t.kept == nil {
		t.kept = map[uint64]bool{}
	}
	if len(t.kept) < maxKept {
		t.kept[kept] = true
	}
}

// Todo returns the number of actions.
func (t *Tally) Todo() int64 {
	return t.Created + t.Updated + t.Deleted + t.Released + t.Refused + t.Touched
}

func (t *Tally) add(a *plan.Action) {
	switch a.Verb {
	case plan.Skip:
		if a.Unselected && a.Class != 0 {
			t.Passed++
		}
	case plan.InStep:
		t.Unchanged++
	case plan.Touch:
		if a.Redescribed {
			t.Updated++
		} else {
			t.Touched++
		}
	case plan.Refuse:
		t.Refused++
	case plan.Release:
		if a.Redescribed {
			t.Updated++
		} else {
			t.Released++
		}
	case plan.Remove:
		t.Deleted++
		if a.Unselected {
			t.Unselected++
		}
		if a.Class != desired.Changed {
			t.Unexplained++
		}
		if a.Instead != "" {
			t.replace(maphash.String(keptSeed, a.Instead))
		}
	case plan.Fetch:
		if a.Rehash { // the content is expected to match
			t.Touched++
			return
		}
		if a.IsHeld() {
			t.Updated++
		} else {
			t.Created++
		}
		t.Bytes += max(a.Length, 0)
		if regressed(a) {
			t.Regressed++
			if t.example == "" {
				t.example = a.URI
			}
		}
	}
}

// merge adds the totals of the following part of the plan.
func (t *Tally) merge(o *Tally) {
	t.Created += o.Created
	t.Updated += o.Updated
	t.Deleted += o.Deleted
	t.Released += o.Released
	t.Unchanged += o.Unchanged
	t.Refused += o.Refused
	t.Touched += o.Touched
	t.Bytes += o.Bytes
	t.Regressed += o.Regressed
	t.Unselected += o.Unselected
	t.Unexplained += o.Unexplained
	t.Replaced += o.Replaced - int64(len(o.kept))
	for kept := range o.kept {
		t.replace(kept)
	}
	t.Passed += o.Passed
	t.example = cmp.Or(t.example, o.example)
}
