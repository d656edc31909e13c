package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// A desk is a running hub with its API and page, and callbacks that answer as
// configured.
type desk struct {
	t         *testing.T
	hub       *hub.Hub
	store     *hubstore.Mem
	callbacks *httptest.Server
	status    atomic.Int64 // of the answers to deliveries

	mu      sync.Mutex // guards what follows
	bodies  []string   // delivered
	denials []string   // queries
}

const deskTopic = "https://data.example.org/news"

// newDesk starts a hub with a subscription for each of the named callbacks; for
// "name topic" the subscription is to that topic.
func newDesk(t *testing.T, names ...string) *desk {
	t.Helper()
	d := &desk{t: t, store: hubstore.NewMem()}
	d.status.Store(200)
	d.callbacks = httptest.NewServer(http.HandlerFunc(d.call))
	t.Cleanup(d.callbacks.Close)
	var rows []hubstore.Subscription
	for _, name := range names {
		name, topic, other := strings.Cut(name, " ")
		if !other {
			topic = deskTopic
		}
		rows = append(rows, d.row(name, topic))
	}
	if err := d.store.Save(t.Context(), hubstore.Changes{Put: rows}); err != nil {
		t.Fatal(err)
	}
	var err error
	d.hub, err = hub.New(d.store, hub.Options{PublicURL: "https://hub.example.org/", AllowPrivate: true, RetryFirst: 20 * time.Millisecond, RetryMost: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-d.hub.Ready()
	return d
}

func (d *desk) row(name, topic string) hubstore.Subscription {
	callback := d.callbacks.URL + "/" + name + "?secret=path"
	return hubstore.Subscription{Key: hubstore.KeyOf(topic, callback), Topic: topic, Callback: callback, Created: time.Now(), Expires: time.Now().Add(time.Hour)}
}

func (d *desk) key(name string) hubstore.Key { return d.row(name, deskTopic).Key }

// call answers the hub's requests to callbacks.
func (d *desk) call(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a short body shows as a missing message
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method == http.MethodGet {
		d.denials = append(d.denials, r.URL.RequestURI())
		return
	}
	status := int(d.status.Load())
	if status == 200 {
		d.bodies = append(d.bodies, r.URL.Path+" "+string(body))
	}
	w.WriteHeader(status)
}

// publish publishes a message from within the process.
func (d *desk) publish(body string) {
	d.t.Helper()
	header := http.Header{"Content-Type": {"text/plain"}, "Link": {"<" + deskTopic + `>; rel="self"`}}
	if err := d.hub.Publish(d.t.Context(), deskTopic, header, []byte(body)); err != nil {
		d.t.Fatal(err)
	}
}

// ask sends a request to the API and decodes the answer into v.
func (d *desk) ask(method, target, body string, v any) (status int) {
	d.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	d.hub.API().ServeHTTP(w, r)
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			d.t.Fatalf("%s %s: %d %v\n%s", method, target, w.Code, err, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "secret=path") {
		d.t.Errorf("%s %s shows a callback (WS-SEC-07): %s", method, target, w.Body)
	}
	return w.Code
}

// settled waits until f returns no error text.
func settled(t *testing.T, f func() (wrong string)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for wrong := f(); wrong != ""; wrong = f() {
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// of returns the status of a callback's subscription.
func (d *desk) of(name string) (s hub.SubscriptionStatus) {
	d.t.Helper()
	if status := d.ask("GET", "/subscriptions/"+string(d.key(name)), "", &s); status != 200 {
		d.t.Fatalf("%s: status %d", name, status)
	}
	return s
}

// TestStatusOfFailing follows a subscription through failures: the messages it
// lacks, since when, why, and when the hub retries. Only the host of its
// callback is shown (WS-SEC-07).
func TestStatusOfFailing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "a")
	d.status.Store(503)
	before := time.Now().Truncate(time.Microsecond)
	d.publish("one")
	d.publish("two")
	settled(t, func() string {
		s := d.of("a")
		if s.Lag == 2 && s.Attempts > 1 && strings.Contains(s.LastError, "503") && !s.Next.IsZero() && !s.FailingSince.Before(before) {
			return ""
		}
		return fmt.Sprintf("of a: %+v", s)
	})
	s := d.of("a")
	if s.Oldest.Before(before) || s.Oldest.After(time.Now()) || s.Callback != d.callbacks.URL || s.Topic != deskTopic || s.Taken != 0 || s.Signed {
		t.Errorf("of a: %+v", s)
	}
	var list struct{ Subscriptions []hub.SubscriptionStatus }
	if d.ask("GET", "/subscriptions?behind=true", "", &list); len(list.Subscriptions) != 1 {
		t.Errorf("behind: %+v", list)
	}
	var topics struct{ Topics []hub.TopicStatus }
	d.ask("GET", "/topics", "", &topics)
	want := hub.TopicStatus{URL: deskTopic, First: 1, Last: 2, Bytes: 6, Subscriptions: 1, Behind: 1, LagMax: 2}
	if len(topics.Topics) != 1 || topics.Topics[0] != want {
		t.Errorf("topics = %+v, want %+v", topics.Topics, want)
	}
	d.status.Store(200)
	settled(t, func() string {
		if s := d.of("a"); s.Lag > 0 || s.State != "idle" || s.Taken != 2 || s.LastError != "" || s.Attempts != 0 || s.LastTaken.IsZero() {
			return fmt.Sprintf("of a: %+v", s)
		}
		return ""
	})
	var stats struct {
		Accepted, Delivered, Failed, Behind int
		URL                                 string
	}
	d.ask("GET", "/", "", &stats)
	if stats.Accepted != 2 || stats.Delivered != 2 || stats.Failed < 2 || stats.Behind != 0 || stats.URL != "https://hub.example.org/" {
		t.Errorf("stats = %+v", stats)
	}
}

// TestReplay delivers stored messages again, to one subscription and to all.
func TestReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "a", "b")
	for i := range 3 {
		d.publish(fmt.Sprint(i + 1))
	}
	got := func(want ...string) func() string {
		return func() string {
			d.mu.Lock()
			defer d.mu.Unlock()
			count := map[string]int{}
			for _, b := range d.bodies {
				count[b]++
			}
			for i := 0; i < len(want); i += 2 {
				if fmt.Sprint(count[want[i]]) != want[i+1] {
					return fmt.Sprintf("delivered: %v, want %v", count, want)
				}
			}
			return ""
		}
	}
	settled(t, got("/a 1", "1", "/a 3", "1", "/b 3", "1"))
	var n struct{ From, Subscriptions int }
	if status := d.ask("POST", "/subscriptions/"+string(d.key("a"))+"/replay", `{"from": 2}`, &n); status != 200 || n.From != 2 {
		t.Errorf("replay: %d %+v", status, n)
	}
	settled(t, got("/a 1", "1", "/a 2", "2", "/a 3", "2", "/b 2", "1", "/b 3", "1"))
	if status := d.ask("POST", "/replay", `{"topic": "`+deskTopic+`", "from": 1}`, &n); status != 200 || n.From != 1 || n.Subscriptions != 2 {
		t.Errorf("replay: %d %+v", status, n)
	}
	settled(t, got("/a 1", "2", "/a 2", "3", "/a 3", "3", "/b 1", "2", "/b 3", "2"))
	for body, want := range map[string]int{
		`{"from": 0}`: 400, `{"from": -1}`: 400, `{}`: 400, `{"from": "2"}`: 400, `{"from": 1, "to": 2}`: 400, `[]`: 400, `{"from": 1}{}`: 400,
		`{"from": 1, "topic": "x"}`: 400, `{"from": 1` + strings.Repeat(" ", 9000) + `}`: 413, `{"from": 99999999999999999999}`: 400,
	} {
		if status := d.ask("POST", "/subscriptions/"+string(d.key("a"))+"/replay", body, &struct{}{}); status != want {
			t.Errorf("replay %.40s: %d, want %d", body, status, want)
		}
	}
	if status := d.ask("POST", "/subscriptions/0123/replay", `{"from": 1}`, &struct{}{}); status != 404 {
		t.Errorf("replay to nobody: %d, want 404", status)
	}
}

// TestReplayWhileFailing replays to a subscription whose endpoint fails: it
// gets everything in order once the endpoint works again.
func TestReplayWhileFailing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "a")
	d.publish("1")
	settled(t, func() string {
		if s := d.of("a"); s.Taken != 1 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	d.status.Store(500)
	d.publish("2")
	settled(t, func() string {
		if s := d.of("a"); s.Attempts == 0 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if status := d.ask("POST", "/subscriptions/"+string(d.key("a"))+"/replay", `{"from": 1}`, &struct{}{}); status != 200 {
		t.Fatalf("replay: %d", status)
	}
	d.status.Store(200)
	settled(t, func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		got := strings.Join(d.bodies, ",")
		if got == "/a 1,/a 1,/a 2" || got == "/a 1,/a 2,/a 1,/a 2" { // an attempt was under way when the replay began
			return ""
		}
		return got
	})
}

// TestRemove ends a subscription: nothing more is delivered, the subscriber is
// notified (WS-V-02), and it stays ended.
func TestRemove(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "a", "b")
	if status := d.ask("DELETE", "/subscriptions/"+string(d.key("a"))+"?reason=moved%20away", "", nil); status != 204 {
		t.Fatalf("remove: %d", status)
	}
	if status := d.ask("DELETE", "/subscriptions/"+string(d.key("a")), "", &struct{}{}); status != 404 {
		t.Errorf("remove again: %d, want 404", status)
	}
	if status := d.ask("DELETE", "/subscriptions/"+string(d.key("b"))+"?reason="+strings.Repeat("x", 300), "", &struct{}{}); status != 400 {
		t.Errorf("remove with a long reason: %d, want 400", status)
	}
	settled(t, func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.denials) != 1 || !strings.HasPrefix(d.denials[0], "/a?secret=path&hub.mode=denied&") || !strings.Contains(d.denials[0], "hub.reason=moved") {
			return fmt.Sprintf("denials: %q", d.denials)
		}
		return ""
	})
	d.publish("x")
	settled(t, func() string {
		if d.mu.Lock(); len(d.bodies) != 1 || d.bodies[0] != "/b x" {
			defer d.mu.Unlock()
			return fmt.Sprintf("delivered: %q", d.bodies)
		}
		d.mu.Unlock()
		return ""
	})
	for s, err := range d.store.Subscriptions(t.Context(), -1) {
		if err != nil || s.Key == d.key("a") {
			t.Errorf("in the store: %v, %v", s.Key, err)
		}
	}
}

// TestAPIPages requests lists in parts.
func TestAPIPages(t *testing.T) {
	t.Parallel()
	names := make([]string, 23)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	d := newDesk(t, names...)
	seen, parts := map[hubstore.Key]bool{}, 0
	for after := ""; parts < 10; parts++ {
		var list struct {
			Subscriptions []hub.SubscriptionStatus
			After         string
		}
		if status := d.ask("GET", "/subscriptions?limit=7&topic="+deskTopic+"&after="+after, "", &list); status != 200 {
			t.Fatalf("status %d", status)
		}
		for _, s := range list.Subscriptions {
			if seen[s.Key] || string(s.Key) <= after {
				t.Errorf("%s after %s, or twice", s.Key, after)
			}
			seen[s.Key] = true
		}
		if after = list.After; after == "" {
			break
		}
	}
	if len(seen) != len(names) || parts != 3 {
		t.Errorf("%d subscriptions in %d parts", len(seen), parts+1)
	}
	for i := range 5 {
		d.publish(fmt.Sprint(i))
	}
	var list struct {
		Messages []hub.MessageStatus
		After    int64
	}
	d.ask("GET", "/messages?limit=2&after=1&topic="+deskTopic, "", &list)
	if len(list.Messages) != 2 || list.Messages[0].Seq != 2 || list.After != 3 || list.Messages[0].Bytes != 1 || list.Messages[0].ID == "" {
		t.Errorf("messages: %+v", list)
	}
	for target, want := range map[string]int{
		"/subscriptions?limit=0": 400, "/subscriptions?limit=x": 400, "/subscriptions?limit=1000000000": 200, "/subscriptions?behind=maybe": 400,
		"/subscriptions?after=zzzz": 200, "/subscriptions?topic=nobody": 200, "/messages?topic=nobody": 404, "/messages": 404, "/messages?after=-1&topic=" + deskTopic: 400,
		"/topics?after=zzzz": 200, "/topics?limit=-1": 400, "/subscriptions/%00": 404, "/subscriptions/" + strings.Repeat("f", 5000): 404,
	} {
		if status := d.ask("GET", target, "", &struct{}{}); status != want {
			t.Errorf("GET %.60s: %d, want %d", target, status, want)
		}
	}
	for target, method := range map[string]string{"/": "DELETE", "/subscriptions": "POST", "/replay": "GET", "/nowhere": "GET"} {
		w := httptest.NewRecorder()
		d.hub.API().ServeHTTP(w, httptest.NewRequest(method, target, nil))
		if w.Code != 404 && w.Code != 405 {
			t.Errorf("%s %s: %d", method, target, w.Code)
		}
	}
}

// TestNotReady calls the API of a hub that has not loaded yet.
func TestNotReady(t *testing.T) {
	t.Parallel()
	h, err := hub.New(hubstore.NewMem(), hub.Options{PublicURL: "https://hub.example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.API().ServeHTTP(w, httptest.NewRequest("GET", "/topics", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("topics: %d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	h.StatusPage("/-/api/v1/hub", nil).ServeHTTP(w, httptest.NewRequest("GET", "/-/hub", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "is starting") {
		t.Errorf("page: %d %s", w.Code, w.Body)
	}
}
