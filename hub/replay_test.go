package hub_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A pausedLog is a store whose next reading of a log waits.
type pausedLog struct {
	*hubstore.Mem
	begun, proceed chan struct{}
	once           sync.Once
}

func (p *pausedLog) Log(ctx context.Context, topic string, after int64) iter.Seq2[hubstore.Message, error] {
	p.once.Do(func() {
		close(p.begun)
		<-p.proceed
	})
	return p.Mem.Log(ctx, topic, after)
}

// TestReplayWhileRead: a replay that begins while later messages are being read is complete.
func TestReplayWhileRead(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), hubstore.NewMem()
	r := run(t, store, hub.Options{})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish(numbers(1, 3)...)
	eventually(t, "all", func() bool { return len(s.at("/cb")) == 3 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Append(t.Context(), []hubstore.Message{{Topic: topicURL, ID: "4", At: time.Now(), Body: []byte("4")}}); err != nil {
		t.Fatal(err)
	}
	paused := &pausedLog{Mem: store, begun: make(chan struct{}), proceed: make(chan struct{})}
	r = run(t, paused, hub.Options{})
	<-paused.begun
	if _, err := r.Replayed(t.Context(), key, 2); err != nil {
		t.Fatal(err)
	}
	close(paused.proceed)
	want := append(numbers(1, 3), numbers(2, 4)...)
	eventually(t, "the last one", func() bool { return slices.Contains(s.at("/cb"), "4") })
	if got := s.at("/cb"); !same(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
