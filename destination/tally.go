package destination

import (
	"cmp"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
)

// clockSkew is how far the clocks of a Source and of this machine may differ.
const clockSkew = time.Minute

// regressed reports whether following w would put older content in the place
// of newer.
func regressed(a *plan.Action) bool {
	return a.Verb == plan.Fetch && a.IsHeld() && !a.FileMissing && !a.Conditional &&
		!a.Lastmod.IsZero() && !a.Held.Lastmod.IsZero() && !a.Held.Lastmod.After(time.Now().Add(clockSkew)) && a.Lastmod.Time().Before(a.Held.Lastmod.Truncate(time.Second))
}

// A tally is the totals of a plan.
type tally struct {
	created, updated, deleted, released, unchanged, refused, touched int64
	bytes                                                            int64 // to be fetched, as far as it is stated
	regressed                                                        int64
	unselected                                                       int64 // deletions of what the Source has still
	unexplained                                                      int64 // deletions that no Change List has
	replaced                                                         int64 // deletions of what is kept in another representation
	passed                                                           int64 // listed, and neither selected nor held
	example                                                          string
}

// todo is how many actions there are.
func (t *tally) todo() int64 {
	return t.created + t.updated + t.deleted + t.released + t.refused + t.touched
}

func (t *tally) add(a *plan.Action) {
	switch a.Verb {
	case plan.Skip:
		if a.Unselected && a.Class != 0 {
			t.passed++
		}
	case plan.InStep:
		t.unchanged++
	case plan.Touch:
		t.touched++
	case plan.Refuse:
		t.refused++
	case plan.Release:
		t.released++
	case plan.Remove:
		t.deleted++
		if a.Unselected {
			t.unselected++
		}
		if a.Class != desired.Changed {
			t.unexplained++
		}
		if a.Instead != "" {
			t.replaced++
		}
	case plan.Fetch:
		if a.Rehash { // expected to be what is held
			t.touched++
			return
		}
		if a.IsHeld() {
			t.updated++
		} else {
			t.created++
		}
		t.bytes += max(a.Length, 0)
		if regressed(a) {
			t.regressed++
			if t.example == "" {
				t.example = a.URI
			}
		}
	}
}

// merge adds what comes after.
func (t *tally) merge(o *tally) {
	t.created += o.created
	t.updated += o.updated
	t.deleted += o.deleted
	t.released += o.released
	t.unchanged += o.unchanged
	t.refused += o.refused
	t.touched += o.touched
	t.bytes += o.bytes
	t.regressed += o.regressed
	t.unselected += o.unselected
	t.unexplained += o.unexplained
	t.replaced += o.replaced
	t.passed += o.passed
	t.example = cmp.Or(t.example, o.example)
}
