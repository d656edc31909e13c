package destination

import (
	"testing"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/writebehind"
	"lockstep/internal/eventstream"
)

// TestQueuedWeight: events that wait have a bound though there is nothing in
// them.
func TestQueuedWeight(t *testing.T) {
	t.Parallel()
	j := writebehind.New(nil)
	f := &Follower{journal: j, inbox: inbox.New(j), limits: backlogLimits{messages: 1 << 30, bytes: 1 << 20, age: time.Hour}}
	s := &followed{}
	for range 1 << 20 / inbox.MessageBytes * 2 {
		f.takeEvent(s, "http://a.example/events", eventstream.Event{Type: "notification"})
		if most := 1 << 20 / inbox.MessageBytes; len(s.queue) > most {
			t.Fatalf("%d events wait", len(s.queue))
		}
	}
	if s.status.Overloads != 1 || s.status.Discarded == 0 || s.overload == nil || s.due.IsZero() {
		t.Errorf("%+v, want one overload and a reading that is due", s.status)
	}
}
