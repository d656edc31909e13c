// Package ratelimit limits how often each client may do something, and determines which
// client a request is counted for.
package ratelimit

import (
	"sync"
	"time"
)

// A Rate limits how often something may happen: Burst times at once, then Per
// times each second.
type Rate struct{ Burst, Per float64 }

// maxBuckets caps how many keys a [Buckets] remembers; all others share one
// bucket.
const maxBuckets = 100_000

// Buckets rate-limits each key. It is safe for concurrent use.
type Buckets[K comparable] struct {
	Rate  Rate
	clock func() time.Time

	mu     sync.Mutex // guards the rest
	m      map[K]*bucket
	others bucket
	swept  time.Time
}

type bucket struct {
	used float64 // tokens taken and not yet refilled
	at   time.Time
}

// NewBuckets returns a Buckets that gives r to each key.
func NewBuckets[K comparable](r Rate, clock func() time.Time) *Buckets[K] {
	return &Buckets[K]{Rate: r, clock: clock, m: make(map[K]*bucket)}
}

// Take takes n tokens of k, all or none. It returns zero, or how long to wait
// for them.
func (b *Buckets[K]) Take(k K, n float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	c := b.get(k, now)
	b.refill(c, now)
	n = min(n, b.Rate.Burst)
	if c.used+n > b.Rate.Burst {
		return max(time.Duration((c.used+n-b.Rate.Burst)/b.Rate.Per*float64(time.Second)), time.Millisecond)
	}
	c.used += n
	return 0
}

// Reserve takes a token of k in any case, and returns how long to wait for it.
func (b *Buckets[K]) Reserve(k K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	c := b.get(k, now)
	b.refill(c, now)
	c.used++
	return max(time.Duration((c.used-b.Rate.Burst)/b.Rate.Per*float64(time.Second)), 0)
}

// Give returns n tokens to k.
func (b *Buckets[K]) Give(k K, n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.m[k]; c != nil {
		c.used = max(c.used-n, 0)
	}
}

func (b *Buckets[K]) refill(c *bucket, now time.Time) {
	if d := now.Sub(c.at); d > 0 {
		c.used = max(c.used-d.Seconds()*b.Rate.Per, 0)
	}
	c.at = now
}

func (b *Buckets[K]) get(k K, now time.Time) *bucket {
	if c := b.m[k]; c != nil {
		return c
	}
	if len(b.m) >= maxBuckets {
		b.sweep(now)
	}
	if len(b.m) >= maxBuckets {
		return &b.others
	}
	c := &bucket{at: now}
	b.m[k] = c
	return c
}

// sweep removes full buckets, at most once a second: examining all of them for
// each request of a flood would be expensive.
func (b *Buckets[K]) sweep(now time.Time) {
	if now.Sub(b.swept) < time.Second {
		return
	}
	b.swept = now
	for k, c := range b.m {
		if b.refill(c, now); c.used == 0 {
			delete(b.m, k)
		}
	}
}
