package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/transfer"
)

// A record of a feed may have several representations, of which one is chosen to be
// kept. Where that one cannot be fetched, another one is kept, and the chosen one is
// pending: that is reported once, and later runs try again. When it comes, it takes
// the place of the other.

// otherForms finds the other representations of a record.
type otherForms struct {
	chooser *chooser
	planner *planner.Planner
}

// newOtherForms returns how to find other representations of what p plans; nil where
// each resource has one.
func newOtherForms(r *setRun, p *planner.Planner) *otherForms {
	c := newChooser(r)
	if c.finder == nil {
		return nil
	}
	return &otherForms{c, p}
}

// fetch gets another representation of the record of a, whose own could not
// be fetched because of err: the best one that can be fetched, or is here
// already. It reports whether there is one; o has no action if it is here.
// Otherwise o.err says why not, if one was tried.
func (forms *otherForms) fetch(ctx context.Context, f *transfer.Fetcher, a *plan.Action, err error) (o transfer.Outcome, found bool) {
	if forms == nil || a.Verb != plan.Fetch || a.IsHeld() || ctx.Err() != nil || apply.IsCanceled(err) || content.IsLocal(err) || transfer.IsTaken(err) || !notBeforeOf(err).IsZero() {
		return transfer.Outcome{}, false
	}
	all, ferr := forms.chooser.others(ctx, a.URI)
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
func (forms *otherForms) decide(ctx context.Context, w *desired.Resource) (plan.Action, error) {
	held, err := forms.planner.Journal.Lookup(ctx, []string{w.URI})
	if err != nil {
		return plan.Action{}, fmt.Errorf("read what is held: %w", err)
	}
	return forms.planner.Decide(ctx, w, held[0])
}

// others returns the representations of the record that the resource at uri is one
// of, those that are selected, best first, without that one.
func (c *chooser) others(ctx context.Context, uri string) ([]desired.Resource, error) {
	e, there, err := c.finder.Find(ctx, uri)
	if err != nil || !there {
		return nil, err
	}
	main := &e
	if first := entries.CanonicalOf(&e); first != "" {
		m, there, err := c.finder.Find(ctx, first)
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
			w := c.reader.Resource(&form)
			w.Class = desired.Listed
			all = append(all, w)
		}
	}
	return all, nil
}

// stageExcused stages a representation that is pending because it could not be
// fetched, and the others of its record, as they are now.
func stageExcused(ctx context.Context, r *setRun, w *desired.Resource) error {
	c := newChooser(r)
	if c.finder == nil {
		return r.stage.Add(ctx, *w)
	}
	at := desired.Rank{Class: desired.Listed, Doc: r.stage.AddDocument()}
	add := func(w desired.Resource, err error) error {
		if err != nil {
			return err
		}
		w.Rank = at
		return r.stage.Add(ctx, w)
	}
	e, there, err := c.finder.Find(ctx, w.URI)
	if err != nil {
		return err
	}
	if !there {
		return add(desired.Resource{URI: w.URI, Gone: true, Length: -1}, nil)
	}
	if err := r.stage.Add(ctx, *w); err != nil { // that it was reported, see group.last
		return err
	}
	if err := add(c.settle(ctx, &e, true)); err != nil {
		return err
	}
	others, err := c.family(ctx, &e)
	if err != nil {
		return err
	}
	for i := range others {
		if err := add(c.settle(ctx, &others[i], true)); err != nil {
			return err
		}
	}
	return nil
}

// stageReported stages the pending representations that were reported, where all
// there is is staged: they are not reported again.
func stageReported(ctx context.Context, r *setRun) error {
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
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
		if err := stageExcused(ctx, r, &w); err != nil {
			return err
		}
	}
	return nil
}

// newChooser returns what chooses among the representations of a record.
func newChooser(r *setRun) *chooser {
	c := &chooser{reader: r.reader}
	c.finder, _ = r.origin.(Finder)
	return c
}
