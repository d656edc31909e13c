package hub_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A server is a database server that standbys may succeed.
type server struct{ primary atomic.Pointer[generation] }

// A generation is the database of a primary server, and the number of its Appends.
type generation struct {
	*hubstore.Mem
	appends atomic.Int64
}

func newServer() *server {
	s := &server{}
	s.primary.Store(&generation{Mem: hubstore.NewMem()})
	return s
}

// standby returns a copy of the present state.
func (s *server) standby(t *testing.T) *generation {
	t.Helper()
	g := &generation{Mem: hubstore.NewMem()}
	for m, err := range s.Log(t.Context(), topicURL, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Append(t.Context(), []hubstore.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
	for row, err := range s.Subscriptions(t.Context(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{row}}); err != nil {
			t.Fatal(err)
		}
	}
	g.appends.Store(s.primary.Load().appends.Load())
	return g
}

// cursor returns the position that is saved of the only subscription.
func (s *server) cursor() int64 {
	for row := range s.Subscriptions(context.Background(), -1) {
		return row.Progress.Cursor
	}
	return 0
}

func (s *server) Append(ctx context.Context, all []hubstore.Message) ([]int64, error) {
	g := s.primary.Load()
	g.appends.Add(1)
	return g.Mem.Append(ctx, all)
}

func (s *server) Save(ctx context.Context, c hubstore.Changes) error {
	return s.primary.Load().Save(ctx, c)
}

func (s *server) Trim(ctx context.Context, topic string, upto int64) error {
	return s.primary.Load().Trim(ctx, topic, upto)
}

func (s *server) Log(ctx context.Context, topic string, after int64) iter.Seq2[hubstore.Message, error] {
	return s.primary.Load().Log(ctx, topic, after)
}

func (s *server) Topics(ctx context.Context) iter.Seq2[hubstore.Topic, error] {
	return s.primary.Load().Topics(ctx)
}

func (s *server) Subscriptions(ctx context.Context, shard int) iter.Seq2[hubstore.Subscription, error] {
	return s.primary.Load().Subscriptions(ctx, shard)
}

func (s *server) Requests(ctx context.Context, shard int) iter.Seq2[hubstore.Request, error] {
	return s.primary.Load().Requests(ctx, shard)
}

// A client is one hub's handle of a server that several hubs use.
type client struct {
	*server
	claims
}

type claims struct{ *member }

// News is that of a server: topics that have got nothing since the mark are left out.
func (c *client) News(ctx context.Context, mark int64) (map[string]int64, int64, error) {
	g := c.primary.Load()
	next := g.appends.Load()
	all := map[string]int64{}
	if next <= mark {
		return all, next, nil
	}
	for t, err := range g.Topics(ctx) {
		if err != nil {
			return nil, 0, err
		}
		all[t.URL] = t.Last
	}
	return all, next, nil
}

// publishAll publishes as many messages as there are numbers.
func publishAll(r *running, what string, n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprint(what, i))
	}
	r.publish(bodies...)
	return bodies
}

// TestFailover: messages that are accepted after a standby without the last transactions has taken over are
// delivered, though they have the numbers of lost ones; and those before are not delivered again.
func TestFailover(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), newServer()
	r := run(t, store, hub.Options{})
	r.subscribe(s.URL+"/cb", "")
	want := publishAll(r, "before", 2)
	eventually(t, "saved", func() bool { return store.cursor() == 2 })
	standby := store.standby(t)
	want = append(want, publishAll(r, "lost", 3)...)
	eventually(t, "saved", func() bool { return store.cursor() == 5 })
	store.primary.Store(standby)
	want = append(want, publishAll(r, "after", 4)...)
	eventually(t, "all", func() bool { return len(s.at("/cb")) >= len(want) })
	if got := s.at("/cb"); !same(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	eventually(t, "saved", func() bool { return store.cursor() == 6 })
}

// TestFailoverShared: so are messages that another hub has accepted after the failover, whether that hub
// knew the lost ones or not.
func TestFailoverShared(t *testing.T) {
	t.Parallel()
	s, store, all := newSink(t, nil), newServer(), newShared()
	join := func() *running {
		c := &client{store, claims{&member{shared: all}}}
		return runWith(t, c, hub.Options{}, func(h *hub.Hub) { h.ClaimFor(2 * time.Second) })
	}
	a := join()
	subscribeAt(t, s.URL+"/cb", a)
	b := join()
	eventually(t, "division", func() bool { return a.Shards() == 128 && b.Shards() == 128 })
	if a.Stats().Subscriptions == 0 {
		a, b = b, a
	}
	want := publishAll(b, "before", 2)
	eventually(t, "saved", func() bool { return store.cursor() == 2 })
	standby := store.standby(t)
	want = append(want, publishAll(a, "lost", 9)...)
	eventually(t, "saved", func() bool { return store.cursor() == 11 })
	store.primary.Store(standby)
	want = append(want, publishAll(b, "after", 4)...)
	eventually(t, "all", func() bool { return len(s.at("/cb")) >= len(want) })
	if got := s.at("/cb"); !same(first(got), want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPositionBeyondLog: a subscription that was saved with a position beyond the end of its log gets the next
// message.
func TestPositionBeyondLog(t *testing.T) {
	t.Parallel()
	s, store := newSink(t, nil), newServer()
	r := run(t, store, hub.Options{})
	r.subscribe(s.URL+"/cb", "")
	standby := store.standby(t)
	publishAll(r, "lost", 3)
	eventually(t, "saved", func() bool { return store.cursor() == 3 })
	for row := range store.Subscriptions(t.Context(), -1) {
		if err := standby.Save(t.Context(), hubstore.Changes{Put: []hubstore.Subscription{row}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	store.primary.Store(standby)
	r = run(t, store, hub.Options{})
	publishAll(r, "after", 1)
	eventually(t, "delivery", func() bool { return len(s.at("/cb")) == 4 })
}

// TestFailoverDuringDelivery: a message that is accepted after a failover is delivered, also if
// the delivery of the lost message with its number was under way.
func TestFailoverDuringDelivery(t *testing.T) {
	t.Parallel()
	begun, proceed := make(chan struct{}), make(chan struct{})
	s, store := newSink(t, func(_ http.ResponseWriter, _ *http.Request, body string) {
		if body == "lost0" {
			close(begun)
			<-proceed
		}
	}), newServer()
	r := run(t, store, hub.Options{})
	r.subscribe(s.URL+"/cb", "")
	publishAll(r, "before", 2)
	eventually(t, "saved", func() bool { return store.cursor() == 2 })
	standby := store.standby(t)
	publishAll(r, "lost", 1)
	<-begun
	store.primary.Store(standby)
	publishAll(r, "after", 1)
	close(proceed)
	eventually(t, "delivered", func() bool { return slices.Contains(s.at("/cb"), "after0") })
}
