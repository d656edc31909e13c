package aggregator

import (
	"context"
	"runtime"
	"slices"
	"sort"
	"sync"

	"lockstep/destination"
)

// A Fleet is all upstreams that a process follows. They take turns: a few are worked on at
// a time, and those that take long, or do not answer, do not keep the others waiting. Its
// methods are safe for concurrent use.
type Fleet struct {
	schedule  schedule
	comparing chan struct{} // has a token for each comparison with the catalog under way
	checks    destination.CheckBudget

	mu  sync.Mutex // guards all
	all []interface{ statuses() []Status }
}

// FleetOptions configures a [Fleet]. The zero value is ready to use.
type FleetOptions struct {
	// Jobs is how many upstreams are worked on at a time, not counting those that have
	// not answered for a while, of which there may be many; default: what suits the
	// number of processors.
	Jobs int
}

// NewFleet returns a Fleet without upstreams: those with it in their [Options] or
// [GroupOptions] belong to it from the time they are made.
func NewFleet(o FleetOptions) *Fleet {
	if o.Jobs <= 0 {
		o.Jobs = max(jobsPerProcessor*runtime.GOMAXPROCS(0), jobsLeast)
	}
	f := &Fleet{comparing: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
	f.schedule.room = [...]int{quick: o.Jobs, slow: o.Jobs, silent: maxSilent}
	return f
}

// Follow has a Follower take turns with the upstreams of the fleet, which may have none.
func (f *Fleet) Follow(o *destination.FollowOptions) {
	p := &pace{}
	o.Turn = func(ctx context.Context, w destination.Work) (context.Context, func()) {
		return f.schedule.begin(ctx, p, w)
	}
	o.CheckBudget = &f.checks
}

// Begin waits for a turn that is not interrupted, and returns a function that ends it.
// received returns the number of bytes that the work has received so far. It fails when ctx
// ends.
func (f *Fleet) Begin(ctx context.Context, received func() int64) (end func(), err error) {
	_, end = f.schedule.begin(ctx, &pace{whole: true}, destination.Work{Received: received})
	if ctx.Err() != nil {
		end()
		return nil, context.Cause(ctx)
	}
	return end, nil
}

// compare waits until the mirror of an upstream may be compared with the catalog. f may
// be nil.
func (f *Fleet) compare(ctx context.Context) (done func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	select {
	case f.comparing <- struct{}{}:
		return func() { <-f.comparing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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
	sort.SliceStable(out, func(i, j int) bool { return out[i].Set < out[j].Set })
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
