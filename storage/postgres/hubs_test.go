package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
)

// TestHubs runs hubs on one database: whichever hub receives subscriptions and
// publications, every subscriber gets everything, in order, and continues to
// when a hub stops.
func TestHubs(t *testing.T) {
	t.Parallel()
	const topic, subscribers = "https://source.example/topic", 30
	var mu sync.Mutex
	got := map[string][]string{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if all := got[r.URL.Path]; !slices.Contains(all, string(b)) {
			got[r.URL.Path] = append(all, string(b))
		}
	}))
	t.Cleanup(sink.Close)
	address := postgrestest.URL(t)
	a, _ := runHub(t, address)
	b, stop := runHub(t, address)
	for i := range subscribers {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {fmt.Sprintf("%s/%d", sink.URL, i)}}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		[]*hub.Hub{a, b}[i%2].ServeHTTP(w, r)
		if w.Code != http.StatusAccepted {
			t.Fatalf("subscribe: %d %s", w.Code, w.Body)
		}
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not in time: %s; hubs %+v and %+v", what, a.Stats(), b.Stats())
			}
		}
	}
	eventually("subscriptions at both", func() bool {
		x, y := a.Stats().Subscriptions, b.Stats().Subscriptions
		return x+y == subscribers && x > 0 && y > 0
	})
	var want []string
	publish := func(h *hub.Hub) {
		t.Helper()
		want = append(want, fmt.Sprint(len(want)+1))
		head := http.Header{"Link": {"<" + topic + ">; rel=self"}, "Content-Type": {"text/plain"}}
		if err := h.Publish(context.Background(), topic, head, []byte(want[len(want)-1])); err != nil {
			t.Fatal(err)
		}
	}
	complete := func() {
		t.Helper()
		for i := range subscribers {
			path := fmt.Sprintf("/%d", i)
			var all []string
			eventually(path, func() bool {
				mu.Lock()
				defer mu.Unlock()
				all = slices.Clone(got[path])
				return len(all) >= len(want)
			})
			if !slices.Equal(all, want) {
				t.Errorf("%s got %v, want %v", path, all, want)
			}
		}
	}
	for range 20 {
		publish(a)
		publish(b)
	}
	complete()
	publish(b)
	stop()
	for range 10 {
		publish(a)
	}
	complete()
}

func runHub(t *testing.T, address string) (h *hub.Hub, stop func()) {
	t.Helper()
	h, err := hub.New(open(t, postgres.Options{}, address).Hub(), hub.Options{
		PublishOpen: true,
		PublicURL:   "https://hub.example/", AllowPrivate: true, Secret: []byte(strings.Repeat("s", 32)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-h.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return h, stop
}
