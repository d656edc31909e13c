package accesslog

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/recent"
)

// bounds are the upper bounds of durations that are told apart.
func bounds() [8]time.Duration {
	return [...]time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Minute}
}

// A tally counts requests by what they were for. The zero value is ready to use.
type tally struct {
	mu     sync.Mutex // guards the rest
	byKind map[string]*kindTally
	total  recent.Total // of what is not a page
}

// A kindTally counts the requests for one kind of thing.
type kindTally struct {
	byClass  [6]int64 // of status codes; 0 for none
	bytes    int64
	duration time.Duration
	upTo     [8]int64 // how many took no longer than the bound, and longer than the one before
}

// add counts a request.
func (t *tally) add(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.byKind[e.kind]
	if k == nil {
		if t.byKind == nil {
			t.byKind = make(map[string]*kindTally)
		}
		k = &kindTally{}
		t.byKind[e.kind] = k
	}
	k.byClass[min(max(e.status/100, 0), len(k.byClass)-1)]++
	k.bytes += e.bytes
	k.duration += e.took
	limits := bounds()
	if i, _ := slices.BinarySearch(limits[:], e.took); i < len(limits) {
		k.upTo[i]++
	}
	if e.kind == kindPage || e.kind == kindAdmin {
		return
	}
	t.total.Count++
	t.total.Bytes += e.bytes
	t.total.Latency.Add(e.first, 1)
	if e.status >= http.StatusInternalServerError || e.status == 0 {
		t.total.Failed++
	}
}

// Kinds of requests of people and monitors. They are not what a service is for: looking at
// how busy a service is does not make it busier.
const (
	kindPage  = "page"
	kindAdmin = "admin"
)

// figures are what monitors learn.
func (t *tally) figures(out *admin.Figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(t.byKind)) {
		k := t.byKind[kind]
		var requests uint64
		for class, n := range k.byClass {
			if requests += uint64(n); n > 0 {
				out.Counter("lockstep_http_requests_total", "Requests answered, by what they were for and the class of the status code.", float64(n), "kind", kind, "code", strconv.Itoa(class)+"xx")
			}
		}
		out.Counter("lockstep_http_response_bytes_total", "Bytes of the bodies of responses.", float64(k.bytes), "kind", kind)
		upTo, sum := make(map[float64]uint64), uint64(0)
		for i, bound := range bounds() {
			sum += uint64(k.upTo[i])
			upTo[bound.Seconds()] = sum
		}
		out.Histogram("lockstep_http_request_seconds", "How long requests took, until the last byte was sent.", requests, k.duration.Seconds(), upTo, "kind", kind)
	}
}
