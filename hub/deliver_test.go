package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/websub"
)

// TestRequest: the headers and body of a delivery (WS-C-01, WS-C-02, WS-C-03,
// WS-C-04, RN-PB-02, WS-X-12).
func TestRequest(t *testing.T) {
	t.Parallel()
	type request struct {
		method, uri, host, body string
		head                    http.Header
	}
	got := make(chan request, 10)
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, body string) {
		got <- request{r.Method, r.RequestURI, r.Host, body, r.Header.Clone()}
	})
	r := run(t, hubstore.NewMem(), hub.Options{UserAgent: "hub/1"})
	const spelt = "https://source.example/%74opic"
	callback := s.URL + "/cb%2Fx/%7Ea?x=1&hub.mode=zzz&y=%41+b"
	if _, err := r.SubscribeVerified(context.Background(), spelt, callback, "", time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	body := "\xef\xbb\xbf<a>é</a>\r\n\x00\xff"
	m := hubstore.Message{
		Topic: topicURL, ContentType: `text/plain;  Charset="x"`, Body: []byte(body),
		Links: []string{`<https://source.example/caps.xml>; rel="resourcesync"`},
	}
	if _, err := r.Accept(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	q := <-got
	if q.method != http.MethodPost || "http://"+q.host+q.uri != callback || q.body != body {
		t.Errorf("%s http://%s%s with %q", q.method, q.host, q.uri, q.body)
	}
	want := `<https://hub.example/>; rel="hub", <` + spelt + `>; rel="self", <https://source.example/caps.xml>; rel="resourcesync"`
	for name, want := range map[string][]string{
		"Content-Type": {m.ContentType}, "Link": {want}, "User-Agent": {"hub/1"},
		"X-Hub-Signature": nil, "Accept-Encoding": nil, "Content-Encoding": nil, "Content-Length": {fmt.Sprint(len(body))},
	} {
		if got := q.head.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if q.head.Get("Hub-Delivery-Id") == "" {
		t.Error("the delivery has no id")
	}
}

// TestSignature: subscribers with a secret get signatures made with it, and
// with a new secret as soon as that is verified; other subscribers get none
// (WS-X-01, WS-X-02, WS-X-03, WS-X-12, WS-C-15).
func TestSignature(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"", "sha1", "sha384", "sha512"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			heads := make(chan http.Header, 100)
			s := newSink(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if r.URL.Path == "/plain" {
					if r.Header.Get("X-Hub-Signature") != "" {
						t.Error("a signature without a secret")
					}
					return
				}
				heads <- r.Header
			})
			r := run(t, hubstore.NewMem(), hub.Options{Method: method})
			r.subscribe(s.URL+"/plain", "")
			want := method
			if want == "" {
				want = "sha256"
			}
			for _, secret := range []string{"s3cr3t-0001", "another"} {
				r.subscribe(s.URL+"/signed", secret)
				const body = "<urlset/>\n"
				r.publish(body)
				head := <-heads
				used, err := websub.Verify(head.Values("X-Hub-Signature"), []byte(secret), []byte(body))
				if err != nil || used != want {
					t.Errorf("%q: %v", head.Values("X-Hub-Signature"), err)
				}
			}
			eventually(t, "unsigned", func() bool { return len(s.at("/plain")) == 2 })
		})
	}
}

// TestSealed: a secret is not readable in the store, and a hub with another key
// delivers nothing rather than an unsigned message.
func TestSealed(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{})
	key := r.subscribe(s.URL+"/cb", "very secret indeed")
	for row, err := range store.Subscriptions(context.Background(), -1) {
		if err != nil || strings.Contains(string(row.Secret), "secret") || len(row.Secret) == 0 {
			t.Errorf("stored: %q %v", row.Secret, err)
		}
	}
	_ = r.stop()
	r = run(t, store, hub.Options{Secret: []byte(strings.Repeat("x", 32))})
	r.publish("1")
	eventually(t, "failure", func() bool {
		row, _ := r.Row(key)
		return strings.Contains(row.Progress.LastError, "another key")
	})
	if got := s.at("/cb"); len(got) > 0 {
		t.Errorf("delivered: %q", got)
	}
}

// TestWhole: of messages that are the whole content, a subscriber that lags
// behind gets only the newest; of increments it gets all (WS-C-11).
func TestWhole(t *testing.T) {
	t.Parallel()
	under, release := make(chan struct{}), make(chan struct{})
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		if body == "1" {
			close(under)
			<-release
		}
	})
	r := run(t, hubstore.NewMem(), hub.Options{})
	r.subscribe(s.URL+"/cb", "")
	for i, body := range []string{"1", "2", "3", "increment", "5", "6"} {
		m := hubstore.Message{Topic: topicURL, Body: []byte(body), Whole: body != "increment"}
		if _, err := r.Accept(context.Background(), m); err != nil {
			t.Fatal(i, err)
		}
		if i == 0 {
			<-under
		}
	}
	close(release)
	want := []string{"1", "increment", "6"}
	eventually(t, "all", func() bool { return len(s.at("/cb")) >= len(want) })
	if got := s.at("/cb"); !same(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSlow: endpoints that never answer, or take a second, delay no other
// endpoint on the same host (WS-C-13).
func TestSlow(t *testing.T) {
	t.Parallel()
	undelayed(t, quickBesideSlow)
}

// undelayed expects that a quick subscriber gets messages within half a minute, in one
// of some tries: a loaded machine can make it slow, too, and then it waits with
// the others.
func undelayed(t *testing.T, try func(*testing.T) (got func() bool)) {
	t.Helper()
	for range 3 {
		got := try(t)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if got() {
				return
			}
		}
	}
	t.Error("a quick subscriber waited for more than 30 s")
}

// quickBesideSlow publishes to slow endpoints and a quick one.
func quickBesideSlow(t *testing.T) (got func() bool) {
	over := make(chan struct{})
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/hang"):
			select {
			case <-r.Context().Done():
			case <-over:
			}
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/slow"):
			time.Sleep(700 * time.Millisecond)
		}
	})
	r := run(t, hubstore.NewMem(), hub.Options{Timeout: time.Minute})
	t.Cleanup(func() { close(over) }) // before the hub is stopped
	for i := range 40 {
		r.subscribe(fmt.Sprintf("%s/hang/%d", s.URL, i), "")
		r.subscribe(fmt.Sprintf("%s/slow/%d", s.URL, i), "")
	}
	r.subscribe(s.URL+"/quick", "")
	r.publish("first") // after which the slow endpoints are known
	eventually(t, "first", func() bool { return len(s.at("/quick")) == 1 })
	time.Sleep(time.Second)
	r.publish(numbers(1, 20)...)
	return func() bool { return len(s.at("/quick")) == 21 }
}

// TestOneAtATime: a subscriber never gets two deliveries at a time, however many
// messages there are (WS-C-11).
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	under, most := map[string]int{}, 0
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		mu.Lock()
		under[r.URL.Path]++
		most = max(most, under[r.URL.Path])
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		under[r.URL.Path]--
		mu.Unlock()
	})
	r := run(t, hubstore.NewMem(), hub.Options{})
	for i := range 5 {
		r.subscribe(fmt.Sprintf("%s/cb/%d", s.URL, i), "")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { r.publish(numbers(1, 10)...) })
	}
	wg.Wait()
	for i := range 5 {
		eventually(t, "all", func() bool { return len(s.at(fmt.Sprintf("/cb/%d", i))) == 100 })
	}
	if most != 1 {
		t.Errorf("%d deliveries to one subscriber at a time", most)
	}
	first := s.at("/cb/0")
	for i := range 5 {
		if got := s.at(fmt.Sprintf("/cb/%d", i)); !same(got, first) {
			t.Errorf("another order: %v and %v", got, first)
		}
	}
}

// TestLease: a message accepted after the lease has expired is not delivered, and
// the row is deleted; the lease runs from when the subscriber was asked (WS-L-01,
// WS-L-02).
func TestLease(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{LeaseMin: time.Millisecond})
	const lease, asked = 5 * time.Second, 2 * time.Second // long enough for a loaded machine to deliver within
	key, err := r.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", lease, time.Now().Add(-asked))
	if err != nil {
		t.Fatal(err)
	}
	r.publish("within")
	eventually(t, "within", func() bool { return len(s.at("/cb")) == 1 })
	row, _ := r.Row(key)
	time.Sleep(time.Until(row.Expires))
	r.publish("too late")
	eventually(t, "end", func() bool { _, ok := r.Row(key); return !ok })
	eventually(t, "end of the row", func() bool { return len(rows(t, store)) == 0 })
	if got := s.at("/cb"); !same(got, []string{"within"}) || r.Stats().Expired != 1 {
		t.Errorf("got %q, %d expired", got, r.Stats().Expired)
	}
	if left := row.Expires.Sub(row.Created); left > lease-asked {
		t.Errorf("a lease of %v, asked for %v ago, ends in %v", lease, asked, left)
	}
}

// TestRenewal: a renewed subscription continues at its position, and gets each
// message once (WS-L-04).
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	r := run(t, hubstore.NewMem(), hub.Options{LeaseMin: time.Millisecond})
	lease := func(d time.Duration) hubstore.Subscription {
		k, err := r.SubscribeVerified(context.Background(), topicURL, s.URL+"/cb", "", d, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		row, _ := r.Row(k)
		return row
	}
	var first hubstore.Subscription
	for d := 300 * time.Millisecond; ; d *= 2 { // until the machine renews it in time
		first = lease(d)
		if lease(time.Hour); time.Now().Before(first.Expires) {
			break
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.publish(numbers(1, 200)...) })
	for range 20 {
		lease(time.Hour)
	}
	wg.Wait()
	eventually(t, "all", func() bool { return len(s.at("/cb")) >= 200 })
	time.Sleep(time.Until(first.Expires))
	r.publish("201")
	eventually(t, "after the first lease", func() bool { return len(s.at("/cb")) >= 201 })
	if got := s.at("/cb"); !same(got, numbers(1, 201)) {
		t.Errorf("got %v", got)
	}
	if row := lease(time.Hour); !row.Created.Equal(first.Created) || r.Stats().Subscriptions != 1 {
		t.Errorf("%+v, of %d", row, r.Stats().Subscriptions)
	}
}

// TestEnd: a subscriber that has unsubscribed gets nothing more, not even
// messages accepted before (WS-C-14); a delivery under way does not change
// that.
func TestEnd(t *testing.T) {
	t.Parallel()
	under, release := make(chan struct{}), make(chan struct{})
	s := newSink(t, func(http.ResponseWriter, *http.Request, string) {
		close(under) // a second delivery would panic
		<-release
	})
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{})
	key := r.subscribe(s.URL+"/cb", "")
	r.publish(numbers(1, 3)...)
	<-under
	if err := r.End(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	close(release)
	r.publish("4")
	eventually(t, "delivery", func() bool { return len(s.at("/cb")) == 1 })
	if err := r.stop(); err != nil || len(rows(t, store)) > 0 {
		t.Errorf("%v, %v", err, rows(t, store))
	}
	if got := s.at("/cb"); !same(got, []string{"1"}) {
		t.Errorf("got %v", got)
	}
}

// TestReplayed sets the cursor of a subscription back and forward.
func TestReplayed(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{RetryFirst: time.Hour, RetryMost: time.Hour})
	key := r.subscribe(s.URL+"/cb", "")
	other := r.subscribe(s.URL+"/other", "")
	r.publish(numbers(1, 5)...)
	eventually(t, "all", func() bool { return len(s.at("/cb")) == 5 && len(s.at("/other")) == 5 })
	replay := func(from, want int64) {
		t.Helper()
		if got, err := r.Replayed(context.Background(), key, from); err != nil || got != want {
			t.Errorf("replay from %d: from %d, %v", from, got, err)
		}
	}
	replay(3, 3)
	eventually(t, "replay", func() bool { return len(s.at("/cb")) == 8 })
	replay(-1, 1)
	eventually(t, "replay of all", func() bool { return len(s.at("/cb")) == 13 })
	replay(100, 6)
	failing.Store(true)
	r.publish("6", "7")
	eventually(t, "failure", func() bool { return r.Stats().Waiting == 2 })
	failing.Store(false)
	replay(7, 7) // without waiting for the next attempt
	eventually(t, "the last", func() bool { return len(s.at("/cb")) == 14 })
	if got, want := s.at("/cb"), strings.Fields("1 2 3 4 5 3 4 5 1 2 3 4 5 7"); !same(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if row, _ := r.Row(other); row.Progress.Cursor != 5 {
		t.Errorf("the other is at %d", row.Progress.Cursor)
	}
	if _, err := r.Replayed(context.Background(), "no such key", 1); !errors.Is(err, hub.ErrNoSubscription) {
		t.Errorf("no such: %v", err)
	}
}

// TestAddresses: a callback at a private address is not called unless that is
// allowed (WS-SEC-02).
func TestAddresses(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	t.Cleanup(s.Close)
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "https://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	r := running{Hub: h, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	<-h.Ready()
	key := r.subscribe(strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "")
	r.publish("1")
	eventually(t, "refusal", func() bool {
		row, _ := h.Row(key)
		return strings.Contains(row.Progress.LastError, "loopback")
	})
	cancel()
	if err := <-done; err != nil || len(called) > 0 {
		t.Errorf("%v, called %d times", err, len(called))
	}
}

func rows(t testing.TB, s hubstore.Store) (all []hubstore.Subscription) {
	t.Helper()
	for row, err := range s.Subscriptions(context.Background(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}
