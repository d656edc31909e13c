// Package tally counts what a hub does.
package tally

import (
	"sync/atomic"
	"time"

	"lockstep/hub/status"
)

// A Tally counts what a hub does. All its methods are safe for concurrent use
// and cheap.
type Tally struct {
	accepted, acceptedBytes   atomic.Int64
	delivered, deliveredBytes atomic.Int64
	failed                    atomic.Int64
	givenUp                   atomic.Int64
	verified, unverified      atomic.Int64
	refused                   atomic.Int64
	ended, expired, denied    atomic.Int64
	pings, limited            atomic.Int64
	fetched, unchanged        atomic.Int64
	unfetched                 atomic.Int64
	latency                   histogram
}

// Accept counts a message that was accepted.
func (t *Tally) Accept(bytes int) { t.accepted.Add(1); t.acceptedBytes.Add(int64(bytes)) }

// Deliver counts a message that a subscriber accepted, with the duration of the
// attempt.
func (t *Tally) Deliver(bytes int, took time.Duration) {
	t.delivered.Add(1)
	t.deliveredBytes.Add(int64(bytes))
	t.latency.add(took)
}

// Fail counts a failed attempt.
func (t *Tally) Fail() { t.failed.Add(1) }

// GiveUp counts messages that one subscriber will not receive.
func (t *Tally) GiveUp(n int64) { t.givenUp.Add(n) }

// Verify counts a completed verification: whether the callback confirmed the
// request.
func (t *Tally) Verify(meant bool) {
	if meant {
		t.verified.Add(1)
	} else {
		t.unverified.Add(1)
	}
}

// Refuse counts a request that was answered with 4xx or 5xx.
func (t *Tally) Refuse() { t.refused.Add(1) }

func (t *Tally) End()    { t.ended.Add(1) }
func (t *Tally) Expire() { t.expired.Add(1) }
func (t *Tally) Deny()   { t.denied.Add(1) }

// Ping counts topics that were pinged, in requests that were accepted.
func (t *Tally) Ping(topics int) { t.pings.Add(int64(topics)) }

// Limit counts a request beyond a rate limit or quota.
func (t *Tally) Limit() { t.limited.Add(1) }

// Fetch counts a topic that had changed when it was fetched; Unchanged, one that
// had not; Unfetched, one that could not be fetched.
func (t *Tally) Fetch()     { t.fetched.Add(1) }
func (t *Tally) Unchanged() { t.unchanged.Add(1) }
func (t *Tally) Unfetched() { t.unfetched.Add(1) }

// Stats returns the counts.
func (t *Tally) Stats() status.Stats {
	return status.Stats{
		Accepted: t.accepted.Load(), AcceptedBytes: t.acceptedBytes.Load(),
		Delivered: t.delivered.Load(), DeliveredBytes: t.deliveredBytes.Load(),
		Failed: t.failed.Load(), GivenUp: t.givenUp.Load(),
		Verified: t.verified.Load(), Unverified: t.unverified.Load(), Refused: t.refused.Load(),
		Limited: t.limited.Load(), Pings: t.pings.Load(), Fetched: t.fetched.Load(), Unchanged: t.unchanged.Load(), Unfetched: t.unfetched.Load(),
		Ended: t.ended.Load(), Expired: t.expired.Load(), Denied: t.denied.Load(),
		Latency: t.latency.read(),
	}
}

// latencies are the upper bounds of a [status.Histogram].
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
func (h *histogram) read() status.Histogram {
	r := status.Histogram{UpTo: make(map[time.Duration]int64, len(latencies)), Sum: time.Duration(h.sum.Load())}
	for i := range h.count {
		r.Count += h.count[i].Load()
		if i < len(latencies) {
			r.UpTo[latencies[i]] = r.Count
		}
	}
	return r
}
