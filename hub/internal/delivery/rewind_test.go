package delivery_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/delivery"
	"lockstep/hub/internal/tally"
)

const rewoundTopic = "https://example.org/topic"

// A succeeded is a store of which this hub has all shards, and a standby takes over. Other hubs accept messages.
type succeeded struct {
	handedOver
	primary atomic.Pointer[hubstore.Mem]
	silent  atomic.Bool // the hub has not looked yet for what others have accepted
}

func (s *succeeded) Append(ctx context.Context, all []hubstore.Message) ([]int64, error) {
	return s.primary.Load().Append(ctx, all)
}

func (s *succeeded) Save(ctx context.Context, c hubstore.Changes) error {
	return s.primary.Load().Save(ctx, c)
}

func (s *succeeded) Log(ctx context.Context, topic string, after int64) iter.Seq2[hubstore.Message, error] {
	return s.primary.Load().Log(ctx, topic, after)
}

func (s *succeeded) Topics(ctx context.Context) iter.Seq2[hubstore.Topic, error] {
	return s.primary.Load().Topics(ctx)
}

func (s *succeeded) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	return s.primary.Load().Subscriptions(ctx, shard)
}

func (s *succeeded) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	all := map[string]int64{}
	if s.silent.Load() {
		return all, mark, nil
	}
	for t, err := range s.primary.Load().Topics(ctx) {
		if err != nil {
			return nil, 0, err
		}
		all[t.URL] = t.Last
	}
	return all, mark, nil
}

// accept has another hub accept messages.
func (s *succeeded) accept(t *testing.T, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		m := hubstore.Message{Topic: rewoundTopic, ID: b, At: time.Now(), ContentType: "text/plain", Body: []byte(b)}
		if _, err := s.Append(t.Context(), []hubstore.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
}

// succeed makes a standby the primary, which has the messages up to a number.
func (s *succeeded) succeed(t *testing.T, upto int64, subs ...hubstore.Subscription) {
	t.Helper()
	standby := hubstore.NewMem()
	if old := s.primary.Load(); old != nil {
		for m := range old.Log(t.Context(), rewoundTopic, 0) {
			if m.Seq > upto {
				break
			}
			if _, err := standby.Append(t.Context(), []hubstore.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := standby.Save(t.Context(), hubstore.Changes{Put: subs}); err != nil {
		t.Fatal(err)
	}
	s.primary.Store(standby)
}

// A delivered records the deliveries, by callback.
type delivered struct {
	mu sync.Mutex // guards what follows
	to map[string][]string
}

func (d *delivered) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to[r.URL.Path] = append(d.to[r.URL.Path], string(body))
	return &http.Response{StatusCode: http.StatusAccepted, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func (d *delivered) at(path string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.to[path])
}

// TestRewindAfterNewPage: a subscriber that has got lost messages gets the ones that have their numbers now,
// also if these were read, for a subscriber that lags behind, before the hub notices that messages were lost.
func TestRewindAfterNewPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var subs []hubstore.Subscription
		for i, name := range []string{"quick", "late"} {
			subs = append(subs, hubstore.Subscription{
				Key: hubstore.Key(strings.Repeat(fmt.Sprint(i), 32)), Topic: rewoundTopic, Callback: "https://example.com/" + name,
				Created: time.Now(), Expires: time.Now().Add(time.Hour), Progress: hubstore.Progress{Cursor: 5},
			})
		}
		subs[1].Progress = hubstore.Progress{Attempts: 1, Next: time.Now().Add(10 * time.Second)}
		store, sink := &succeeded{}, &delivered{to: map[string][]string{}}
		store.ended.Store(true)
		store.succeed(t, 0, subs...)
		store.accept(t, "1", "2", "3", "4", "5")
		e := delivery.New(store, delivery.Options{
			Tally: new(tally.Tally), Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Transport: sink,
			RetryFirst: time.Second, RetryMost: time.Minute, RetryFor: time.Hour, Keep: time.Hour, Forget: time.Hour, Timeout: time.Second, MaxLog: 1 << 20,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended, ready := make(chan error, 1), make(chan struct{})
		go func() { ended <- e.Run(ctx, nil, func() { close(ready) }) }()
		<-ready
		store.accept(t, "lost 6", "lost 7", "lost 8")
		time.Sleep(time.Second)
		if got := sink.at("/quick"); len(got) != 3 || len(sink.at("/late")) > 0 {
			t.Fatalf("got %q", got)
		}
		store.silent.Store(true)
		store.succeed(t, 5, subs...)
		store.accept(t, "new 6")
		time.Sleep(20 * time.Second) // the other subscriber is tried again
		if got := sink.at("/late"); !slices.Contains(got, "new 6") {
			t.Fatalf("got %q", got)
		}
		store.silent.Store(false)
		time.Sleep(time.Second)
		for _, path := range []string{"/quick", "/late"} {
			if got := sink.at(path); !slices.Contains(got, "new 6") {
				t.Errorf("%s got %q", path, got)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
