package fetch

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// fewBreaks is how many consecutive truncated bodies a host may send before
	// each resource is requested only once. A request that ended in silence, or whose
	// body was too slow, counts as silenceWeight of them, because it takes so long;
	// but it may be repeated: a host sometimes loses several requests at a time.
	fewBreaks     = 16
	silenceWeight = 2

	// mostBreaks is how many consecutive truncated bodies a host may send before
	// resources fail without a request, except for one in each period of the host's
	// patience. With fewBreaks, so they do when the first is barrenPeriods of these
	// periods ago.
	mostBreaks    = 256
	barrenPeriods = 10

	// samePlaces is how many attempts of one request may break off at the same
	// position.
	samePlaces = 3

	// leastPart is how many bytes of a body count as progress, even if the rest is
	// missing.
	leastPart = 64 << 10
)

// breaks counts the consecutive requests for resources to a host that failed though it
// was connected: it truncated the body, sent it too slowly, or nothing. If it completes
// none, its resources are unavailable, whatever else it answers. Bodies of which a useful
// part arrived do not count, nor do documents.
type breaks struct {
	host     string
	patience time.Duration
	off      bool // nothing is counted

	mu    sync.Mutex // guards the rest
	count int
	since time.Time // of the first one
	last  error
	next  time.Time // when the next request is allowed; zero: it is
}

// broke records a body that was not complete, and reports whether another attempt is
// useless.
func (b *breaks) broke(err *BodyError) (over bool) {
	switch {
	case err.Got >= leastPart:
		return false
	case errors.Is(err.Err, ErrTooSlow), errors.Is(err.Err, ErrTimeout):
		return b.silent(err.Err)
	}
	return err.Retryable() && b.add(err.Err, 1) >= fewBreaks
}

// silent records a request that failed with err, and reports whether another attempt is
// useless. Only silence, and bodies that are too slow, count.
func (b *breaks) silent(err error) (over bool) {
	if !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrTooSlow) {
		return false
	}
	b.add(err, silenceWeight)
	return b.pass(false) != nil
}

// add adds to the count, and returns it.
func (b *breaks) add(err error, weight int) int {
	if b.off {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.count == 0 {
		b.since = now
	}
	b.count += weight
	b.last = err
	if b.next.IsZero() && (b.count >= mostBreaks || b.count >= fewBreaks && now.Sub(b.since) >= barrenPeriods*b.patience) {
		b.next = now.Add(b.patience)
	}
	return b.count
}

// progressed records a complete body, or a useful part of one.
func (b *breaks) progressed() {
	b.mu.Lock()
	b.count, b.next = 0, time.Time{}
	b.mu.Unlock()
}

// pass returns an error if a resource must not be requested now. send says that it is
// requested otherwise.
func (b *breaks) pass(send bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Before(b.next) {
		return &HostError{Host: b.host, Since: b.since, Err: errBroken{b.last}}
	}
	if send {
		b.next = now.Add(b.patience)
	}
	return nil
}

// errBroken is the reason why a host that answers gets no request.
type errBroken struct{ error }

func (e errBroken) Error() string {
	switch {
	case errors.Is(e.error, io.ErrUnexpectedEOF):
		return "it breaks off every body: body ended early"
	case errors.Is(e.error, ErrTimeout), errors.Is(e.error, ErrTooSlow):
		return "no resource arrives: " + e.error.Error()
	}
	return "it breaks off every body: " + e.error.Error()
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
