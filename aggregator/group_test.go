package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/resourcesync"
)

// newGroup opens mirrors as those of upstreams that fill one set; the first has priority.
func newGroup(t *testing.T, cat catalog.Catalog, prefix func(i int) string, mirrors ...*world) *aggregator.Group {
	t.Helper()
	var all []aggregator.Options
	for i := range mirrors {
		all = append(all, aggregator.Options{Name: fmt.Sprint("up", i), Address: home + fmt.Sprint(i), URI: here + prefix(i), BaseURL: here, Continue: true})
	}
	g, err := aggregator.NewGroup(cat, list, aggregator.GroupOptions{}, all, func(i int, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		mirrors[i].deliver = deliver
		return aggregator.Mirror{Store: mirrors[i].store, Journal: mirrors[i].journal}, nil
	})
	must(t, err)
	return g
}

func shared(int) string     { return "" }
func apart(i int) string    { return fmt.Sprint(i, "/") }
func overlap(i int) string  { return []string{"", "r/", "r/s/"}[i] }
func (w *world) keep(n int) { w.hold(fmt.Sprint("never-listed", n), "x", link("via", here+"x")) } // so that Scan leaves the upstream alone

// TestThePriorityDecidesWhoseResourceIsRepublished: after any changes, in any order, each
// own URI has the record of the first upstream that has it, and a comparison that follows
// finds nothing to change: nothing flaps.
func TestThePriorityDecidesWhoseResourceIsRepublished(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]func(int) string{"shared": shared, "apart": apart, "overlap": overlap} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			public := newWorld(t)
			mirrors := []*world{newWorld(t), newWorld(t), newWorld(t)}
			for i, w := range mirrors {
				w.keep(i)
			}
			g := newGroup(t, public.catalog, prefix, mirrors...)
			if _, err := g.Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
			held := make([]map[string]string, len(mirrors)) // texts by path
			for i := range held {
				held[i] = map[string]string{}
			}
			paths := []string{"a", "b", "s/a", "r/a", "r/s/a"}
			for step := range 200 {
				i, path := rand.IntN(len(mirrors)), paths[rand.IntN(len(paths))]
				kind := resourcesync.Updated
				if _, ok := held[i][path]; ok && rand.IntN(2) == 0 {
					kind = resourcesync.Deleted
					delete(held[i], path)
					mirrors[i].drop(path)
				} else {
					if !ok {
						kind = resourcesync.Created
					}
					held[i][path] = fmt.Sprint(i, path, step)
					mirrors[i].hold(path, held[i][path])
				}
				must(t, mirrors[i].deliver(t.Context(), []destination.Change{{URI: home + path, Path: path, Kind: kind}}))
			}
			want := map[string]string{}
			for i := len(mirrors) - 1; i >= 0; i-- {
				for path, text := range held[i] {
					want[here+prefix(i)+path] = text
				}
			}
			n := 0
			for r, err := range public.catalog.Resources(t.Context(), list, catalog.Range{}) {
				must(t, err)
				if n++; !slices.Equal(r.Hashes, hashesOf(want[r.URI])) {
					t.Errorf("%s is not %q", r.URI, want[r.URI])
				}
				f, err := g.Bitstream(t.Context(), &r)
				must(t, err)
				must(t, f.Close())
			}
			if n != len(want) {
				t.Errorf("%d resources, want %d", n, len(want))
			}
			if r, err := g.Scan(t.Context()); err != nil || r.Changed() {
				t.Errorf("nothing changed: %+v, %v", r, err)
			}
		})
	}
}

// TestTheSameResourceFromAnotherUpstreamKeepsItsTime: where all that is published remains
// the same, no time changes; otherwise the Resource List would contradict the Change List
// (RS-REL-73).
func TestTheSameResourceFromAnotherUpstreamKeepsItsTime(t *testing.T) {
	t.Parallel()
	public := newWorld(t)
	mirrors := []*world{newWorld(t), newWorld(t)}
	for i, w := range mirrors {
		w.keep(i)
	}
	_, err := newGroup(t, public.catalog, shared, mirrors...).Scan(t.Context()) // so that none is waited for
	must(t, err)
	var times []time.Time
	for _, i := range []int{1, 0} { // the one with priority comes later
		mirrors[i].hold("a", "text")
		must(t, mirrors[i].deliver(t.Context(), []destination.Change{{URI: home + "a", Path: "a", Kind: resourcesync.Created}}))
		times = append(times, public.record(here+"a").Lastmod)
		time.Sleep(time.Microsecond) // the resolution of times
	}
	if times[0].IsZero() || !times[0].Equal(times[1]) || public.record(here+"a").Seq != 1 {
		t.Errorf("lastmod %v, then %v; change %d", times[0], times[1], public.record(here+"a").Seq)
	}
}

// brittle is a Catalog that fails to apply updates to a set.
type brittle struct {
	catalog.Catalog
	set string // "": none
}

func (b *brittle) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if set == b.set {
		return catalog.Applied{}, errors.New("killed here")
	}
	return b.Catalog.Apply(ctx, set, updates)
}

// TestAGroupContinuesAfterACrash: what a batch has not brought into the published set, the
// next scan does; and an upstream that is no longer in the group is removed from it.
func TestAGroupContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]func(int) string{"shared": shared, "apart": apart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			public := newWorld(t)
			one, two := newWorld(t), newWorld(t)
			one.keep(1)
			two.keep(2)
			cat := &brittle{Catalog: public.catalog, set: list}
			g := newGroup(t, cat, prefix, one, two)
			one.hold("a", "text")
			two.hold("b", "text")
			if _, err := g.Scan(t.Context()); err == nil {
				t.Error("the crash was not reported")
			}
			cat.set = ""
			if r, err := g.Scan(t.Context()); err != nil || !r.Changed() {
				t.Fatalf("%+v, %v", r, err)
			}
			public.want(prefix(0)+"a via="+home+"a", prefix(1)+"b via="+home+"b")
			alone := newGroup(t, cat, prefix, one)
			if r, err := alone.Scan(t.Context()); err != nil || r.Deleted != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			public.want(prefix(0) + "a via=" + home + "a")
		})
	}
}

// TestOverlappingUpstreamsNameWhatTheyHide: a scan reports each own URI that two have.
func TestOverlappingUpstreamsNameWhatTheyHide(t *testing.T) {
	t.Parallel()
	public := newWorld(t)
	one, two := newWorld(t), newWorld(t)
	one.hold("same", "text")
	two.hold("same", "text")
	r, err := newGroup(t, public.catalog, shared, one, two).Scan(t.Context())
	must(t, err)
	if r.Skipped.Count != 1 || r.Skipped.First[0].Path != here+"same" {
		t.Errorf("skipped = %+v", r.Skipped)
	}
}

// TestAGroupDeletesWhatItCouldNotDelete: a deletion that has reached the set of its upstream, and
// not the published one, is made up for when it is delivered again.
func TestAGroupDeletesWhatItCouldNotDelete(t *testing.T) {
	t.Parallel()
	public := newWorld(t)
	one, two := newWorld(t), newWorld(t)
	one.keep(1)
	two.keep(2)
	cat := &brittle{Catalog: public.catalog}
	g := newGroup(t, cat, shared, one, two)
	one.hold("a", "text")
	one.hold("b", "text")
	if _, err := g.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	public.want("a via="+home+"a", "b via="+home+"b")
	one.drop("a")
	gone := []destination.Change{{URI: home + "a", Path: "a", Kind: resourcesync.Deleted}}
	cat.set = list
	if err := one.deliver(t.Context(), gone); err == nil {
		t.Error("the failure was not reported")
	}
	cat.set = ""
	must(t, one.deliver(t.Context(), gone))
	public.want("b via=" + home + "b")
}

// unanswered is a Catalog that loses the answer to a write, as a database does if the connection
// breaks during the commit.
type unanswered struct {
	catalog.Catalog
	set string // of the write; "": none
}

func (l *unanswered) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	a, err := l.Catalog.Apply(ctx, set, updates)
	if err == nil && set == l.set {
		return catalog.Applied{}, errors.New("connection lost")
	}
	return a, err
}

// TestAGroupDeletesWhatItHasDeletedHalf: a deletion that has reached the set of its upstream,
// although the answer was lost, or the process was killed then, reaches the published one when
// it is delivered again, or with the scan at the start.
func TestAGroupDeletesWhatItHasDeletedHalf(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		public := newWorld(t)
		one, two := newWorld(t), newWorld(t)
		one.keep(1)
		two.keep(2)
		cat := &unanswered{Catalog: public.catalog}
		g := newGroup(t, cat, shared, one, two)
		one.hold("a", "text")
		one.hold("b", "text")
		if _, err := g.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		one.drop("a")
		gone := []destination.Change{{URI: home + "a", Path: "a", Kind: resourcesync.Deleted}}
		cat.set = list + "#up0"
		if err := one.deliver(t.Context(), gone); err == nil {
			t.Error("the failure was not reported")
		}
		cat.set = ""
		public.want("a via="+home+"a", "b via="+home+"b")
		if restart {
			g = newGroup(t, public.catalog, shared, one, two)
		}
		must(t, one.deliver(t.Context(), gone))
		if restart {
			if _, err := g.Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		public.want("b via=" + home + "b")
	}
}
