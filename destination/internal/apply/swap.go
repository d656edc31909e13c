package apply

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
)

// A new resource whose place is taken by files that are to be deleted waits until
// all that was read is planned. Then its content is fetched, and the deletions
// and the new files are one step: see [places.Change].

const (
	// maxSwapFiles is how many new files one step brings. Each is open.
	maxSwapFiles = 16

	// maxSwapGone is how many files one step removes. If more files block the
	// path, they are removed first, and the file is written after that.
	maxSwapGone = 1000
)

// A swap is files that go and files that take their places.
type swap struct {
	gone   []plan.Action
	come   []plan.Action
	beyond bool // more have to go than one step removes
}

// swaps brings resources that wait for a place there, together with the deletions
// that make it free. What it cannot do stays for remove and the run behind it,
// which say why.
func (p *Applier) swaps(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
	if len(p.later) == 0 || IsForgetful(p.mirror.Store) {
		return nil
	}
	found, order, err := findSwaps(p.later, p.Fetch.Names.Paths, actions)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, key := range order {
		s := found[key]
		s.gone = slices.DeleteFunc(s.gone, func(a plan.Action) bool { return done[a.URI] })
		if s.beyond || len(s.gone) == 0 {
			continue
		}
		if err := p.swap(ctx, s, done); err != nil {
			return err
		}
	}
	p.later = slices.DeleteFunc(p.later, func(a plan.Action) bool { return done[a.URI] })
	return nil
}

// findSwaps groups what waits by what is in its way. Keys are paths that are to
// be a directory instead of a file, or a file instead of a directory.
func findSwaps(later []plan.Action, paths *filename.Mapping, actions iter.Seq2[plan.Action, error]) (found map[string]*swap, order []string, err error) {
	files, dirs := map[string]int{}, map[string][]int{} // indexes of later by their places, and by the directories those are in
	for i := range later {
		own, err := paths.Path(later[i].URI)
		if err != nil || later[i].IsHeld() {
			continue
		}
		files[own] = i
		for dir := range reserve.Parents(own) {
			dirs[dir] = append(dirs[dir], i)
		}
	}
	found = map[string]*swap{}
	group := func(key string, a *plan.Action, come ...int) {
		s := found[key]
		if s == nil {
			s = &swap{}
			found[key], order = s, append(order, key)
			for _, i := range come[:min(len(come), maxSwapFiles)] {
				s.come = append(s.come, later[i])
			}
		}
		if s.beyond = s.beyond || len(s.gone) >= maxSwapGone; !s.beyond {
			s.gone = append(s.gone, *a)
		}
	}
	for a, err := range actions {
		if err != nil {
			return nil, nil, err
		}
		if a.Verb != plan.Remove || a.Instead != "" {
			continue
		}
		if come := dirs[a.Held.Path]; len(come) > 0 {
			group(a.Held.Path, &a, come...)
		}
		for dir := range reserve.Parents(a.Held.Path) {
			if i, ok := files[dir]; ok {
				group(dir, &a, i)
			}
		}
	}
	return found, order, nil
}

// swap carries out one step. The order of its writes: the contents, unfinished;
// the description of the step; the removals; the names of the contents; the rows.
func (p *Applier) swap(ctx context.Context, s *swap, done map[string]bool) error {
	outcomes, err := p.fetchAll(ctx, s.come)
	if err != nil || len(outcomes) == 0 {
		return err
	}
	drop := func(os []transfer.Outcome) {
		for i := range os {
			_ = os[i].Writer.Close() // it is fetched again
			p.Fetch.Names.Release(os[i].Held.Path)
		}
	}
	gone, err := p.keepRemoved(ctx, s.gone)
	if err != nil || len(gone) != len(s.gone) {
		drop(outcomes)
		return err
	}
	if err := p.record(ctx, false); err != nil { // what came before
		drop(outcomes)
		return err
	}
	c := places.Change{}
	var past []journal.Past
	ws := make([]blob.Writer, len(outcomes))
	for i := range gone {
		c.Drop = append(c.Drop, places.Row{URI: gone[i].URI, Path: gone[i].Held.Path})
	}
	for i := range outcomes {
		o := &outcomes[i]
		c.Put, ws[i] = desired.AppendHeld(c.Put, &o.Held), o.Writer
		past = append(past, history.Before(o.Action.URI, &o.Action.Held))
	}
	save := journal.Batch{Save: map[string][]byte{places.DocChange: saved.Encode(&c)}, Past: past}
	if err := p.mirror.Keep.Record(ctx, p.mirror.Journal, save); err != nil {
		drop(outcomes)
		return fmt.Errorf("record a change of places: %w", err)
	}
	if err := p.committer.withdraw(ctx, gone...); err != nil && !reserve.IsReplaced(err) {
		drop(outcomes) // remove says what is wrong
		if err := p.settleSwap(ctx); err != nil {
			return err
		}
		return nil
	}
	p.Fetch.Names.Recheck()
	n := len(ws)
	if err := p.mirror.Store.Commit(ctx, ws...); err != nil {
		if n = committed(err); failure.IsFatal(err) || ctx.Err() != nil {
			p.broken = true
			p.mirror.LeftIntent()
			return fmt.Errorf("store resources%s: %w", p.mirror.In, err) // the next run finishes it
		}
		drop(outcomes[n:]) // they are fetched again, which says what is wrong
	}
	for i := range gone {
		p.Recorder.gone(&gone[i])
		done[gone[i].URI] = true
	}
	for i := range outcomes[:n] {
		o := &outcomes[i]
		if v, ok := o.Writer.(blob.Versioned); ok {
			o.Held.Tag = v.Version()
		}
		p.Recorder.settled(o)
		p.Recorder.step(o.Held.Length)
		done[o.Action.URI] = true
	}
	p.places = true
	return p.record(ctx, true)
}

// settleSwap removes the description of a step that did not happen.
func (p *Applier) settleSwap(ctx context.Context) error {
	p.places = true
	return p.record(ctx, true)
}

// committed is how many blobs a Commit that failed has made visible.
func committed(err error) int {
	var ce *blob.CommitError
	if errors.As(err, &ce) {
		return ce.Done
	}
	return 0
}

// fetchAll fetches contents for their own places, a few at a time. What cannot be
// fetched is left out.
func (p *Applier) fetchAll(ctx context.Context, as []plan.Action) ([]transfer.Outcome, error) {
	all := make([]transfer.Outcome, len(as))
	var g errgroup.Group
	g.SetLimit(max(1, min(p.mirror.Jobs, maxSwapFiles/2)))
	for i := range as {
		g.Go(func() error {
			a := as[i]
			if own, err := p.Fetch.Names.Paths.Path(a.URI); err == nil {
				a.Place = own
				all[i] = p.Fetch.Do(ctx, &a)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in the outcomes
	var outcomes []transfer.Outcome
	for i := range all {
		switch o := &all[i]; {
		case o.Err == nil && o.Writer != nil:
			outcomes = append(outcomes, *o)
		case o.Action != nil && o.Err == nil:
			p.Fetch.Names.Release(o.Held.Path)
		}
	}
	if err := ctx.Err(); err != nil {
		for i := range outcomes {
			p.discard(&outcomes[i])
		}
		return nil, context.Cause(ctx)
	}
	return outcomes, nil
}
