package destination_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/destination"
)

// TestFollowPolls follows a Source that sends no notifications.
func TestFollowPolls(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	m := newMirror(t, s)
	f, err := m.destination().Follow(m.address(), destination.FollowOptions{Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	s.put("/b", "two")
	eventually(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(m.dir, "b"))
		return string(b) == "two"
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil when its context ended", err)
	}
	m.same()
}

// eventually waits until is returns true.
func eventually(t testing.TB, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came about")
		}
	}
}

// TestFollowHub follows by a hub: notified changes are applied at once, with no
// request but the one for the content; at the end the Follower unsubscribes.
func TestFollowHub(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	s.reset()
	s.put("/b", "two")
	if got := p.notify(); got/100 != 2 {
		t.Errorf("a delivery is answered %d, want 2xx", got)
	}
	g.becomes("/b", "two")
	s.del("/a")
	p.notify()
	g.becomes("/a", "")
	if n := s.got("/rs/changelist.xml") + s.got("/rs/capabilitylist.xml"); n > 0 {
		t.Errorf("%d documents were read for notifications, want none", n)
	}
	eventually(t, func() bool { return g.status().Waiting == 0 })
	st := g.status()
	if st.Notifications != 2 || st.Applied != 2 || st.Gaps != 0 || !st.Watermark.Equal(p.until) {
		t.Errorf("status %+v, want 2 notifications, 2 applied, no gap, as of %s", st, p.until)
	}
	g.end()
	g.same()
}

// TestFollowEvents follows by a stream of events, which breaks now and then.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, false, true)
	g := newFollowing(t, s, false)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelEvents)
	s.reset()
	for i := range 5 {
		s.put("/b", fmt.Sprint("two", i))
		p.notify()
		g.becomes("/b", fmt.Sprint("two", i))
		p.hangUp()
	}
	if n := s.got("/rs/changelist.xml"); n > 0 {
		t.Errorf("the Change List was read %d times, want none: the stream resumes where it broke", n)
	}
	eventually(t, func() bool { return g.status().Waiting == 0 })
	g.end()
	g.same()
	s.put("/c", "three")
	p.push(p.payload()) // while we are away
	g.start(destination.FollowOptions{})
	g.becomes("/c", "three")
	g.live(destination.ChannelEvents)
	p.pmu.Lock()
	last := p.lastIDs[len(p.lastIDs)-1]
	p.pmu.Unlock()
	if last != "5" {
		t.Errorf("a new process resumes after event %q, want 5", last)
	}
	g.end()
	g.same()
}
