package destination_test

import (
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// TestSpurned: a hub that refuses the subscription is reported, and the stream of
// events replaces it at once, before the first pull (RN-RX-05). When the Source
// comes back the hub is asked again, and not before (WS-S-10).
func TestSpurned(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, true)
	p.refuse = "hub.callback is refused: it is at home"
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelEvents)
	if st := g.status(); st.Pulls > 1 || !strings.HasSuffix(st.HubError, "it is at home") || st.Error != "" {
		t.Errorf("status %+v, want one look, by events, and the hub's reason", st)
	}
	s.put("/b", "notified")
	p.push(p.payload())
	g.becomes("/b", "notified")

	time.Sleep(250 * time.Millisecond) // ten pauses
	p.pmu.Lock()
	if p.refuse = ""; p.asked != 1 {
		t.Errorf("the hub was asked %d times, want 1: its refusal is permanent", p.asked)
	}
	p.pmu.Unlock()
	p.hangUp() // as a restarted Source does
	g.live(destination.ChannelHub)
	eventually(t, func() bool { return g.status().HubError == "" && p.subscribers() == 1 })
	s.put("/c", "delivered")
	p.deliver(p.payload())
	g.becomes("/c", "delivered")
	g.end()
	g.same()
}

// TestForgotten: a hub that has lost its subscriptions is subscribed to again as soon
// as a routine pull finds changes that it should have sent.
func TestForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond, Check: 100 * time.Millisecond})
	g.live(destination.ChannelHub)
	eventually(t, func() bool { return g.status().Pulls > 2 })
	p.pmu.Lock()
	clear(p.subs)
	asked := p.asked
	p.pmu.Unlock()
	time.Sleep(300 * time.Millisecond) // looks that find nothing prove nothing
	p.pmu.Lock()
	if p.asked != asked {
		t.Errorf("the hub was asked %d times for no reason", p.asked-asked)
	}
	p.pmu.Unlock()
	s.put("/b", "not notified")
	g.becomes("/b", "not notified")
	eventually(t, func() bool { return p.subscribers() == 1 })
	g.end()
	g.same()
}
