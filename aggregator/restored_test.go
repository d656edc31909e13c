package aggregator_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/catalog"
	"lockstep/destination"
)

// TestARestoredMirrorDeletesNothing: a mirror that was restored from a backup lacks what
// has come since; the upstream has not deleted that. A resource that the mirror holds and
// that is refused is no longer republished.
func TestARestoredMirrorDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a", "text")
	w.hold("b", "text")
	w.hold("c", "text")
	w.scan(w.upstream(aggregator.Options{}))
	w.drop("b") // it is not in the backup
	w.hold("c", "text", link("via", here+"c"))
	if r := w.scan(w.upstream(aggregator.Options{})); r.Deleted != 1 {
		t.Errorf("report = %+v", r)
	}
	w.want("a via="+home+"a", "b via="+home+"b")
}

// TestALostMirrorNeedsNoConsent: what it lacks stays, so that most of it is missing is no reason
// to ask for a consent that would have it deleted.
func TestALostMirrorNeedsNoConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 300 {
		w.hold(fmt.Sprint(i), "text")
	}
	w.keep(0)
	w.scan(w.upstream(aggregator.Options{}))
	for i := range 299 {
		w.drop(fmt.Sprint(i))
	}
	for range 2 { // some of it has come back, and nothing
		if r := w.scan(w.upstream(aggregator.Options{})); r.Deleted != 0 || len(w.records()) != 300 {
			t.Errorf("report = %+v", r)
		}
		w.drop("299")
	}
}

// TestAMirrorThatIsBeingFilledDeletesNothing: a mirror that was lost is filled again. What
// it lacks meanwhile remains published; what the upstream has deleted is deleted once the
// mirror is in step.
func TestAMirrorThatIsBeingFilledDeletesNothing(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint(interval), func(t *testing.T) {
			t.Parallel()
			fillMirror(t, interval)
		})
	}
}

func fillMirror(t *testing.T, interval time.Duration) {
	s := newSite(t, map[string]string{"late.txt": "1", "early.txt": "2", "gone.txt": "3"})
	cat := catalog.NewMem(nil)
	if _, err := cat.Mark(t.Context(), list); err != nil { // changes are recorded from now on
		t.Fatal(err)
	}
	open := func() *aggregator.Upstream {
		address := s.URL + "/capabilitylist.xml"
		o := aggregator.Options{Name: "up", Address: address, URI: here, BaseURL: here, Later: true, Interval: interval,
			Follow: destination.FollowOptions{Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond}}
		u, err := aggregator.New(cat, list, o, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
			m := &merged{t: t}
			return m.open(address, deliver)
		})
		must(t, err)
		return u
	}
	has := func(name string) bool {
		_, ok, err := catalog.Find(t.Context(), cat, list, here+name)
		must(t, err)
		return ok
	}
	watch := func(u *aggregator.Upstream) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { _ = u.Watch(ctx, nil) }) // it ends with ctx
		return func() { cancel(); work.Wait() }
	}
	stop := watch(open())
	defer func() { stop() }()
	eventually(t, "all resources", func() bool { return has("late.txt") && has("early.txt") && has("gone.txt") })
	stop()

	s.set(func() {
		delete(s.files, "gone.txt")
		s.files["more.txt"] = "4"
		s.sick = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/late.txt" {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			s.serve(w, r)
		}
	})
	u := open()
	stop = watch(u)
	eventually(t, "a part of the mirror", func() bool { return has("more.txt") })
	if r, err := u.Scan(t.Context()); err != nil || r.Deleted > 0 || !has("late.txt") || !has("gone.txt") {
		t.Errorf("report %+v, %v", r, err)
	}
	s.set(func() { s.sick = nil })
	eventually(t, "the deletion", func() bool { return !has("gone.txt") })
	for c, err := range cat.Changes(t.Context(), list, 0) {
		must(t, err)
		if c.Change.String() == "deleted" && !strings.HasSuffix(c.URI, "/gone.txt") {
			t.Errorf("%s was deleted", c.URI)
		}
	}
}
