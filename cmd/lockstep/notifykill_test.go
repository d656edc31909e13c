package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// A harshHub is a hub that keeps what it accepts, and is out of order now and
// then.
type harshHub struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex    // guards what follows
	received []changeEvent // accepted, in the order of arrival; repeated ones are compared with the first
	last     time.Time     // until of the newest accepted
	odd      int           // repeated
	fail     int           // requests not accepted
}

func newHarshHub(t *testing.T) *harshHub {
	h := &harshHub{t: t}
	h.Server = httptest.NewServer(http.HandlerFunc(h.take))
	t.Cleanup(h.Close)
	return h
}

func (h *harshHub) take(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Link") == "" { // by which a Source that starts checks that there is a hub
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the Source was killed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/xml" || !strings.Contains(r.Header.Get("Link"), `/resourcesync/main/changes>; rel="self"`) {
		h.t.Errorf("RN-PB-01: %s with header %v", r.Method, r.Header)
	}
	if rand.IntN(8) == 0 {
		h.fail++
		w.Header().Set("Retry-After", "0")
		w.WriteHeader([]int{500, 503, 429}[rand.IntN(3)])
		return
	}
	d := resourcesync.NewReader(strings.NewReader(string(body)), resourcesync.ReaderOptions{Strict: true})
	head, err := d.Header()
	if err != nil {
		h.t.Errorf("%v in\n%s", err, body)
		return
	}
	if from := head.From.Time(); !h.last.IsZero() && from.After(h.last) {
		h.t.Errorf("RN-PL-07: a notification from %s, after one until %s", from, h.last)
	}
	for e, err := range d.Entries() {
		if err != nil {
			h.t.Errorf("%v in\n%s", err, body)
			return
		}
		one := changeEvent{uri: e.Loc, change: e.Change, at: e.Datetime.Time(), digest: e.Hashes.Get(resourcesync.SHA256)}
		if n := len(h.received); n > 0 && !one.at.After(h.received[n-1].at) {
			if h.odd++; !slices.Contains(h.received, one) {
				h.t.Errorf("%v is repeated, and was different before", one)
			}
			continue
		}
		h.received = append(h.received, one)
	}
	if until := head.Until.Time(); until.After(h.last) {
		h.last = until
	}
	w.WriteHeader(http.StatusAccepted)
}

// count returns how many changes were received.
func (h *harshHub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.received)
}

// TestNotifyKilled kills a Source at random moments while its files change, and
// the hub fails now and then: in the end the hub has received every change in the
// Change List since the first one received, in order, in intervals without a gap
// (RN-PL-07, RN-PB-06). Repeated changes are the same as before.
func TestNotifyKilled(t *testing.T) {
	t.Parallel()
	files := newRestlessFiles(t, 50)
	hub := newHarshHub(t)
	src := newLivingSource(t, files.dir, t.TempDir(), "--hub", hub.URL+"/hub")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { files.change(5*time.Millisecond, stop) })
	rest := sync.OnceFunc(func() { close(stop); busy.Wait() })
	defer rest()
	for range *serveKills {
		before := hub.count()
		waitFor(t, "notifications", func() bool { return hub.count() > before || t.Failed() })
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		src.kill()
		src.start()
	}
	rest()
	var listed []changeEvent
	waitFor(t, "the last notification", func() bool {
		time.Sleep(time.Second) // for what is not published yet
		c, err := crawlSource(src.base)
		if err != nil {
			t.Fatal(err)
		}
		listed = c.events
		hub.mu.Lock()
		defer hub.mu.Unlock()
		return t.Failed() || len(hub.received) > 0 && hub.received[len(hub.received)-1].at.Equal(listed[len(listed)-1].at)
	})
	hub.mu.Lock()
	defer hub.mu.Unlock()
	first := slices.IndexFunc(listed, func(e changeEvent) bool { return e.at.Equal(hub.received[0].at) })
	listed = listed[max(first, 0):]
	if len(listed) < len(hub.received) {
		t.Fatalf("%d changes received, %d listed", len(hub.received), len(listed))
	}
	for i, one := range hub.received {
		if l := listed[i]; one.uri != l.uri || one.change != l.change || !one.at.Equal(l.at) {
			t.Fatalf("change %d of %d was received as %v, listed as %v", i, len(hub.received), one, l)
		}
	}
	t.Logf("%d changes received, %d again, %d requests failed", len(hub.received), hub.odd, hub.fail)
}
