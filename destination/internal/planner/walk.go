package planner

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
)

// maxPlanners limits the goroutines that plan, because the actions that they have
// planned ahead are stored in memory.
const maxPlanners = 8

// plannedActions is the number of actions passed on at a time.
const plannedActions = 64

// actionLists keeps the memory of actions that are no longer needed.
var actionLists = sync.Pool{New: func() any { return new([plannedActions]plan.Action) }}

// A stretch is the plan for one chunk.
type stretch struct {
	chunk *stage.Chunk
	err   error // why there are no more chunks
	out   chan planned
}

// planned contains some of the actions of a stretch, or the remaining ones.
type planned struct {
	actions []plan.Action
	tally   Tally
	err     error
}

// add adds an action.
func (p *planned) add(a *plan.Action) {
	if p.actions == nil {
		p.actions = actionLists.Get().(*[plannedActions]plan.Action)[:0]
	}
	p.actions = append(p.actions, *a)
}

// release is called when the actions are no longer needed.
func (p *planned) release() {
	if p.actions != nil {
		clear(p.actions)
		actionLists.Put((*[plannedActions]plan.Action)(p.actions[:plannedActions]))
	}
}

// Actions yields the actions by URI, including those that do nothing.
func (p *Planner) Actions(ctx context.Context, s *stage.Stage) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		p.walk(ctx, s, true, func(part *planned) bool {
			for i := range part.actions {
				if !yield(part.actions[i], nil) {
					return false
				}
			}
			return part.err == nil || yield(plan.Action{}, part.err)
		})
	}
}

// Count returns the totals of the plan. It calls each, unless it is nil, with the
// actions that do something, by URI; each must not keep them, as they share memory with
// many others.
func (p *Planner) Count(ctx context.Context, s *stage.Stage, each func(*plan.Action)) (Tally, error) {
	var t Tally
	var err error
	p.walk(ctx, s, false, func(part *planned) bool {
		t.merge(&part.tally)
		if each != nil {
			for i := range part.actions {
				each(&part.actions[i])
			}
		}
		err = part.err
		return err == nil
	})
	return t, err
}

// walk plans chunks, several concurrently, and passes the parts of the plan to
// take, in order, until it returns false. The last part has an error if there was
// one. Unless all is set, actions that do nothing are only counted.
func (p *Planner) walk(ctx context.Context, s *stage.Stage, all bool, take func(*planned) bool) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	workers := min(runtime.GOMAXPROCS(0), maxPlanners)
	order, todo := make(chan *stretch, 2*workers), make(chan *stretch)
	wg.Go(func() {
		defer close(order)
		defer close(todo)
		p.cut(ctx, s, order, todo)
	})
	for range workers {
		wg.Go(func() {
			for st := range todo {
				p.plan(ctx, st, all)
			}
		})
	}
	for st := range order {
		for part := range st.out {
			more := take(&part)
			part.release()
			if !more {
				return
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		take(&planned{err: err})
	}
}

// cut passes the chunks to the planners, and to the receiver that collects their
// plans in order.
func (p *Planner) cut(ctx context.Context, s *stage.Stage, order, todo chan<- *stretch) {
	for c, err := range s.Chunks(ctx) {
		st := &stretch{chunk: c, err: err, out: make(chan planned, 1)}
		select {
		case order <- st:
		case <-ctx.Done():
			return
		}
		select {
		case todo <- st:
		case <-ctx.Done():
			close(st.out) // a receiver waits for it, and no worker will plan it
			return
		}
	}
}

// plan plans one chunk.
func (p *Planner) plan(ctx context.Context, st *stretch, all bool) {
	defer close(st.out)
	if st.chunk != nil {
		defer st.chunk.Release()
		if !all {
			st.chunk.Share() // what is counted is not kept
		}
	}
	var part planned
	send := func() bool {
		select {
		case st.out <- part:
			part = planned{}
			return true
		case <-ctx.Done():
			return false
		}
	}
	part.err = st.err
	if st.err == nil {
		next := p.looked
		if p.Prune || p.Sift {
			next = p.joined
		}
		for a, err := range next(ctx, st.chunk) {
			if err != nil {
				part.err = err
				break
			}
			part.tally.add(a)
			if all || a.Verb != plan.InStep && a.Verb != plan.Skip {
				part.add(a)
			}
			if len(part.actions) == plannedActions && !send() {
				return
			}
		}
	}
	send()
}

// joined walks the entries of a chunk and all rows in its range, in one pass. An
// action is valid for one step of the iteration.
func (p *Planner) joined(ctx context.Context, c *stage.Chunk) iter.Seq2[*plan.Action, error] {
	return func(yield func(*plan.Action, error) bool) {
		wants, stop := iter.Pull2(c.Resources)
		defer stop()
		var a plan.Action
		var none journal.Held
		decide := func(w *desired.Resource, h *journal.Held) bool {
			err := p.decide(ctx, w, h, &a)
			return yield(&a, err) && err == nil
		}
		w, err, more := wants()
		for h, herr := range p.Journal.Held(ctx, c.From, c.To) {
			for err == nil && herr == nil && more && w.URI < h.URI {
				if !decide(&w, &none) {
					return
				}
				w, err, more = wants()
			}
			if err == nil {
				err = herr
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !more || w.URI != h.URI {
				if !decide(nil, &h) {
					return
				}
				continue
			}
			if !decide(&w, &h) {
				return
			}
			w, err, more = wants()
		}
		for ; err == nil && more; w, err, more = wants() {
			if !decide(&w, &none) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// looked walks the entries of a chunk and looks up the row of each. It yields no
// action for resources without an entry, so they stay.
func (p *Planner) looked(ctx context.Context, c *stage.Chunk) iter.Seq2[*plan.Action, error] {
	return func(yield func(*plan.Action, error) bool) {
		var wants []desired.Resource
		var uris []string
		for w, err := range c.Resources {
			if err != nil {
				yield(nil, err)
				return
			}
			wants, uris = append(wants, w), append(uris, w.URI)
		}
		held, err := p.Journal.Lookup(ctx, uris)
		if err != nil {
			yield(nil, err)
			return
		}
		var a plan.Action
		for i := range wants {
			err = p.decide(ctx, &wants[i], &held[i], &a)
			if !yield(&a, err) || err != nil {
				return
			}
		}
	}
}
