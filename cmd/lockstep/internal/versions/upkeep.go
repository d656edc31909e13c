package versions

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/sleep"
	"lockstep/memento"
)

// How often versions are checked against the policies of their sets: every check reads
// all of them, so that the pause grows with the time that the check took.
const (
	retainLeast = time.Minute
	retainShare = 50 // of the time, one part is spent on it
)

// A Set is a set that keeps versions, or kept some until now.
type Set struct {
	Name   string
	List   string // URI of its Capability List: its name in the catalog
	Ending bool   // it keeps none any more
	Policy memento.Policy
}

// An Upkeep starts and ends the keeping of versions in sets, and drops versions that
// their policies no longer keep.
type Upkeep struct {
	Store  *Store
	Sets   []Set
	Keeper *bitstream.Keeper // of the versions; nil if the store is not used

	// Status returns the state of a set in the catalog.
	Status func(ctx context.Context, list string) (catalog.Status, error)

	// Listed returns which changes of a set and which snapshots are published, as
	// [source.Source.Listed].
	Listed func(ctx context.Context, set string) (floor catalog.Seq, snapshots []catalog.Mark, err error)

	Log *slog.Logger

	tally tally
}

// Begin marks the sets that keep versions, before any version is kept, and withdraws
// the links to the versions of sets that keep none any more.
func (u *Upkeep) Begin(ctx context.Context) error {
	for i := range u.Sets {
		set := &u.Sets[i]
		m, known := u.Store.marked(set.List)
		switch {
		case !set.Ending && (!known || m.Ended != nil):
			if err := u.Store.mark(set.List, &mark{}); err != nil {
				return err
			}
		case set.Ending && m.Ended == nil:
			if err := u.withdraw(ctx, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdraw removes the links to the versions of a set.
func (u *Upkeep) withdraw(ctx context.Context, set *Set) error {
	a, err := u.Keeper.Withdraw(ctx, set.List, nil)
	if err != nil {
		return fmt.Errorf("withdraw the prior versions of set %s: %w", set.Name, err)
	}
	st, err := u.Status(ctx, set.List)
	if err != nil {
		return err
	}
	u.Log.InfoContext(ctx, "prior versions are kept no more", slog.String("set", set.Name), slog.Int64("entries", a.Changed))
	now := time.Now().UTC()
	return u.Store.mark(set.List, &mark{Ended: &now, EndedSeq: st.Last})
}

// Adopt stores a version of every resource that was published before its set kept
// versions. A version that cannot be stored now does not prevent publication: it is
// tried again later.
func (u *Upkeep) Adopt(ctx context.Context, n *sourcereport.Reporter) {
	for i := range u.Sets {
		if set := &u.Sets[i]; !set.Ending && !u.isComplete(set) {
			u.adopt(ctx, n, set)
		}
	}
}

// isComplete reports whether each resource of a set had a version at the last check,
// and none is known to lack one since.
func (u *Upkeep) isComplete(set *Set) bool {
	m, _ := u.Store.marked(set.List)
	return m.Complete && !u.Keeper.Missing(set.List)
}

// adopt stores the versions that one set lacks.
func (u *Upkeep) adopt(ctx context.Context, n *sourcereport.Reporter, set *Set) {
	a, err := u.Keeper.Adopt(ctx, set.List, func(a bitstream.Adoption) { n.Adopting(a.Changed) })
	n.Adopting(0)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = u.Store.mark(set.List, &mark{Complete: a.Missing == 0})
	}
	if err == nil && a.Missing > 0 {
		err = fmt.Errorf("set %s: of %s no version can be kept now; it is tried again", set.Name, term.Count(a.Missing, "resource"))
	}
	if err != nil {
		n.Warn(err)
	}
}

// Run drops versions that are no longer to be kept, in the background until ctx ends,
// and removes their bytes.
func (u *Upkeep) Run(ctx context.Context, n *sourcereport.Reporter) error {
	if !u.Store.Used() {
		return nil
	}
	for i := range u.Sets { // an earlier process may have ended before it stored a version that it missed
		if set := &u.Sets[i]; !set.Ending && u.isComplete(set) {
			u.adopt(ctx, n, set)
		}
	}
	sweep := true // once, for the leftovers of an earlier process
	for {
		began := time.Now()
		dropped, err := u.drop(ctx)
		if sweep = sweep || dropped > 0; sweep && err == nil {
			if _, err = u.Keeper.SweepVersions(ctx); err == nil {
				sweep = false
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			n.Warn(err)
		}
		if sleep.For(ctx, max(retainLeast, retainShare*time.Since(began))) != nil {
			return nil
		}
		u.Adopt(ctx, n) // versions that could not be stored before
	}
}

// drop drops the versions that are no longer to be kept, and returns how many.
func (u *Upkeep) drop(ctx context.Context) (dropped int64, err error) {
	for _, list := range u.Store.lists() {
		if slices.ContainsFunc(u.Sets, func(set Set) bool { return set.List == list }) {
			continue
		}
		n, err := u.Keeper.DropVersions(ctx, list) // the set no longer exists, and no client finds its documents
		if err == nil {
			err = u.Store.mark(list, nil)
		}
		if err != nil {
			return dropped, err
		}
		dropped += n
	}
	for i := range u.Sets {
		set := &u.Sets[i]
		n, err := u.retain(ctx, set)
		if dropped += n; err != nil {
			return dropped, fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return dropped, nil
}

// retain drops versions of one set. Versions that are published now stay, and so do
// those that were current a moment ago, because a list of them may be published
// meanwhile (ME-RET-01).
func (u *Upkeep) retain(ctx context.Context, set *Set) (dropped int64, err error) {
	st, err := u.Status(ctx, set.List)
	if err != nil {
		return 0, err
	}
	floor, snapshots, err := u.Listed(ctx, set.Name)
	if err != nil {
		return 0, err
	}
	if m, _ := u.Store.marked(set.List); m.Ended != nil && floor >= m.EndedSeq &&
		!slices.ContainsFunc(snapshots, func(q catalog.Mark) bool { return !q.At.After(*m.Ended) }) {
		return u.end(ctx, set) // all published documents were written since
	}
	p := set.Policy
	p.FloorSeq = int64(floor)
	for _, q := range append(snapshots, catalog.Mark{Seq: st.Last}) {
		p.SnapshotSeqs = append(p.SnapshotSeqs, int64(q.Seq))
	}
	r, err := u.Keeper.Retain(ctx, set.List, p)
	if err != nil {
		return 0, err
	}
	if r.Dropped > 0 {
		u.Log.InfoContext(ctx, "dropped prior versions", slog.String("set", set.Name), slog.Int64("entries", r.Dropped))
	}
	u.tally.retained(set.Name, setFigures{r.Kept, r.Bytes, r.Oldest}, r.Dropped)
	return r.Dropped, nil
}

// end drops all versions of a set that keeps none any more, once no published
// document names any.
func (u *Upkeep) end(ctx context.Context, set *Set) (dropped int64, err error) {
	if dropped, err = u.Keeper.DropVersions(ctx, set.List); err != nil {
		return dropped, err
	}
	u.tally.retained(set.Name, setFigures{}, dropped)
	return dropped, u.Store.mark(set.List, nil)
}
