package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/intake"
)

// A Group is several upstreams that fill one set. Where two of them have resources with
// the same own URI, the one that comes first in the group is republished, whichever
// changed last. Upstreams can be added and removed while the others are followed. Its
// methods are safe for concurrent use.
type Group struct {
	merge    *merger // nil: no own URI can be that of two upstreams
	catalog  catalog.Catalog
	set      string
	o        GroupOptions
	events   intake.Reporter
	arranged chan struct{} // receives a value when there are upstreams to be watched

	mu      sync.Mutex     // guards the rest
	members []*groupMember // is replaced, never changed
	failing map[string]bool
}

// A groupMember is an upstream of a Group.
type groupMember struct {
	*Upstream
	added   bool          // while the group was watched
	started bool          // it is watched; the lock of the group guards it
	quit    chan struct{} // closed when it is to end
	ended   chan struct{} // closed when it has
}

// GroupOptions configures a [Group]. The zero value is ready to use.
type GroupOptions struct {
	TempDir string // as of [Options]
	Fleet   *Fleet // likewise, for all upstreams of the group

	// OnEvent receives the events of all upstreams, never concurrently; may be nil. An
	// upstream that works again is reported when none fails any more.
	OnEvent func(intake.Event)
}

// scanned is how many upstreams are scanned at a time.
const scanned = 4

// NewGroup returns a Group that fills a set of cat. The upstreams come in the order of
// their priority, and have different names. open opens the mirror of the upstream with a
// number, as for [New].
func NewGroup(cat catalog.Catalog, set string, o GroupOptions, upstreams []Options, open func(i int, deliver func(context.Context, []destination.Change) error) (Mirror, error)) (*Group, error) {
	g := &Group{catalog: cat, set: set, o: o, events: intake.Reporter{OnEvent: o.OnEvent}, arranged: make(chan struct{}, 1), failing: map[string]bool{}}
	if overlap(upstreams) {
		g.merge = &merger{Catalog: cat, set: set, events: &g.events}
	}
	for i, uo := range upstreams {
		m, err := g.open(uo, func(deliver func(context.Context, []destination.Change) error) (Mirror, error) {
			return open(i, deliver)
		})
		if err != nil {
			return nil, err
		}
		g.members = append(g.members, m)
	}
	o.Fleet.join(g)
	return g, nil
}

// open opens an upstream of the group, which comes after all others.
func (g *Group) open(uo Options, open func(deliver func(context.Context, []destination.Change) error) (Mirror, error)) (*groupMember, error) {
	uo.shared, uo.Fleet = true, g.o.Fleet
	uo.OnEvent = func(e intake.Event) { g.emit(uo.Name, e) }
	if g.merge == nil {
		u, err := New(g.catalog, g.set, uo, open)
		return newGroupMember(u), err
	}
	o := &member{name: uo.Name, address: uo.Address, set: g.set + "#" + uo.Name, uri: uo.URI, everywhere: uo.InPlace} // no set that is published has such a name
	var u *Upstream
	uo.onFirst = func(ctx context.Context) error { return g.merge.settleFirst(ctx, o, unavailable(u)) }
	u, err := New(g.merge, o.set, uo, open)
	if err != nil {
		return nil, err
	}
	o.first = u.first
	g.merge.add(o)
	return newGroupMember(u), nil
}

func newGroupMember(u *Upstream) *groupMember {
	return &groupMember{Upstream: u, quit: make(chan struct{}), ended: make(chan struct{})}
}

// all returns the upstreams, in the order of their priority.
func (g *Group) all() []*groupMember {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members
}

// overlap reports whether an own URI can be that of two upstreams.
func overlap(upstreams []Options) bool {
	for i := range upstreams {
		for j := range upstreams {
			if i != j && (upstreams[i].InPlace || strings.HasPrefix(upstreams[i].URI, upstreams[j].URI)) {
				return true
			}
		}
	}
	return false
}

// emit passes on an event of the upstream with a name.
func (g *Group) emit(name string, e intake.Event) {
	if e.Kind == intake.EventScanned {
		g.mu.Lock()
		delete(g.failing, name)
		quiet := len(g.failing) > 0 && e.Err == nil
		if e.Err != nil {
			g.failing[name] = true
		}
		g.mu.Unlock()
		if quiet {
			return
		}
	}
	g.events.Emit(e)
}

// Scan scans all upstreams. One that fails does not keep the others from being scanned.
func (g *Group) Scan(ctx context.Context) (intake.Report, error) {
	start := time.Now()
	members := g.all()
	reports, errs := make([]intake.Report, len(members)), make([]error, len(members))
	var work errgroup.Group
	work.SetLimit(scanned)
	for i, u := range members {
		work.Go(func() error {
			reports[i], errs[i] = u.Scan(ctx)
			return nil
		})
	}
	_ = work.Wait() // the errors are in errs
	if ctx.Err() != nil {
		return intake.Report{}, context.Cause(ctx)
	}
	t := &intake.Tally{Reporter: &g.events, Start: start}
	err := g.settle(ctx, t)
	errs = append(errs, err)
	for _, u := range members {
		if err == nil && u.first.isOver() { // else Watch does it
			u.first.settle()
		}
	}
	r := t.Report()
	for i := range reports {
		o := &reports[i]
		r.Created, r.Updated, r.Deleted, r.Unchanged = r.Created+o.Created, r.Updated+o.Updated, r.Deleted+o.Deleted, r.Unchanged+o.Unchanged
		r.Files += o.Files
		r.Unreadable.Merge(&o.Unreadable)
		r.Skipped.Merge(&o.Skipped)
	}
	return r, intake.Cause(ctx, errors.Join(errs...))
}

// Watch follows all upstreams until ctx ends, and then returns the cause. It may be called
// again.
func (g *Group) Watch(ctx context.Context, onChange func(intake.Report)) error {
	var work sync.WaitGroup
	defer g.stopped()
	defer work.Wait()
	for {
		g.mu.Lock()
		for _, m := range g.members {
			if !m.started {
				m.started = true
				ended := m.ended
				work.Go(func() {
					defer close(ended)
					m.watch(ctx, onChange)
				})
			}
		}
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.arranged:
		}
	}
}

// stopped has the next Watch follow all upstreams again.
func (g *Group) stopped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		m.started, m.ended = false, make(chan struct{})
	}
}

// watch follows the upstream until ctx ends or it is removed.
func (m *groupMember) watch(ctx context.Context, onChange func(intake.Report)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	if m.added {
		r, err := m.Scan(ctx)
		if ctx.Err() == nil && err != nil {
			m.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: r})
		}
		if ctx.Err() == nil {
			if m.settleFirst(ctx) && m.first.isOver() { // else Watch does it
				m.first.settle()
			}
			if onChange != nil {
				onChange(r)
			}
		}
	}
	_ = m.Watch(ctx, onChange) // it ends with ctx
}

// Bitstream opens the file of a resource, as [Upstream.Bitstream] does.
func (g *Group) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	name, _, _ := parseToken(r.Token)
	for _, u := range g.all() {
		if u.o.Name == name {
			return u.Bitstream(ctx, r)
		}
	}
	return nil, fmt.Errorf("open %s: %w", r.URI, ErrReplaced) // its upstream has just been removed
}

// Handler serves what hubs call of the upstream with a number.
func (g *Group) Handler(i int) http.Handler { return g.all()[i].Handler() }

// settle brings the set in step with what the upstreams have filled: it removes the
// resources of upstreams that are no longer in the group, and repeats what a crash has
// prevented.
func (g *Group) settle(ctx context.Context, t *intake.Tally) error {
	if g.merge != nil {
		return g.merge.settle(ctx, t)
	}
	members := g.all()
	names := make(map[string]bool, len(members))
	for _, u := range members {
		names[u.o.Name] = true
	}
	rows := intake.ReadRows(ctx, g.catalog, g.set, []catalog.Range{{}})
	defer rows.Stop()
	var batch []catalog.Update
	flush := func() error {
		a, err := g.catalog.Apply(ctx, g.set, batch)
		batch = nil // the catalog may keep it
		t.Applied(a)
		return err
	}
	for ; rows.More(); rows.Next() {
		if name, _, _ := parseToken(rows.Row().Token); names[name] {
			continue
		}
		if batch = append(batch, deletion(rows.Row().URI)); len(batch) == intake.BatchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if rows.Err != nil || len(batch) == 0 {
		return rows.Err
	}
	return flush()
}

// deletion returns the update that deletes a resource.
func deletion(uri string) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
}
