package aggregator_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// A site is an upstream with a Resource List, as bad as a test wants.
type site struct {
	*httptest.Server
	mu    sync.Mutex // guards the rest
	files map[string]string
	sick  func(w http.ResponseWriter, r *http.Request) // answers instead; may be nil
	lists int                                          // requests for the Resource List
}

func newSite(t *testing.T, files map[string]string) *site {
	s := &site{files: files}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// set changes the site with do.
func (s *site) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	sick := s.sick
	s.mu.Unlock()
	if sick != nil {
		sick(w, r)
		return
	}
	s.serve(w, r)
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const head = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	text, ok := s.files[r.URL.Path[1:]]
	switch {
	case r.URL.Path == "/capabilitylist.xml":
		text = head + `<rs:md capability="capabilitylist"/><url><loc>` + s.URL + `/resourcelist.xml</loc><rs:md capability="resourcelist"/></url></urlset>`
	case r.URL.Path == "/resourcelist.xml":
		s.lists++
		text = head + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`
		for name, body := range s.files {
			text += fmt.Sprintf(`<url><loc>%s/%s</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, s.URL, name, sha256.Sum256([]byte(body)), len(body))
		}
		text += `</urlset>`
	case !ok:
		http.NotFound(w, r)
		return
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
	if r.URL.Path == "/resourcelist.xml" {
		tag = fmt.Sprintf(`"%x"`, sha256.Sum256(fmt.Append(nil, s.files)))
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write([]byte(text)) // a client that is gone needs no answer
}

// follow republishes a site in a catalog of its own until the test ends.
func follow(t *testing.T, s *site, o aggregator.Options) (*aggregator.Upstream, catalog.Catalog) {
	t.Helper()
	cat := catalog.NewMem(nil)
	return followInto(t, cat, s, o, nil), cat
}

// followInto republishes a site in cat until the test ends.
func followInto(t *testing.T, cat catalog.Catalog, s *site, o aggregator.Options, onChange func(intake.Report)) *aggregator.Upstream {
	t.Helper()
	o.Name, o.Address, o.URI, o.BaseURL = "up", s.URL+"/capabilitylist.xml", here, here
	u, err := aggregator.New(cat, list, o, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		m := aggregator.Mirror{Store: &blob.Mem{}, Journal: &journal.Mem{}}
		client, err := destination.NewClient(o.Address, destination.ClientOptions{Retries: -1, Ungated: true})
		must(t, err)
		t.Cleanup(client.Close)
		m.Destination, err = destination.New(m.Store, m.Journal, client, destination.Options{Deliver: deliver})
		return m, err
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = u.Watch(ctx, onChange) }) // it ends with ctx
	t.Cleanup(func() { cancel(); work.Wait() })
	return u
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
}

// resources returns how many resources are republished.
func resources(t *testing.T, cat catalog.Catalog) int64 {
	t.Helper()
	st, err := cat.Status(t.Context(), list)
	must(t, err)
	return st.Resources
}

// TestStatusOfAnUpstream: it shows failures with their number, age and the next attempt,
// and that what was republished before still is.
func TestStatusOfAnUpstream(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"a.txt": "a", "b.txt": "b"})
	fleet := aggregator.NewFleet(aggregator.FleetOptions{})
	u, cat := follow(t, s, aggregator.Options{Fleet: fleet, Follow: destination.FollowOptions{Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond}})
	eventually(t, "following", func() bool { return u.Status().State == aggregator.StateFollowing })
	st := fleet.Statuses()[0]
	if st.Set != list || st.Name != "up" || st.Channel != destination.ChannelPoll || st.Resources != 2 || st.LastSuccess.IsZero() || st.LastChange.IsZero() || st.NextAttempt.IsZero() || st.Interval != 20*time.Millisecond {
		t.Errorf("status %+v", st)
	}
	s.set(func() {
		s.sick = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
	})
	eventually(t, "three failures", func() bool {
		st = u.Status() // it is waiting for a moment before each attempt
		return st.Attempts >= 3 && st.State == aggregator.StateFailing
	})
	if st.Error == "" || st.FailingSince.Before(st.LastSuccess) || st.NextAttempt.IsZero() {
		t.Errorf("status %+v", st)
	}
	if n := resources(t, cat); n != 2 {
		t.Errorf("%d resources while it fails, want 2", n)
	}
	s.set(func() { s.sick = nil; s.files["c.txt"] = "c" })
	eventually(t, "following", func() bool { st := u.Status(); return st.State == aggregator.StateFollowing && st.Resources == 3 })
	if st := u.Status(); st.Error != "" || st.Attempts != 0 || !st.FailingSince.IsZero() {
		t.Errorf("status %+v", st)
	}
}

// TestAnUpstreamThatChangesRarelyIsPolledLessOften: within the bounds of the
// configuration, and more often again once it changes.
func TestAnUpstreamThatChangesRarelyIsPolledLessOften(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"a.txt": "a"})
	const least, most = 2 * time.Millisecond, 50 * time.Millisecond
	u, _ := follow(t, s, aggregator.Options{Follow: destination.FollowOptions{Poll: least, PollMost: most}})
	eventually(t, "the longest interval", func() bool { return u.Status().Interval == most })
	n := 1
	eventually(t, "a shorter interval", func() bool {
		n++
		s.set(func() { s.files[fmt.Sprintf("%d.txt", n)] = "new" })
		want := int64(n)
		eventually(t, "the change", func() bool { return u.Status().Resources == want })
		return u.Status().Interval < most/2
	})
	eventually(t, "the longest interval", func() bool { return u.Status().Interval == most })
}

// TestAFailingUpstreamIsRetriedLessAndLessOften: also beyond the interval of one that
// works, up to a bound; and it recovers.
func TestAFailingUpstreamIsRetriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"everything": "/", "its list": "/resourcelist.xml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{"a.txt": "a"})
			o := destination.FollowOptions{Poll: time.Millisecond, Pause: time.Millisecond, PauseMost: 100 * time.Millisecond}
			u, cat := follow(t, s, aggregator.Options{Follow: o})
			eventually(t, "following", func() bool { return u.Status().State == aggregator.StateFollowing })
			s.set(func() {
				s.sick = func(w http.ResponseWriter, r *http.Request) {
					if len(r.URL.Path) >= len(path) && r.URL.Path[:len(path)] == path {
						http.Error(w, "no", http.StatusInternalServerError)
						return
					}
					s.serve(w, r)
				}
			})
			eventually(t, "a long pause", func() bool {
				st := u.Status()
				return st.State == aggregator.StateFailing && st.NextAttempt.Sub(st.LastAttempt) > 60*time.Millisecond && st.Attempts > 3
			})
			if n := resources(t, cat); n != 1 {
				t.Errorf("%d resources while it fails, want 1", n)
			}
			s.set(func() { s.sick = nil; s.files["b.txt"] = "b" })
			eventually(t, "recovery", func() bool { return u.Status().State == aggregator.StateFollowing && resources(t, cat) == 2 })
		})
	}
}

// TestSickUpstreamsDoNotDelayHealthyOnes: upstreams that hang, fail or lie are more than
// may be worked on at a time, and the healthy ones are in step all the same.
func TestSickUpstreamsDoNotDelayHealthyOnes(t *testing.T) {
	t.Parallel()
	fleet := aggregator.NewFleet(aggregator.FleetOptions{Jobs: 2})
	stop := make(chan struct{})
	o := aggregator.Options{Fleet: fleet, Follow: destination.FollowOptions{Poll: 50 * time.Millisecond}}
	for _, sick := range []func(w http.ResponseWriter, r *http.Request){
		func(_ http.ResponseWriter, r *http.Request) { // hangs
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>garbage")) },
	} {
		for range 3 {
			s := newSite(t, nil)
			s.set(func() { s.sick = sick })
			follow(t, s, o)
		}
	}
	t.Cleanup(func() { close(stop) }) // before the sites close
	eventually(t, "work for all that hang", func() bool {
		waiting := 0
		for _, st := range fleet.Statuses() {
			if st.State == aggregator.StateWaiting {
				waiting++
			}
		}
		return waiting == 0
	})
	for range 4 {
		s := newSite(t, map[string]string{"a.txt": "a"})
		u, cat := follow(t, s, o)
		eventually(t, "following", func() bool { return u.Status().State == aggregator.StateFollowing })
		s.set(func() { s.files["b.txt"] = "b" })
		eventually(t, "the change", func() bool { return resources(t, cat) == 2 })
	}
}

// A lossy catalog loses the answer to an Apply, as a database does if the connection to it
// breaks during the commit.
type lossy struct {
	*catalog.Mem
	lose atomic.Bool // the next one
}

func (c *lossy) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	a, err := c.Mem.Apply(ctx, set, us)
	if err == nil && c.lose.Swap(false) {
		return catalog.Applied{}, errors.New("connection reset by peer")
	}
	return a, err
}

// TestAFailureToApplyIsReported: a change is reported although the delivery, or the
// comparison, that applied it failed, and the next one finds it in the catalog.
func TestAFailureToApplyIsReported(t *testing.T) {
	t.Parallel()
	for _, compared := range []bool{false, true} {
		s := newSite(t, map[string]string{"a": "text"})
		cat := &lossy{Mem: catalog.NewMem(nil)}
		cat.lose.Store(!compared)
		interval := time.Duration(-1)
		if compared {
			interval = 5 * time.Millisecond
		}
		var reports atomic.Int64
		followInto(t, cat, s, aggregator.Options{Interval: interval, FirstWait: -1, Follow: destination.FollowOptions{Poll: 20 * time.Millisecond, Pause: 10 * time.Millisecond}},
			func(intake.Report) { reports.Add(1) })
		if compared {
			eventually(t, "the resource is delivered", func() bool { return reports.Load() > 0 })
			reports.Store(0)
			cat.lose.Store(true)
			_, err := cat.Mem.Apply(t.Context(), list, []catalog.Update{{Record: catalog.Record{URI: here + "a"}, Deleted: true}})
			must(t, err)
		}
		eventually(t, "the failure is reported", func() bool { return reports.Load() > 0 })
		if n := resources(t, cat); n != 1 {
			t.Errorf("compared %v: %d resources, want 1", compared, n)
		}
	}
}
