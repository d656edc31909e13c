package hub

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// A rate limits how often something may happen: burst times at once, then per
// times each second.
type rate struct{ burst, per float64 }

// maxBuckets caps how many keys a [buckets] remembers; all others share one
// bucket.
const maxBuckets = 100_000

// buckets rate-limits each key. It is safe for concurrent use.
type buckets[K comparable] struct {
	rate  rate
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

func newBuckets[K comparable](r rate, clock func() time.Time) *buckets[K] {
	return &buckets[K]{rate: r, clock: clock, m: make(map[K]*bucket)}
}

// take takes n tokens of k, all or none. It returns zero, or how long to wait
// for them.
func (b *buckets[K]) take(k K, n float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	c := b.get(k, now)
	b.refill(c, now)
	n = min(n, b.rate.burst)
	if c.used+n > b.rate.burst {
		return max(time.Duration((c.used+n-b.rate.burst)/b.rate.per*float64(time.Second)), time.Millisecond)
	}
	c.used += n
	return 0
}

// reserve takes a token of k in any case, and returns how long to wait for it.
func (b *buckets[K]) reserve(k K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	c := b.get(k, now)
	b.refill(c, now)
	c.used++
	return max(time.Duration((c.used-b.rate.burst)/b.rate.per*float64(time.Second)), 0)
}

// give returns n tokens to k.
func (b *buckets[K]) give(k K, n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.m[k]; c != nil {
		c.used = max(c.used-n, 0)
	}
}

func (b *buckets[K]) refill(c *bucket, now time.Time) {
	if d := now.Sub(c.at); d > 0 {
		c.used = max(c.used-d.Seconds()*b.rate.per, 0)
	}
	c.at = now
}

func (b *buckets[K]) get(k K, now time.Time) *bucket {
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
func (b *buckets[K]) sweep(now time.Time) {
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

// tooMany answers a request beyond a limit.
func tooMany(wait time.Duration, format string, args ...any) error {
	return again(http.StatusTooManyRequests, wait, format, args...)
}

// again answers that the client should retry later.
func again(status int, wait time.Duration, format string, args ...any) error {
	e := refuse(status, format, args...).(*refusal)
	e.after = max(wait, time.Second)
	return e
}

// A budget bounds the bytes of all bodies held at a time, of all clients
// together. The first firstRead bytes of each are free: a connection costs more
// than that anyway, and ordinary requests pass when strangers have used up the
// rest.
type budget struct {
	mu   sync.Mutex // guards left
	left int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

const firstRead = 4 << 10

// read returns a body of at most most bytes, and a function to call when the body
// is released. Memory grows with the bytes received, not with the announced
// length, which is -1 if unknown.
func (b *budget) read(r io.Reader, announced, most int64) (body []byte, done func(), err error) {
	if announced > most {
		return nil, nil, tooLarge(most)
	}
	taken := int64(firstRead)
	done = func() { b.give(taken - firstRead) }
	buf := make([]byte, 0, firstRead)
	if announced >= 0 && announced < firstRead {
		buf = make([]byte, 0, announced+1)
	}
	for {
		if int64(cap(buf)) > taken {
			grown := int64(cap(buf)) - taken
			if !b.take(grown) {
				done()
				return nil, nil, again(http.StatusServiceUnavailable, time.Second, "the hub has as many requests in hand as it has memory for")
			}
			taken += grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			done()
			return nil, nil, tooLarge(most)
		case err == io.EOF:
			return buf, done, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			done()
			return nil, nil, refuse(http.StatusRequestTimeout, "the body took too long to come")
		case err != nil:
			done()
			return nil, nil, refuse(http.StatusBadRequest, "the body broke off")
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(len(buf))+firstRead, max(most, int64(len(buf)))+1))
			copy(grown, buf)
			buf = grown
		}
	}
}

func tooLarge(most int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", most)
}
