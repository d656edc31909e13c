package follow

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/writebehind"
	"lockstep/destination/journal"
	"lockstep/internal/eventstream"
)

// TestQueuedWeight: events without content that wait are limited, too.
func TestQueuedWeight(t *testing.T) {
	t.Parallel()
	j := writebehind.New(nil)
	r := &registry{opts: &Options{}, journal: j, inbox: inbox.New(j), limits: Limits{Messages: 1 << 30, Bytes: 1 << 20, Age: time.Hour}}
	s := &set{}
	for range 1 << 20 / inbox.MessageBytes * 2 {
		r.receiveEvent(s, "http://a.example/events", eventstream.Event{Type: "notification"})
		if most := 1 << 20 / inbox.MessageBytes; len(s.queue) > most {
			t.Fatalf("%d events wait", len(s.queue))
		}
	}
	if s.status.Overloads != 1 || s.status.Discarded == 0 || s.overload == nil || s.due.IsZero() {
		t.Errorf("%+v, want one overload and a reading that is due", s.status)
	}
}

// TestOverloadSavedByAClockAhead reads an overload that was saved when the clock of
// this machine was ahead by a year: it did not happen in the future.
func TestOverloadSavedByAClockAhead(t *testing.T) {
	t.Parallel()
	j := new(journal.Mem)
	ahead := Overload{Last: time.Now().AddDate(1, 0, 0)}
	if err := j.Record(t.Context(), journal.Batch{Save: map[string][]byte{overloadName("set"): saved.Encode(ahead)}}); err != nil {
		t.Fatal(err)
	}
	if o := loadOverloads(t.Context(), j, []FoundSet{{URI: "set"}})["set"]; o == nil || o.Last.After(time.Now()) {
		t.Errorf("overload: %+v", o)
	}
}

// TestStreamThatMayNotBeOpened: it is tried once for a hub that refused, not all the time.
func TestStreamThatMayNotBeOpened(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 100)
	opts := &Options{Pause: time.Second, Allow: func(_, uri string) error {
		tried <- struct{}{}
		return fmt.Errorf("refuse %s", uri)
	}}
	c := &channels{opts: opts, reg: &registry{opts: opts, wake: make(chan struct{}, 1)}}
	s := &set{uri: "http://a.example/set", hubError: "not today"}
	ctx, cancel := context.WithCancel(t.Context())
	c.run(func() { c.replaceHub(ctx, s, "http://b.example/events") })
	<-tried
	select {
	case <-tried:
		t.Error("it was tried again at once")
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	c.started.Wait()
	if s.trouble == "" {
		t.Error("it is not reported")
	}
}

// TestProgress: it says what the status says, and copies nothing, however many sets there are.
func TestProgress(t *testing.T) { // not parallel: it counts allocations
	f := &Follower{reg: &registry{}}
	check := func(pulled, inStep, works bool) {
		t.Helper()
		if p, i, w := f.Progress(); p != pulled || i != inStep || w != works {
			t.Errorf("pulled %t, in step %t, works %t, want %t, %t, %t", p, i, w, pulled, inStep, works)
		}
	}
	now := time.Now()
	check(true, false, false) // a first look that cannot succeed
	f.reg.looked = now
	check(true, false, true) // there are no sets
	for range 1000 {
		f.reg.sets = append(f.reg.sets, &set{})
	}
	check(false, false, false)
	for _, s := range f.reg.sets {
		s.status.Pulls, s.status.FailingSince = 1, now
	}
	check(true, false, false)
	for _, s := range f.reg.sets[1:] {
		s.status.InStep, s.status.FailingSince = now, time.Time{}
	}
	check(true, false, false)
	f.reg.sets[0].status.InStep, f.reg.sets[0].status.FailingSince = now, time.Time{}
	check(true, true, true)
	f.reg.kept = true
	check(true, true, false)
	f.reg.kept = false
	f.reg.trouble = "the last look failed"
	check(true, false, false)
	f.reg.trouble, f.reg.unfound = "", now
	check(true, true, false)
	if n := testing.AllocsPerRun(10, func() { f.Progress() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
