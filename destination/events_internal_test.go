package destination

import (
	"bufio"
	"context"
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
	f := &Follower{}
	s := &followed{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for n := range maxQueued / messageBytes * 2 {
		if err := f.takeEvent(ctx, s, "http://a.example/events", streamEvent{kind: "notification"}); err != nil {
			if most := maxQueued / messageBytes; n < most/2 || n > most {
				t.Errorf("%d events wait", n)
			}
			return
		}
	}
	t.Error("there is room for as many events as a Source sends")
}
