package aggregator

import (
	"cmp"
	"slices"
	"sync"
)

// A Fleet is all upstreams that a process follows. Its methods are safe for concurrent
// use.
type Fleet struct {
	mu  sync.Mutex // guards all
	all []interface{ statuses() []Status }
}

// NewFleet returns a Fleet without upstreams: those with it in their [Options] or
// [GroupOptions] belong to it from the time they are made.
func NewFleet() *Fleet { return &Fleet{} }

// Statuses returns the state of all upstreams, ordered by the set that they fill and, in
// a [Group], by priority. It does not wait for work that is under way.
func (f *Fleet) Statuses() []Status {
	f.mu.Lock()
	all := slices.Clone(f.all)
	f.mu.Unlock()
	var out []Status
	for _, one := range all {
		out = append(out, one.statuses()...)
	}
	slices.SortStableFunc(out, func(a, b Status) int { return cmp.Compare(a.Set, b.Set) })
	return out
}

// join adds an Upstream or a Group. f may be nil.
func (f *Fleet) join(one interface{ statuses() []Status }) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, one)
}

// leave removes an Upstream or a Group. f may be nil.
func (f *Fleet) leave(one interface{ statuses() []Status }) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(o interface{ statuses() []Status }) bool { return o == one })
}

func (u *Upstream) statuses() []Status { return []Status{u.Status()} }

func (g *Group) statuses() []Status { return g.Statuses() }
