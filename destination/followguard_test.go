package destination_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// newGuarded returns a site of n resources, and a mirror that follows it by channel.
func newGuarded(t *testing.T, n int, channel string) (*press, *following) {
	s := newSite(t, style{})
	for i := range n {
		s.put(fmt.Sprint("/", i), "content")
	}
	hub := channel == destination.ChannelHub
	p, g := newPress(t, s, hub, !hub), newFollowing(t, s, hub)
	g.start(destination.FollowOptions{})
	g.live(channel)
	g.settled()
	return p, g
}

// portion deletes the resources from ≤ i < to. The notification of the first is
// lost, so that the set is pulled after the others have been applied. It reports
// whether that was refused.
func (g *following) portion(p *press, from, to int) (refused bool) {
	g.t.Helper()
	pulls := g.status().Pulls
	p.del(fmt.Sprint("/", from))
	_ = p.payload()
	for i := from + 1; i < to; i++ {
		p.del(fmt.Sprint("/", i))
	}
	p.notify()
	eventually(g.t, func() bool {
		st := g.status()
		refused = strings.Contains(st.Refused, "would delete")
		return st.Waiting == 0 && st.Pulls > pulls && (refused || time.Until(st.NextPull) > time.Minute)
	})
	return refused
}

// TestFollowGuardCountsAcrossPulls deletes everything in small portions, each
// followed by a pull that confirms it, and restarts the Follower in between: what
// was deleted before counts. A sync with consent begins a new count.
func TestFollowGuardCountsAcrossPulls(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{destination.ChannelHub, destination.ChannelEvents} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			p, g := newGuarded(t, 40, channel)
			next, refused := 0, false
			for ; next < 40 && !refused; next += 4 {
				if next == 8 {
					g.end()
					g.start(destination.FollowOptions{})
					g.live(channel)
					g.settled()
				}
				refused = g.portion(p, next, next+4)
			}
			g.end()
			if n := len(g.files()); !refused || n != 20 {
				t.Fatalf("%d of 40 files are left, refused: %v; want 20 left and the next deletions refused", n, refused)
			}
			if _, err := g.sync(); err == nil || !strings.Contains(err.Error(), "24 of 40") {
				t.Errorf("a sync without consent: %v, want it refused because of 24 of 40 resources", err)
			}
			g.opts.MaxDelete = 60
			if _, err := g.sync(); err != nil {
				t.Fatalf("a sync with consent: %v", err)
			}
			g.opts.MaxDelete = 0
			g.start(destination.FollowOptions{})
			g.live(channel)
			g.settled()
			if g.portion(p, next, next+4) {
				t.Errorf("after consent, 4 of 16 deletions are refused: %s", g.status().Refused)
			}
			g.end()
			g.same()
		})
	}
}

// TestFollowGuardAllowsTurnover replaces all resources, a few between two pulls:
// the mirror loses nothing, and nothing is refused.
func TestFollowGuardAllowsTurnover(t *testing.T) {
	t.Parallel()
	p, g := newGuarded(t, 20, destination.ChannelHub)
	for i := 0; i < 32; i += 4 {
		for j := range 4 {
			p.put(fmt.Sprint("/", 20+i+j), "content")
		}
		if g.portion(p, i, i+4) {
			t.Fatalf("after %d of 20 resources were replaced: %s", i, g.status().Refused)
		}
	}
	g.end()
	g.same()
}

// TestFollowGuardCountsAcrossFailedComparisons deletes everything in small portions,
// while comparisons of the whole set begin and cannot be completed: only one that
// succeeds begins a new count.
func TestFollowGuardCountsAcrossFailedComparisons(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{"malformed": "<url", "without loc": "<url></url>"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, g := newGuarded(t, 40, destination.ChannelHub)
			next := 0
			for ; next < 16; next += 4 {
				if g.portion(p, next, next+4) {
					t.Fatalf("%d of 40 deletions are refused: %s", next+4, g.status().Refused)
				}
			}
			p.mu.Lock()
			at := p.time(p.tick())
			p.mu.Unlock()
			p.replace("/rs/resourcelist.xml", doc("urlset", fmt.Sprintf(`<rs:ln rel="up" href="%s"/><rs:md capability="resourcelist" at="%s"/>`, p.url("/rs/capabilitylist.xml"), at), entry))
			p.put("/late", "content")
			p.forget(1000) // a gap: all has to be compared
			failed := func() {
				pulls := g.status().Pulls
				p.deliverSigned(p.payload(), "sha256="+strings.Repeat("0", 64))
				eventually(t, func() bool { st := g.status(); return st.Pulls > pulls && st.Error != "" })
			}
			failed()
			for ; next < 40; next += 4 {
				for i := range 4 {
					p.del(fmt.Sprint("/", next+i))
				}
				p.notify()
				eventually(t, func() bool { return g.status().Waiting == 0 })
				failed()
			}
			g.end()
			left := 0
			for i := range 40 {
				if g.has(fmt.Sprint("/", i), "content") {
					left++
				}
			}
			if left != 20 {
				t.Errorf("%d of 40 files are left, want 20: %+v", left, g.status())
			}
		})
	}
}
