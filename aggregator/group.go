package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
// changed last. Its methods are safe for concurrent use.
type Group struct {
	members []*Upstream
	merge   *merger // nil: no own URI can be that of two upstreams
	catalog catalog.Catalog
	set     string
	o       GroupOptions
	events  intake.Reporter

	mu      sync.Mutex // guards failing
	failing map[int]bool
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
	g := &Group{catalog: cat, set: set, o: o, events: intake.Reporter{OnEvent: o.OnEvent}, failing: map[int]bool{}}
	if overlap(upstreams) {
		g.merge = &merger{Catalog: cat, set: set, events: &g.events}
	}
	for i, uo := range upstreams {
		uo.shared, uo.Fleet = true, o.Fleet
		uo.OnEvent = func(e intake.Event) { g.emit(i, e) }
		from, into := cat, set
		if g.merge != nil {
			from, into = g.merge, set+"#"+uo.Name // no set that is published has such a name
			g.merge.members = append(g.merge.members, member{name: uo.Name, address: uo.Address, set: into, uri: uo.URI, everywhere: uo.InPlace,
				first: func() *firstRun { return &g.members[i].first }})
			uo.onFirst = func(ctx context.Context) error { return g.merge.settleFirst(ctx, i, unavailable(g.members[i])) }
		}
		u, err := New(from, into, uo, func(deliver func(context.Context, []destination.Change) error) (Mirror, error) {
			return open(i, deliver)
		})
		if err != nil {
			return nil, err
		}
		g.members = append(g.members, u)
	}
	o.Fleet.join(g)
	return g, nil
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

// emit passes on an event of a member.
func (g *Group) emit(i int, e intake.Event) {
	if e.Kind == intake.EventScanned {
		g.mu.Lock()
		delete(g.failing, i)
		quiet := len(g.failing) > 0 && e.Err == nil
		if e.Err != nil {
			g.failing[i] = true
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
	reports, errs := make([]intake.Report, len(g.members)), make([]error, len(g.members))
	var work errgroup.Group
	work.SetLimit(scanned)
	for i, u := range g.members {
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
	errs = append(errs, g.settle(ctx, t))
	for _, u := range g.members {
		if u.first.isOver() {
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

// Watch follows all upstreams until ctx ends, and then returns the cause.
func (g *Group) Watch(ctx context.Context, onChange func(intake.Report)) error {
	var work sync.WaitGroup
	for _, u := range g.members {
		work.Go(func() { _ = u.Watch(ctx, onChange) }) // it ends with ctx
	}
	work.Wait()
	return context.Cause(ctx)
}

// Bitstream opens the file of a resource, as [Upstream.Bitstream] does.
func (g *Group) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	name, _, _ := parseToken(r.Token)
	for _, u := range g.members {
		if u.o.Name == name {
			return u.Bitstream(ctx, r)
		}
	}
	return nil, fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
}

// Handler serves what hubs call of the upstream with a number.
func (g *Group) Handler(i int) http.Handler { return g.members[i].Handler() }

// settle brings the set in step with what the upstreams have filled: it removes the
// resources of upstreams that are no longer in the group, and repeats what a crash has
// prevented.
func (g *Group) settle(ctx context.Context, t *intake.Tally) error {
	if g.merge != nil {
		return g.merge.settle(ctx, t)
	}
	names := make(map[string]bool, len(g.members))
	for _, u := range g.members {
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
