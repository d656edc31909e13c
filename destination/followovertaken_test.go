package destination_test

import (
	"testing"
	"time"

	"lockstep/destination"
)

// TestOvertaken changes a resource again before the notification of its change
// arrives: that is not reported as a failure, because the next notification states
// the newer content. The time in which it has to come is long, as the machine may be
// busy.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	s, p, g := followHubWith(t, style{}, destination.FollowOptions{Pause: time.Minute})
	pulls := g.status().Pulls
	s.put("/a", "two")
	first := p.payload()
	s.put("/a", "three")
	p.deliver(first)
	p.deliver(p.payload())
	g.becomes("/a", "three")
	g.settled()
	if n, looks := g.failures(), g.status().Pulls; n != 0 || looks != pulls {
		t.Errorf("%d failures reported of a resource that had changed again, %d pulls", n, looks-pulls)
	}
	g.end()
}

// TestOvertakenLast does the same, and no notification comes after it: the pull that
// follows repairs it. A resource that never matches the documents still is a failure.
func TestOvertakenLast(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.put("/a", "3")
	first := p.payload()
	s.put("/a", "3.5")
	p.deliver(first) // and nothing comes after it
	g.becomes("/a", "3.5")
	g.settled()
	if n := g.failures(); n != 0 {
		t.Errorf("%d failures reported that a pull has repaired", n)
	}
	_ = p.payload()
	s.put("/a", "four")
	s.mu.Lock()
	lie := s.files["/a"]
	lie.data = []byte("not four")
	s.files["/a"] = lie
	s.mu.Unlock()
	p.deliver(p.payload())
	eventually(t, func() bool { return g.failures() > 0 })
	g.end()
}

// failures returns how many failures the passes have reported.
func (g *following) failures() (n int64) {
	g.rmu.Lock()
	defer g.rmu.Unlock()
	for i := range g.reports {
		n += g.reports[i].Failed
	}
	return n
}
