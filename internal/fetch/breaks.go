package fetch

import (
	"errors"
	"hash/maphash"
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

	// mostFresh is how many resources that have not failed are requested besides in such a
	// period: those that always fail must not keep all others from being requested.
	// maxTried caps the resources of a host that are remembered for it; beyond it, all of
	// them are forgotten.
	mostFresh = 8
	maxTried  = 1024

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
	fresh int       // requests allowed until then for resources that have not failed
	seed  maphash.Seed
	tried map[uint64]bool // resources that failed, by the hash of the URI; nil: none
}

// broke records that the body of uri was not complete, and reports whether another attempt is
// useless.
func (b *breaks) broke(uri string, err *BodyError) (over bool) {
	switch {
	case err.Got >= leastPart:
		return false
	case errors.Is(err.Err, ErrTooSlow), errors.Is(err.Err, ErrTimeout):
		return b.silent(uri, err.Err)
	}
	return err.Retryable() && b.add(uri, err.Err, 1) >= fewBreaks
}

// silent records that a request for uri failed with err, and reports whether another attempt
// is useless. Only silence, and bodies that are too slow, count.
func (b *breaks) silent(uri string, err error) (over bool) {
	if !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrTooSlow) {
		return false
	}
	b.add(uri, err, silenceWeight)
	return b.pass(uri, false) != nil
}

// add adds to the count, and returns it.
func (b *breaks) add(uri string, err error, weight int) int {
	if b.off {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.count == 0 {
		b.since = now
	}
	if b.tried == nil || len(b.tried) >= maxTried {
		b.seed, b.tried = maphash.MakeSeed(), make(map[uint64]bool)
	}
	b.tried[maphash.String(b.seed, uri)] = true
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

// pass returns an error if uri must not be requested now. send says that it is requested
// otherwise.
func (b *breaks) pass(uri string, send bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next.IsZero() {
		return nil
	}
	switch now := time.Now(); {
	case !now.Before(b.next):
		if send {
			b.next, b.fresh = now.Add(b.patience), mostFresh
		}
	case b.fresh == 0 || b.tried[maphash.String(b.seed, uri)]:
		return &HostError{Host: b.host, Since: b.since, Err: errBroken{b.last}}
	case send:
		b.fresh--
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
