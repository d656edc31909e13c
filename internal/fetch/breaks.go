package fetch

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// fewBreaks is how many consecutive truncated bodies a host may send before
	// each resource is requested only once.
	fewBreaks = 16

	// mostBreaks is how many consecutive truncated bodies a host may send before
	// resources fail without a request, except for one in each period of the host's
	// patience.
	mostBreaks = 256

	// samePlaces is how many attempts of one request may break off at the same
	// position.
	samePlaces = 3

	// leastPart is how many bytes of a body count as progress, even if the rest is
	// missing.
	leastPart = 64 << 10
)

// breaks counts the consecutive bodies that a host truncated. If it completes none,
// its resources are unavailable, whatever else it answers. Bodies of which a useful
// part arrived do not count, nor do documents.
type breaks struct {
	host     string
	patience time.Duration
	off      bool // nothing is counted

	mu    sync.Mutex // guards the rest
	count int
	since time.Time // of the first one
	last  error
	next  time.Time // when the next request is allowed, once there were mostBreaks
}

// add records a truncated body, and reports whether another attempt is useless.
func (b *breaks) add(err *BodyError) (over bool) {
	if b.off || err.Got >= leastPart || !err.Retryable() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.count++; b.count == 1 {
		b.since = now
	}
	b.last = err.Err
	if b.count == mostBreaks {
		b.next = now.Add(b.patience)
	}
	return b.count >= fewBreaks
}

// finished records a complete body.
func (b *breaks) finished() {
	b.mu.Lock()
	b.count = 0
	b.mu.Unlock()
}

// pass returns an error if a resource must not be requested now.
func (b *breaks) pass() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count < mostBreaks {
		return nil
	}
	now := time.Now()
	if !now.Before(b.next) {
		b.next = now.Add(b.patience)
		return nil
	}
	return &HostError{Host: b.host, Since: b.since, Err: errBroken{b.last}}
}

// errBroken is the reason why a host that answers gets no request.
type errBroken struct{ error }

func (e errBroken) Error() string {
	cause := e.error.Error()
	if errors.Is(e.error, io.ErrUnexpectedEOF) {
		cause = "body ended early"
	}
	return "it breaks off every body: " + cause
}

func (e errBroken) Unwrap() error { return e.error }

// A place is the position where attempts of one request broke off.
type place struct {
	at    int64
	times int
}

// again records that an attempt broke off after that many bytes of the whole, and
// reports whether that happened too often.
func (p *place) again(at int64) bool {
	if p.at != at {
		*p = place{at: at}
	}
	p.times++
	return p.times >= samePlaces
}
