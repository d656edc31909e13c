package destination_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// A gate holds requests for one path back until it is opened.
type gate struct {
	came chan struct{} // closed when a request has come
	open chan struct{} // closed to let all pass
}

// holdBack lets requests for path wait for the gate.
func (p *press) holdBack(path string) *gate {
	g := &gate{came: make(chan struct{}), open: make(chan struct{})}
	inner, first := p.fault, make(chan struct{}, 1)
	first <- struct{}{}
	p.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return inner(w, r)
		}
		select {
		case <-first:
			close(g.came)
		default:
		}
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
		return inner(w, r)
	})
	return g
}

// overloaded returns a mirror whose backlog is limited, and which is busy with a
// resource behind the gate.
func overloaded(t *testing.T, events bool, backlog int) (*site, *press, *following, *gate) {
	s := newSite(t, style{})
	s.put("/a", "one")
	for i := range 30 {
		s.put(fmt.Sprint("/", i), "start")
	}
	p := newPress(t, s, !events, events)
	held := p.holdBack("/held")
	g := newFollowing(t, s, !events)
	g.backlog, g.opts.MaxDelete = backlog, 100
	g.start(destination.FollowOptions{Poll: 20 * time.Millisecond, Check: time.Hour})
	g.live(map[bool]string{true: destination.ChannelEvents, false: destination.ChannelHub}[events])
	s.put("/held", "at last")
	p.notify()
	<-held.came
	return s, p, g, held
}

// flood changes and deletes resources, and sends a notification of each.
func (p *press) flood(n int, after func()) {
	for i := range n {
		path := fmt.Sprint("/", i%30)
		if i%7 == 6 {
			p.del(path)
		} else {
			p.put(path, fmt.Sprint("version ", i))
		}
		p.notify()
		after()
	}
}

// overloads returns the warnings of overloads; to be called after end.
func (g *following) overloads() (texts []string) {
	for i := range g.events {
		if e := &g.events[i]; e.Kind == destination.EventWarning && strings.Contains(e.Err.Error(), "applied one by one") {
			texts = append(texts, e.Err.Error())
		}
	}
	return texts
}

// When notifications come faster than they are applied, no more than a limit of
// them wait; the Change List is read in place of the others, which is said once
// and shows in the status, and the mirror is exact in the end.
func TestBacklogBeyondTheLimitIsReplacedByTheChangeList(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{false, true} {
		t.Run(fmt.Sprint("events=", events), func(t *testing.T) {
			t.Parallel()
			_, p, g, held := overloaded(t, events, 20)
			most := 0
			p.flood(130, func() { most = max(most, g.status().Waiting) })
			eventually(t, func() bool { return g.status().Discarded >= 105 })
			if most > 21 {
				t.Errorf("%d notifications waited, want at most 20 and the one that is applied", most)
			}
			st := g.status()
			if st.Overloads != 1 || st.Overload.IsZero() || st.Waiting == 0 || st.Backlog == 0 || st.Oldest.IsZero() {
				t.Errorf("%+v, want an overload, and how much waits since when", st)
			}
			close(held.open)
			g.becomes("/held", "at last")
			eventually(t, func() bool {
				st := g.status()
				return st.Waiting == 0 && st.Overload.IsZero() && st.Backlog == 0 && st.Oldest.IsZero()
			})
			if !g.has("/29", "version 119") { // it is not left to the next look
				t.Errorf("an overload is over and /29 is not what it is at the Source: %+v", g.status())
			}
			g.end()
			g.same()
			if texts := g.overloads(); len(texts) != 1 || !strings.Contains(texts[0], " notifications waiting since ") || !strings.HasSuffix(texts[0], "the Change List is read instead") {
				t.Errorf("warnings %q, want one", texts)
			}
		})
	}
}

// A process that ends in an overload resumes it: the discarded notifications are
// recorded, and documents that lag behind are read until they cover them.
func TestOverloadOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	s, p, g, held := overloaded(t, false, 20)
	s.lag()
	p.flood(130, func() {})
	eventually(t, func() bool { return g.status().Discarded >= 105 })
	g.end()
	waiting := 0
	for n := range 300 {
		b, err := g.journal.Load(context.Background(), fmt.Sprint("inbox/", n))
		if err != nil {
			t.Fatal(err)
		}
		if b != nil {
			waiting++
		}
	}
	if waiting == 0 || waiting > 21 {
		t.Errorf("%d notifications are in the journal, want some, and at most 21", waiting)
	}
	close(held.open)
	g.start(destination.FollowOptions{Poll: 20 * time.Millisecond, Check: time.Hour})
	eventually(t, func() bool { st := g.status(); return st.Pulls > 0 && st.Waiting == 0 && st.Overload.IsZero() })
	if g.has("/29", "version 119") {
		t.Error("/29 is there, though its notification was discarded and the Change List lags: the test shows nothing")
	}
	s.mu.Lock()
	s.late = time.Time{}
	s.mu.Unlock()
	pulls := g.status().Pulls // the next may have begun before
	eventually(t, func() bool { st := g.status(); return st.Pulls >= pulls+2 && st.Error == "" && st.Waiting == 0 })
	g.end()
	g.same()
}

// A Change List that does not reach back to before the overload is replaced by a
// comparison of the whole set.
func TestOverloadWithoutHistoryComparesAll(t *testing.T) {
	t.Parallel()
	s, p, g, held := overloaded(t, false, 20)
	p.flood(70, func() {})
	eventually(t, func() bool { return g.status().Discarded > 0 })
	s.forget(1)
	close(held.open)
	eventually(t, func() bool { st := g.status(); return st.Waiting == 0 && st.Overload.IsZero() })
	g.end()
	g.same()
}

// Notifications that have waited for too long are replaced as well, unless one
// pass applies them all; and so are those that take too many bytes.
func TestBacklogIsLimitedInAgeAndBytes(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*destination.Follower){
		"age":   func(f *destination.Follower) { f.SetBacklog(1<<20, 1<<30, -1) },
		"bytes": func(f *destination.Follower) { f.SetBacklog(1<<20, 32<<10, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p, g, held := overloaded(t, false, 1<<20)
			limit(g.f)
			payload := p.payload()
			for range 260 {
				p.deliver(payload)
			}
			if st := g.status(); st.Overloads != 1 || st.Backlog > 40<<10 && name == "bytes" || st.Waiting > 258 {
				t.Errorf("%+v, want an overload", st)
			}
			close(held.open)
			eventually(t, func() bool { st := g.status(); return st.Waiting == 0 && st.Overload.IsZero() })
			g.end()
			g.same()
		})
	}
}
