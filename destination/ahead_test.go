package destination_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// setClock sets the clock of the Source.
func (s *site) setClock(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = t.UTC().Truncate(time.Millisecond)
}

// The clock of a Source was ahead, by little or much, and has been corrected: times
// in our future are reported when they are read, and every later change is applied,
// even where the Source loses its history.
func TestClockThatWasAheadIsCorrected(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{30 * time.Second, 10 * time.Minute, 24 * time.Hour, 200 * 24 * time.Hour} {
		for _, st := range []style{{}, {parts: 3}, {noETag: true}, {noChanges: true}, {seconds: true}, {noHash: true}, {listParts: 3}} {
			for _, keeps := range []bool{true, false} { // its history
				t.Run(fmt.Sprintf("%s %+v %v", ahead, st, keeps), func(t *testing.T) {
					t.Parallel()
					s := newSite(t, st)
					s.setClock(time.Now().Add(-2 * time.Hour))
					s.from = s.now
					for i := range 5 {
						s.put(fmt.Sprint("/", i), "first")
					}
					m := newMirror(t, s)
					m.mustSync()
					s.setClock(time.Now().Add(ahead))
					s.put("/ahead", "of time")
					s.put("/1", "ahead")
					r := m.mustSync()
					if warned := strings.Contains(strings.Join(r.Warnings, "\n"), "our future"); warned != (ahead > time.Minute) {
						t.Errorf("warnings %q", r.Warnings)
					}
					s.setClock(time.Now().Add(-time.Hour))
					if !keeps {
						s.mu.Lock()
						s.log, s.from = nil, s.now
						s.mu.Unlock()
					}
					s.put("/2", "corrected")
					s.put("/1", "corrected")
					s.del("/3")
					s.del("/ahead")
					s.put("/new", "corrected")
					m.mustSync()
					s.put("/2", "later")
					s.del("/new")
					m.mustSync()
				})
			}
		}
	}
}

// The same for a Source that is followed.
func TestFollowClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, hub := range []bool{true, false} {
		s := newSite(t, style{})
		s.setClock(time.Now().Add(24 * time.Hour))
		s.from = s.now
		s.put("/a", "one")
		p := newPress(t, s, hub, false)
		g := newFollowing(t, s, hub)
		g.start(destination.FollowOptions{Poll: 50 * time.Millisecond})
		g.live(map[bool]string{true: destination.ChannelHub, false: destination.ChannelPoll}[hub])
		s.put("/b", "ahead")
		p.notify()
		g.becomes("/b", "ahead")
		s.setClock(time.Now().Add(-time.Hour))
		p.until = s.now
		s.mu.Lock()
		s.log, s.from, p.notified = nil, s.now, 0
		s.mu.Unlock()
		s.put("/b", "corrected")
		p.notify()
		g.becomes("/b", "corrected")
		s.del("/a")
		s.put("/c", "three")
		p.notify()
		g.becomes("/a", "")
		g.becomes("/c", "three")
		if st := g.status(); st.Refused != "" {
			t.Errorf("refused: %s", st.Refused)
		}
		g.end()
		g.same()
	}
}
