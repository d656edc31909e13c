package representation

import (
	"context"
	"fmt"
	"iter"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
)

// A record of a feed may have several representations, of which one is chosen to be
// kept. Where that one cannot be fetched, another one is kept, and the chosen one is
// pending: that is reported once, and later runs try again. When it comes, it takes
// the place of the other.

// Others fetches other representations of records.
type Others struct {
	Chooser   *Chooser
	Planner   *planner.Planner
	NotBefore func(error) time.Time // when what failed may be asked for again; zero if at any time
}

// Fetch gets another representation of the record of a, whose own could not
// be fetched because of err: the best one that can be fetched, or is here
// already. It reports whether there is one; o has no action if it is here.
// Otherwise o.err says why not, if one was tried.
func (forms *Others) Fetch(ctx context.Context, f *transfer.Fetcher, a *plan.Action, err error) (o transfer.Outcome, found bool) {
	if forms == nil || a.Verb != plan.Fetch || a.IsHeld() || ctx.Err() != nil || content.IsLocal(err) || transfer.IsTaken(err) || !forms.NotBefore(err).IsZero() {
		return transfer.Outcome{}, false
	}
	all, ferr := forms.Chooser.others(ctx, a.URI)
	if ferr != nil {
		return transfer.Outcome{Err: ferr}, false
	}
	var failed error
	for i := range all {
		act, derr := forms.decide(ctx, &all[i])
		switch {
		case derr != nil:
			return transfer.Outcome{Err: derr}, false
		case act.Verb == plan.InStep, act.Verb == plan.Touch:
			return transfer.Outcome{}, true
		case act.Verb != plan.Fetch:
			continue
		}
		o := f.Do(ctx, &act)
		if o.Err == nil {
			return o, true
		}
		if failed == nil {
			failed = o.Err
		}
	}
	return transfer.Outcome{Err: failed}, false
}

// decide plans what to do about another representation.
func (forms *Others) decide(ctx context.Context, w *desired.Resource) (plan.Action, error) {
	held, err := forms.Planner.Journal.Lookup(ctx, []string{w.URI})
	if err != nil {
		return plan.Action{}, fmt.Errorf("read what is held: %w", err)
	}
	return forms.Planner.Decide(ctx, w, held[0])
}

// others returns the representations of the record that the resource at uri is one
// of, those that are selected, best first, without that one.
func (c *Chooser) others(ctx context.Context, uri string) ([]desired.Resource, error) {
	e, there, err := c.Finder.Find(ctx, uri)
	if err != nil || !there {
		return nil, err
	}
	main := &e
	if first := entries.CanonicalOf(&e); first != "" {
		m, there, err := c.Finder.Find(ctx, first)
		if err != nil || !there || entries.CanonicalOf(&m) != "" || !leadsTo(&m, uri) {
			return nil, err
		}
		main = &m
	}
	var all []desired.Resource
	fit := c.forms(main)
	for i := range fit {
		if fit[i].URI == uri {
			continue
		}
		form, there, err := c.form(ctx, main, fit[i].URI)
		if err != nil {
			return nil, err
		}
		if there {
			w := c.Reader.Resource(&form)
			w.Class = desired.Listed
			all = append(all, w)
		}
	}
	return all, nil
}

// StageExcused stages a representation that is pending because it could not be
// fetched, and the others of its record, as they are now.
func (c *Chooser) StageExcused(ctx context.Context, st *stage.Stage, w *desired.Resource) error {
	if c.Finder == nil {
		return st.Add(ctx, *w)
	}
	at := desired.Rank{Class: desired.Listed, Doc: st.AddDocument()}
	add := func(w desired.Resource, err error) error {
		if err != nil {
			return err
		}
		w.Rank = at
		return st.Add(ctx, w)
	}
	e, there, err := c.Finder.Find(ctx, w.URI)
	if err != nil {
		return err
	}
	if !there {
		return add(desired.Resource{URI: w.URI, Gone: true, Length: -1}, nil)
	}
	if err := st.Add(ctx, *w); err != nil { // that it was reported, see group.last
		return err
	}
	if err := add(c.Settle(ctx, &e, true)); err != nil {
		return err
	}
	others, err := c.family(ctx, &e)
	if err != nil {
		return err
	}
	for i := range others {
		if err := add(c.Settle(ctx, &others[i], true)); err != nil {
			return err
		}
	}
	return nil
}

// StageReported stages the pending representations that were reported, where all
// there is is staged: they are not reported again.
func (c *Chooser) StageReported(ctx context.Context, st *stage.Stage, pending iter.Seq2[journal.Owed, error]) error {
	for o, err := range pending {
		if err != nil {
			return err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return err
		}
		if !w.Excused {
			continue
		}
		w.Class = desired.Pending
		if err := c.StageExcused(ctx, st, &w); err != nil {
			return err
		}
	}
	return nil
}
