package fetch

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// fewBreaks is how many bodies in a row a host breaks off before each is asked
	// for only once.
	fewBreaks = 16

	// mostBreaks is how many bodies in a row a host breaks off before resources fail
	// without being asked for, but for one in each time that hosts are given.
	mostBreaks = 256

	// samePlaces is how many tries of one request may break off at the same place.
	samePlaces = 3

	// leastPart is how many bytes of a body are progress, even if the rest is missing.
	leastPart = 64 << 10
)

// breaks count the bodies that a host broke off, one after the other. Whatever else
// it answers, resources cannot be had from a host that finishes none. A body of
// which a part came that is worth having counts for nothing, nor do documents.
type breaks struct {
	host     string
	patience time.Duration
	off      bool // nothing is counted

	mu    sync.Mutex // guards the rest
	count int
	since time.Time // of the first
	last  error
	next  time.Time // when one may be asked for, once there were mostBreaks
}

// add takes in a body that broke off, and reports whether trying again is of no use.
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

// finished takes in that a body came to its end.
func (b *breaks) finished() {
	b.mu.Lock()
	b.count = 0
	b.mu.Unlock()
}

// pass returns an error if a resource must not be asked for now.
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

// errBroken is why a host that answers is not asked.
type errBroken struct{ error }

func (e errBroken) Error() string {
	cause := e.error.Error()
	if errors.Is(e.error, io.ErrUnexpectedEOF) {
		cause = "body ended early"
	}
	return "it breaks off every body: " + cause
}

func (e errBroken) Unwrap() error { return e.error }

// A place is where tries of one request broke off.
type place struct {
	at    int64
	times int
}

// again takes in that a try broke off after so many bytes of the whole, and reports
// whether that was so too often.
func (p *place) again(at int64) bool {
	if p.at != at {
		*p = place{at: at}
	}
	p.times++
	return p.times >= samePlaces
}
