package aggregator_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/intake"
)

// A merged is a group of two upstreams with the same own URIs, of which the first has
// priority, as it is followed.
type merged struct {
	t     *testing.T
	group *aggregator.Group
	cat   *catalog.Mem
	mu    sync.Mutex // guards said
	said  []string   // warnings
	stop  func()     // ends the last watch
}

func merge(t *testing.T, wait time.Duration, sites ...*site) *merged {
	t.Helper()
	cat := catalog.NewMem(nil)
	return mergeInto(t, cat, cat, wait, sites...)
}

// mergeInto has the group fill a catalog that stores what it is given in mem.
func mergeInto(t *testing.T, cat catalog.Catalog, mem *catalog.Mem, wait time.Duration, sites ...*site) *merged {
	t.Helper()
	m := &merged{t: t, cat: mem}
	var all []aggregator.Options
	for i, s := range sites {
		all = append(all, aggregator.Options{Name: string(rune('a' + i)), Address: s.URL + "/capabilitylist.xml", URI: here, BaseURL: here, Later: true, FirstWait: wait,
			Follow: destination.FollowOptions{Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond, PauseMost: 100 * time.Millisecond}})
	}
	o := aggregator.GroupOptions{OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventUnreadable {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.said = append(m.said, e.Path+": "+e.Err.Error())
		}
	}}
	var err error
	m.group, err = aggregator.NewGroup(cat, list, o, all, func(i int, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		return m.open(all[i].Address, deliver)
	})
	must(t, err)
	_, err = m.cat.Mark(t.Context(), list) // changes are recorded from now on
	must(t, err)
	_, err = m.group.Scan(t.Context())
	must(t, err)
	m.watch()
	return m
}

// watch has the group followed until stop is called.
func (m *merged) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = m.group.Watch(ctx, nil) }) // it ends with ctx
	m.stop = func() { cancel(); work.Wait() }
	m.t.Cleanup(m.stop)
}

// open opens an empty mirror.
func (m *merged) open(address string, deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
	am := aggregator.Mirror{Store: &blob.Mem{}, Journal: &journal.Mem{}}
	client, err := destination.NewClient(address, destination.ClientOptions{Retries: -1, Ungated: true})
	must(m.t, err)
	m.t.Cleanup(client.Close)
	am.Destination, err = destination.New(am.Store, am.Journal, client, destination.Options{Deliver: deliver})
	return am, err
}

// changes returns all changes of the published set.
func (m *merged) changes() (all []string) {
	for c, err := range m.cat.Changes(m.t.Context(), list, 0) {
		must(m.t, err)
		name, _, _ := strings.Cut(c.Token, " ")
		all = append(all, strings.TrimPrefix(c.URI, here)+" "+c.Change.String()+" "+name)
	}
	return all
}

func (m *merged) warned(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.said, func(s string) bool { return strings.Contains(s, text) })
}

// closed returns an answer that waits for the function it returns, too.
func closed(s *site) (sick func(w http.ResponseWriter, r *http.Request), open func()) {
	gate := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
			s.serve(w, r)
		case <-r.Context().Done():
		}
	}, sync.OnceFunc(func() { close(gate) })
}

// TestTheFirstRunOfAPriorUpstreamIsAwaited: what an upstream of lower priority has at a
// shared address is not published before the first run of the prior one is over, so that
// it is not replaced a moment later.
func TestTheFirstRunOfAPriorUpstreamIsAwaited(t *testing.T) {
	t.Parallel()
	prior := newSite(t, map[string]string{"both.txt": "prior", "one.txt": "1"})
	other := newSite(t, map[string]string{"both.txt": "other", "two.txt": "2"})
	sick, open := closed(prior)
	prior.set(func() { prior.sick = sick })
	t.Cleanup(open)
	m := merge(t, 0, prior, other)
	eventually(t, "the other upstream", func() bool { return m.group.Statuses()[1].State == aggregator.StateFollowing })
	if all := m.changes(); len(all) > 0 || !m.group.Awaited() {
		t.Errorf("awaited: %t, published: %q", m.group.Awaited(), all)
	}
	open()
	eventually(t, "the end of the first run", func() bool { return !m.group.Awaited() })
	all := m.changes()
	slices.Sort(all)
	if want := []string{"both.txt created a", "one.txt created a", "two.txt created b"}; !slices.Equal(all, want) {
		t.Errorf("changes %q, want %q", all, want)
	}
	if m.warned("could not be read") {
		t.Errorf("warnings %q", m.said)
	}
}

// TestAFailingUpstreamIsNotAwaited: what others have at its addresses is published, which
// is reported; when it comes back it takes the addresses.
func TestAFailingUpstreamIsNotAwaited(t *testing.T) {
	t.Parallel()
	prior := newSite(t, map[string]string{"both.txt": "prior"})
	other := newSite(t, map[string]string{"both.txt": "other"})
	prior.set(func() {
		prior.sick = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
	})
	m := merge(t, 0, prior, other)
	eventually(t, "the other's resource", func() bool { return slices.Equal(m.changes(), []string{"both.txt created b"}) && !m.group.Awaited() })
	prior.set(func() { prior.sick = nil })
	eventually(t, "the prior resource", func() bool { return slices.Contains(m.changes(), "both.txt updated a") })
}

// TestAHangingUpstreamIsAwaitedForSomeTime: not longer than it may be; that is reported.
func TestAHangingUpstreamIsAwaitedForSomeTime(t *testing.T) {
	t.Parallel()
	prior := newSite(t, map[string]string{"both.txt": "prior"})
	other := newSite(t, map[string]string{"both.txt": "other"})
	sick, open := closed(prior)
	prior.set(func() { prior.sick = sick })
	t.Cleanup(open)
	m := merge(t, 10*time.Second, prior, other) // the other one has its resource by then, also on a busy machine
	eventually(t, "the other's resource", func() bool { return slices.Equal(m.changes(), []string{"both.txt created b"}) && !m.group.Awaited() })
	eventually(t, "a warning", func() bool { return m.warned("was not read within 10s") })
}

// TestAGroupIsWatchedAgain: after Watch has ended, as at each SIGHUP, the next one follows
// all upstreams, and one that is removed then ends.
func TestAGroupIsWatchedAgain(t *testing.T) {
	t.Parallel()
	first, second := newSite(t, map[string]string{"one.txt": "1"}), newSite(t, map[string]string{"two.txt": "2"})
	m := merge(t, 0, first, second)
	eventually(t, "the start", func() bool { return !m.group.Awaited() && len(m.changes()) == 2 })
	for _, name := range []string{"x.txt", "y.txt"} {
		m.stop()
		m.watch()
		first.set(func() { first.files[name] = name })
		second.set(func() { second.files["second-"+name] = name })
		eventually(t, "changes of both", func() bool {
			return slices.Contains(m.changes(), name+" created a") && slices.Contains(m.changes(), "second-"+name+" created b")
		})
	}
	m.group.Remove("a")
	if all := m.group.Statuses(); len(all) != 1 {
		t.Errorf("statuses %+v", all)
	}
}

// TestUpstreamsJoinAndLeaveAGroup: one that is added with the highest priority takes the
// addresses that it has, too; when it is removed they return to the other one. The other
// one is followed all the time.
func TestUpstreamsJoinAndLeaveAGroup(t *testing.T) {
	t.Parallel()
	first := newSite(t, map[string]string{"both.txt": "first", "one.txt": "1"})
	second := newSite(t, map[string]string{"two.txt": "2"})
	joins := newSite(t, map[string]string{"both.txt": "joins", "three.txt": "3"})
	m := merge(t, 0, first, second)
	eventually(t, "the start", func() bool { return !m.group.Awaited() && len(m.changes()) == 3 })
	address := joins.URL + "/capabilitylist.xml"
	add := func() error {
		_, err := m.group.Add(aggregator.Options{Name: "c", Address: address, URI: here, BaseURL: here, Later: true}, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			return m.open(address, deliver)
		})
		return err
	}
	must(t, add())
	if add() == nil {
		t.Error("a name can be that of two upstreams")
	}
	_, err := m.group.Arrange(t.Context(), []string{"c", "a", "b"})
	must(t, err)
	eventually(t, "the resources of the new one", func() bool {
		all := m.changes()
		return slices.Contains(all, "both.txt updated c") && slices.Contains(all, "three.txt created c")
	})
	m.group.Remove("c")
	m.group.Remove("c") // it is no longer there
	_, err = m.group.Arrange(t.Context(), []string{"b", "a"})
	must(t, err)
	if all := m.changes(); !slices.Contains(all, "both.txt updated a") || !slices.ContainsFunc(all, func(c string) bool { return strings.HasPrefix(c, "three.txt deleted") }) {
		t.Errorf("changes %q", all)
	}
	if all := m.group.Statuses(); len(all) != 2 || all[0].Name != "b" {
		t.Errorf("statuses %+v", all)
	}
	first.set(func() { first.files["more.txt"] = "4" })
	eventually(t, "a change of another one", func() bool { return slices.Contains(m.changes(), "more.txt created a") })
}

// fullDisk is a Catalog that fails to apply updates to a set until there is room.
type fullDisk struct {
	catalog.Catalog
	set    string
	room   atomic.Bool
	failed atomic.Int64
}

func (d *fullDisk) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	if set == d.set && !d.room.Load() {
		d.failed.Add(1)
		return catalog.Applied{}, errors.New("no space left on device")
	}
	return d.Catalog.Apply(ctx, set, updates)
}

// TestWhatHasWaitedIsPublishedAfterAFailure: if what has waited for the first run of an
// upstream cannot be written, that is tried again, and awaited.
func TestWhatHasWaitedIsPublishedAfterAFailure(t *testing.T) {
	t.Parallel()
	prior := newSite(t, map[string]string{"both.txt": "prior"})
	other := newSite(t, map[string]string{"both.txt": "other"})
	sick, open := closed(prior)
	prior.set(func() {
		prior.sick = func(w http.ResponseWriter, r *http.Request) {
			sick(httptest.NewRecorder(), r) // wait
			http.Error(w, "no", http.StatusInternalServerError)
		}
	})
	t.Cleanup(open)
	mem := catalog.NewMem(nil)
	full := &fullDisk{Catalog: mem, set: list}
	m := mergeInto(t, full, mem, 0, prior, other)
	eventually(t, "the other upstream", func() bool { return m.group.Statuses()[1].State == aggregator.StateFollowing })
	open()
	eventually(t, "two failures", func() bool { return full.failed.Load() >= 2 })
	if !m.group.Awaited() {
		t.Error("what could not be written is not awaited")
	}
	full.room.Store(true)
	eventually(t, "the other's resource", func() bool { return slices.Equal(m.changes(), []string{"both.txt created b"}) && !m.group.Awaited() })
}

// TestAComparisonThatFailsIsRepeated: a mirror that could not be compared with the catalog at
// the start is compared as soon as that is possible.
func TestAComparisonThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{true, false} {
		w := newWorld(t)
		w.hold("a", "text")
		full := &fullDisk{Catalog: w.catalog, set: list}
		s := newSite(t, nil)
		s.sick = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
		o := aggregator.Options{Name: "up", Address: s.URL + "/capabilitylist.xml", URI: here, BaseURL: here, Later: later, Continue: true}
		u, err := aggregator.New(full, list, o, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			m := &merged{t: t}
			am, err := m.open(o.Address, deliver)
			am.Store, am.Journal = w.store, w.journal
			return am, err
		})
		must(t, err)
		if _, err := u.Scan(t.Context()); (err == nil) != later {
			t.Errorf("Scan = %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { _ = u.Watch(ctx, nil) }) // it ends with ctx
		eventually(t, "two failures", func() bool { return full.failed.Load() >= 2 })
		full.room.Store(true)
		eventually(t, "the resource", func() bool { return w.record(here+"a").URI != "" })
		cancel()
		work.Wait()
	}
}

// TestAComparisonThatWasCancelledIsMadeLater: the first run is not over because Watch has ended
// while the mirror could not be compared.
func TestAComparisonThatWasCancelledIsMadeLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a", "text")
	full := &fullDisk{Catalog: w.catalog, set: list}
	s := newSite(t, nil)
	s.sick = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
	u := w.followed(full, s, aggregator.Options{})
	for range 2 {
		stop := watch(t, u)
		before := full.failed.Load()
		eventually(t, "failures", func() bool { return full.failed.Load() >= before+2 && u.Status().Attempts >= 3 })
		stop()
	}
	if !u.Awaited() {
		t.Error("the first run is over, but the mirror was not compared")
	}
	full.room.Store(true)
	watch(t, u)
	eventually(t, "the resource", func() bool { return w.record(here+"a").URI != "" && !u.Awaited() })
}

// TestARepairedComparisonDoesNotHideAFailingUpstream: that the catalog could be written again
// does not mean that the upstream can be read again. That is reported when it is so.
func TestARepairedComparisonDoesNotHideAFailingUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.journal = &journal.Mem{}
	full := &fullDisk{Catalog: w.catalog, set: list}
	full.room.Store(true)
	s := newSite(t, map[string]string{"one.txt": "1"})
	var mu sync.Mutex // guards works
	works := 0        // scans without an error
	reported := func() int {
		mu.Lock()
		defer mu.Unlock()
		return works
	}
	u := w.followed(full, s, aggregator.Options{Interval: 20 * time.Millisecond, OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventScanned && e.Err == nil {
			mu.Lock()
			defer mu.Unlock()
			works++
		}
	}})
	watch(t, u)
	eventually(t, "the start", func() bool {
		return u.Status().State == aggregator.StateFollowing && w.record(here+"one.txt").URI != ""
	})
	s.set(func() {
		s.sick = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
	})
	eventually(t, "a failure of the upstream", func() bool { return u.Status().Attempts >= 2 })
	full.room.Store(false)
	lost := catalog.Update{Record: catalog.Record{URI: here + "one.txt"}, Deleted: true}
	_, err := w.catalog.Apply(t.Context(), list, []catalog.Update{lost})
	must(t, err)
	eventually(t, "a failure of the catalog", func() bool { return full.failed.Load() >= 1 })
	before := reported()
	full.room.Store(true)
	eventually(t, "the resource", func() bool { return w.record(here+"one.txt").URI != "" })
	attempts := u.Status().Attempts
	eventually(t, "another failure of the upstream", func() bool { return u.Status().Attempts > attempts })
	if n := reported(); n != before {
		t.Errorf("%d times reported that it works", n-before)
	}
	s.set(func() { s.sick = nil })
	eventually(t, "a report that the upstream works", func() bool { return reported() > before })
}

// followed returns an Upstream whose mirror is that of the world, and which fills cat.
func (w *world) followed(cat catalog.Catalog, s *site, o aggregator.Options) *aggregator.Upstream {
	w.t.Helper()
	o.Name, o.Address, o.URI, o.BaseURL, o.Later = "up", s.URL+"/capabilitylist.xml", here, here, true
	o.Follow = destination.FollowOptions{Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond, PauseMost: 100 * time.Millisecond}
	u, err := aggregator.New(cat, list, o, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		am := aggregator.Mirror{Store: w.store, Journal: w.journal}
		client, err := destination.NewClient(o.Address, destination.ClientOptions{Retries: -1, Ungated: true})
		must(w.t, err)
		w.t.Cleanup(client.Close)
		am.Destination, err = destination.New(am.Store, am.Journal, client, destination.Options{Deliver: deliver})
		return am, err
	})
	must(w.t, err)
	return u
}

// watch has the upstream followed until stop is called, or the test ends.
func watch(t *testing.T, u *aggregator.Upstream) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = u.Watch(ctx, nil) }) // it ends with ctx
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	return stop
}
