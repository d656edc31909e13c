package hub

import (
	"sync/atomic"
	"time"
)

// A tally counts what a hub does. All its methods are safe for concurrent use
// and cheap.
type tally struct {
	accepted, acceptedBytes   atomic.Int64
	delivered, deliveredBytes atomic.Int64
	failed                    atomic.Int64
	givenUp                   atomic.Int64
	verified, unverified      atomic.Int64
	refused                   atomic.Int64
	ended, expired, denied    atomic.Int64
	latency                   histogram
}

// accept counts a message that was accepted.
func (t *tally) accept(bytes int) { t.accepted.Add(1); t.acceptedBytes.Add(int64(bytes)) }

// deliver counts a message that a subscriber accepted, with the duration of the
// attempt.
func (t *tally) deliver(bytes int, took time.Duration) {
	t.delivered.Add(1)
	t.deliveredBytes.Add(int64(bytes))
	t.latency.add(took)
}

// fail counts a failed attempt.
func (t *tally) fail() { t.failed.Add(1) }

// giveUp counts messages that one subscriber will not receive.
func (t *tally) giveUp(n int64) { t.givenUp.Add(n) }

// verify counts a completed verification: whether the callback confirmed the
// request.
func (t *tally) verify(meant bool) {
	if meant {
		t.verified.Add(1)
	} else {
		t.unverified.Add(1)
	}
}

// refuse counts a request that was answered with 4xx or 5xx.
func (t *tally) refuse() { t.refused.Add(1) }

// end counts a subscription that its endpoint ended with 410; expire, one whose
// lease expired; deny, one that the hub ended.
func (t *tally) end()    { t.ended.Add(1) }
func (t *tally) expire() { t.expired.Add(1) }
func (t *tally) deny()   { t.denied.Add(1) }

// latencies are the upper bounds of a [Histogram].
var latencies = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// A histogram counts durations by size.
type histogram struct {
	sum   atomic.Int64
	count [len(latencies) + 1]atomic.Int64 // the last counts durations above all bounds
}

func (h *histogram) add(d time.Duration) {
	i := 0
	for i < len(latencies) && d > latencies[i] {
		i++
	}
	h.count[i].Add(1)
	h.sum.Add(int64(d))
}

// read returns the counts. Counters that change meanwhile may be included or
// not.
func (h *histogram) read() Histogram {
	r := Histogram{UpTo: make(map[time.Duration]int64, len(latencies)), Sum: time.Duration(h.sum.Load())}
	for i := range h.count {
		r.Count += h.count[i].Load()
		if i < len(latencies) {
			r.UpTo[latencies[i]] = r.Count
		}
	}
	return r
}

// A Histogram is a distribution of durations.
type Histogram struct {
	Count int64
	Sum   time.Duration
	UpTo  map[time.Duration]int64 // number of durations not above the bound
}
