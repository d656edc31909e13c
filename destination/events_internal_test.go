package destination

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestEventIDs: an ID that no header could carry back to the Source is none; the
// stream could never be opened again with it.
func TestEventIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"7": "7", "a b": "a b", "\u00e9": "\u00e9", "x\x00": "", "\x1b[31m": "", "a\tb": "", "a\x7f": "", strings.Repeat("9", maxEventID+1): "",
	} {
		in := fmt.Sprintf("event: hello\nid: %s\n\n", id)
		r := &eventReader{in: bufio.NewReader(strings.NewReader(in))}
		if e, err := r.next(); err != nil || e.id != want {
			t.Errorf("id %q is read as %q, %v", id, e.id, err)
		}
	}
}

// TestQueuedWeight: events that wait have a bound though there is nothing in
// them.
func TestQueuedWeight(t *testing.T) {
	t.Parallel()
	j := newLateJournal(nil)
	f := &Follower{journal: j, inbox: newInbox(j), limits: backlogLimits{messages: 1 << 30, bytes: 1 << 20, age: time.Hour}}
	s := &followed{}
	for range 1 << 20 / messageBytes * 2 {
		f.takeEvent(s, "http://a.example/events", streamEvent{kind: "notification"})
		if most := 1 << 20 / messageBytes; len(s.queue) > most {
			t.Fatalf("%d events wait", len(s.queue))
		}
	}
	if s.status.Overloads != 1 || s.status.Discarded == 0 || s.overload == nil || s.due.IsZero() {
		t.Errorf("%+v, want one overload and a reading that is due", s.status)
	}
}
