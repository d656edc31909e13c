package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/blob/faultfs"
	"lockstep/destination"
)

// withSlowSet adds a second set to a site, with one resource that is served slowly.
func (s *site) withSlowSet(slow string) {
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(
		`<url><loc>%s</loc><rs:md capability="capabilitylist"/></url><url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`,
		s.url("/rs/capabilitylist.xml"), s.url("/two/capabilitylist.xml"))))
	s.replace("/two/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, fmt.Sprintf(
		`<url><loc>%s</loc><rs:md capability="resourcelist"/></url>`, s.url("/two/resourcelist.xml"))))
	s.replace("/two/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, fmt.Sprintf(
		`<url><loc>%s</loc></url>`, s.url(slow))))
}

// TestTurns follows two sets, one of which is slow: the other is brought into
// step all the same, again and again, and the slow one in the end.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.withSlowSet("/slow")
	p := newPress(t, s, true, false)
	inner := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/slow" {
			return inner(w, r)
		}
		select {
		case <-time.After(time.Second):
			_, _ = w.Write([]byte("at last"))
		case <-r.Context().Done():
		}
		return true
	})
	g := newFollowing(t, s, true)
	g.turn = 50 * time.Millisecond
	g.start(destination.FollowOptions{})
	eventually(t, func() bool { return p.subscribers() == 1 && g.has("/a", "one") })
	for i := range 8 {
		s.put("/a", fmt.Sprint("version ", i))
		p.notify()
		g.becomes("/a", fmt.Sprint("version ", i))
	}
	if g.has("/slow", "at last") {
		t.Log("the slow one was there before: nothing was shown")
	}
	g.becomes("/slow", "at last")
	g.end()
}

// TestSlowContent sends a notification of a resource that is served slowly:
// another set gets its turn, and the rest stays pending and is fetched later.
func TestSlowContent(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.withSlowSet("/other")
	p := newPress(t, s, true, false)
	inner := s.fault
	var slow atomic.Bool
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/other" {
			_, _ = w.Write([]byte("other"))
			return true
		}
		if r.URL.Path != "/b" || !slow.Load() {
			return inner(w, r)
		}
		<-r.Context().Done()
		return true
	})
	g := newFollowing(t, s, true)
	g.turn = 50 * time.Millisecond
	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond, Check: time.Hour})
	eventually(t, func() bool { return g.f.Status().Synced && p.subscribers() == 1 })
	slow.Store(true)
	s.lag()
	s.put("/b", "two")
	s.put("/c", "three")
	p.notify()
	g.becomes("/c", "three")
	for end := time.Now().Add(time.Minute); g.status().Waiting > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", g.f.Status())
		}
	}
	slow.Store(false)
	g.becomes("/b", "two")
	g.end()
}

// TestOutage has a Source that is down at the start, and again later: the Follower
// continues, reports the error, backs off, and recovers.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	var asked atomic.Int32
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	s.setFault(down)
	g := newFollowing(t, s, false)
	began := time.Now()
	g.start(destination.FollowOptions{Pause: 40 * time.Millisecond, Poll: 10 * time.Millisecond})
	time.Sleep(400 * time.Millisecond) // in which it would be called too often
	eventually(t, func() bool { return g.f.Status().Error != "" })
	n, took := asked.Load(), time.Since(began)
	if most := 60 * max(1, took.Seconds()/0.4); n == 0 || float64(n) > most {
		t.Errorf("%d requests in %v, want some, and fewer with time", n, took)
	}
	if st := g.f.Status(); st.Synced {
		t.Errorf("status %+v, want an error", st)
	}
	s.setFault(nil)
	g.becomes("/a", "one")
	s.setFault(down)
	eventually(t, func() bool { return g.f.Status().Error != "" || g.status().Error != "" })
	s.put("/a", "two")
	s.setFault(nil)
	g.becomes("/a", "two")
	g.end()
	g.same()
}

// TestSyncedWithUnreadSet: a set whose documents cannot be read has not been in step. A
// resource that fails, and a set that fails later, change nothing.
func TestSyncedWithUnreadSet(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.withSlowSet("/missing")
	var down atomic.Bool
	down.Store(true)
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/two/resourcelist.xml" || !down.Load() {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	g := newFollowing(t, s, false)
	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond})
	eventually(t, func() bool {
		st := g.f.Status()
		return len(st.Sets) == 2 && st.Sets[0].Pulls >= 2 && st.Sets[1].Attempts >= 2
	})
	if g.f.Status().Synced {
		t.Errorf("a set could not be read, and all are synced: %+v", g.f.Status())
	}
	down.Store(false)
	eventually(t, func() bool { return g.f.Status().Synced })
	if st := g.f.Status(); st.Sets[1].Attempts == 0 {
		t.Errorf("a resource is missing, and the set is in step: %+v", st)
	}
	down.Store(true)
	pulls := g.f.Status().Sets[1].Pulls
	eventually(t, func() bool { return g.f.Status().Sets[1].Pulls >= pulls+2 })
	if !g.f.Status().Synced {
		t.Errorf("a set fails that was in step, and not all were in step once: %+v", g.f.Status())
	}
	g.end()
}

// TestRenewalMoves is WS-L-06 and WS-D-14: a renewal begins with discovery, and
// what the topic says of itself wins over the Capability List.
func TestRenewalMoves(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	p.lease = 1
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	moved := newPress(t, s, false, false)
	moved.site = s
	inner := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/rs/changes" {
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="hub", <%s>; rel="self"`, moved.srv.URL, s.url("/rs/channel")))
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		return inner(w, r)
	})
	eventually(t, func() bool {
		st := g.status()
		return moved.subscribers() == 1 && st.Hub == moved.srv.URL && st.Topic == s.url("/rs/channel")
	})
	s.put("/b", "two")
	moved.deliver(moved.payload())
	g.becomes("/b", "two")
	g.end()
}

// TestFollowDelivers delivers changes from notifications like those of a Sync, and
// again where the taker failed.
func TestFollowDelivers(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	taken := make(chan string, 100)
	var fail atomic.Bool
	g.opts.Deliver = func(_ context.Context, batch []destination.Change) error {
		if fail.Swap(false) {
			return errors.New("not now")
		}
		for _, c := range batch {
			taken <- strings.TrimPrefix(c.URI, s.srv.URL)
		}
		return nil
	}
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	if got := <-taken; got != "/a" {
		t.Errorf("handed over %s, want /a", got)
	}
	fail.Store(true)
	s.put("/b", "two")
	p.notify()
	select {
	case got := <-taken:
		if got != "/b" {
			t.Errorf("handed over %s, want /b", got)
		}
	case <-time.After(time.Minute):
		t.Error("changes that were not taken are not delivered again")
	}
	g.end()
}

// TestReadOnlyForAWhile: a mirror cannot be written for a while.
func TestReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	s, p := newSite(t, style{}), (*press)(nil)
	s.put("/a", "one")
	p = newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	faults := &faultfs.Faults{Err: syscall.EROFS}
	g.store = &faultfs.Store{Store: g.store, Faults: faults}
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	faults.Arm(1, faultfs.Full)
	s.put("/b", "two")
	p.notify()
	eventually(t, func() bool { return g.f.Status().Error != "" || g.status().Error != "" })
	faults.Restart()
	g.becomes("/b", "two")
	g.end()
}

// TestStrangeTimes sends notifications of the far past and the far future: they
// do not keep later ones from being applied.
func TestStrangeTimes(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	for _, at := range []string{"9999-12-31T23:59:59Z", "2099-01-01", "0001-01-01T00:00:00Z", "1601-01-01T00:00:00Z", "2262-04-12T00:00:00Z"} {
		s.put("/a", "as of "+at)
		s.lag()
		payload := doc("urlset", `<rs:md capability="change-notification" from="`+at+`" until="`+at+`"/>`,
			fmt.Sprintf(`<url><loc>%s</loc><rs:md change="updated" datetime="%s"/></url>`, s.url("/a"), at))
		if got := p.deliver(payload); got/100 != 2 {
			t.Errorf("%s: answered %d", at, got)
		}
	}
	s.put("/a", "now")
	s.mu.Lock()
	s.late = time.Time{}
	s.mu.Unlock()
	p.notify()
	g.becomes("/a", "now")
	s.put("/a", "later")
	p.notify()
	g.becomes("/a", "later")
	if st := g.status(); st.Watermark.Year() != 2024 {
		t.Errorf("the watermark is %s", st.Watermark)
	}
	g.end()
	g.same()
}
