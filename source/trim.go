package source

import (
	"context"
	"fmt"
	"time"
)

// trimShare is which share of the time changes are kept a document without
// parts may reach back too far: cutting single changes off its front means
// writing it anew.
const trimShare = 8

// keep returns how long changes of the set stay in its Change List.
func (s *Source) keep(set Set) time.Duration {
	if k := set.ChangeList.Keep; k > 0 {
		return max(k, s.opts.Grace)
	}
	return s.opts.Keep
}

// trimDue reports whether the beginning of c is so old that it pays to move it.
func (p *publication) trimDue(ctx context.Context, c *changeState) (bool, error) {
	due := func(cutoff time.Time) bool {
		if len(c.Closed) > 0 {
			return !c.Closed[0].Until.After(cutoff)
		}
		return c.Open.Name == "" && !c.Open.First.IsZero() && c.Open.First.Before(cutoff.Add(-p.keep(p.set)/trimShare))
	}
	if !due(p.opts.Now().Add(-p.keep(p.set))) || p.next.List == nil {
		return false, nil
	}
	cutoff, err := p.cutoff(ctx)
	return err == nil && due(cutoff), err
}

// trim moves the beginning of st forward over changes that nobody needs any
// more, those before the cutoff: whole parts, or single changes of a document
// that has no parts (RS-CHI-07). What leaves is handed over first.
func (p *publication) trim(ctx context.Context, st *changeState) error {
	if due, err := p.trimDue(ctx, st); err != nil || !due {
		return err
	}
	cutoff, err := p.cutoff(ctx)
	if err != nil {
		return err
	}
	for len(st.Closed) > 0 && !st.Closed[0].Until.After(cutoff) {
		part := st.Closed[0]
		if !p.leave(ctx, Leaving{From: st.From, Until: part.Until, After: st.After, Last: part.Last, Document: part.Name}) {
			return nil
		}
		st.After, st.From = part.Last, part.Until
		st.Closed = st.Closed[1:]
	}
	if len(st.Closed) > 0 || st.Open.Name != "" {
		return nil
	}
	l := Leaving{From: st.From, Until: st.From, After: st.After, Last: st.After}
	for c, err := range p.catalog.Changes(ctx, p.capabilityList(p.set.Name), st.After) {
		if err != nil {
			return fmt.Errorf("build change list: %w", err)
		}
		until := c.EventTime.Add(boundary)
		if until.After(cutoff) {
			break
		}
		l.Last, l.Until = c.Seq, until
	}
	if l.Last > l.After && p.leave(ctx, l) {
		st.After, st.From = l.Last, l.Until
		st.Open = openPart{After: l.Last, From: l.Until}
	}
	return nil
}

// leave tells of changes that are about to leave, and reports whether they may.
func (p *publication) leave(ctx context.Context, l Leaving) bool {
	if p.set.ChangeList.Leaving == nil {
		return true
	}
	l.Set = p.set.Name
	if err := p.set.ChangeList.Leaving(ctx, l); err != nil {
		p.stay = fmt.Errorf("let changes up to %d leave: %w", l.Last, err)
		return false
	}
	return true
}

// cutoff returns the instant before which nobody needs changes any more. They
// are kept for all who may be reading a Resource List or Resource Dump, also a
// replaced one.
func (p *publication) cutoff(ctx context.Context) (time.Time, error) {
	cutoff := p.opts.Now().Add(-p.keep(p.set))
	lists := []time.Time{p.next.List.At}
	if floor, ok, err := p.dumpFloor(ctx, p.set.Name); err != nil {
		return cutoff, err
	} else if ok {
		lists = append(lists, floor)
	}
	if p.state.List != nil {
		lists = append(lists, p.state.List.At)
	}
	for _, r := range p.state.Retired {
		if !r.At.IsZero() {
			lists = append(lists, r.At)
		}
	}
	for _, at := range lists {
		if at.Before(cutoff) {
			cutoff = at
		}
	}
	return cutoff, nil
}
