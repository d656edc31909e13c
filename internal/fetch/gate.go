package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// gateMisses is how many consecutive requests to a host must fail before the
	// others wait for a successful probe.
	gateMisses = 16
	// maxGateMisses caps that number when probes succeed but requests continue to
	// fail.
	maxGateMisses = 4096

	// GiveUpAfter is how long a host may fail every request and every probe before
	// its remaining requests fail at once; GiveUpTimeouts times Options.Timeout, if
	// that is less. After the same time again a further probe is sent.
	GiveUpAfter    = time.Minute
	GiveUpTimeouts = 3

	firstProbe   = time.Second // between probes; doubles
	mostProbe    = 10 * time.Second
	probeTimeout = 10 * time.Second
)

// A HostError reports a request that was not sent, because its host has failed
// all requests for [GiveUpAfter], or has refused requests until a time.
type HostError struct {
	Host      string
	Since     time.Time // time of the first failure
	NotBefore time.Time // when the next request is allowed according to the host; zero if unknown
	Err       error     // the last failure
}

func (e *HostError) Error() string {
	if !e.NotBefore.IsZero() {
		return fmt.Sprintf("%s asks for no requests before %s: %s", Printable(e.Host), e.NotBefore.UTC().Format(time.RFC3339), Printable(e.Err.Error()))
	}
	return fmt.Sprintf("%s has failed every request since %s: %s", Printable(e.Host), e.Since.UTC().Format(time.RFC3339), Printable(e.Err.Error()))
}

func (e *HostError) Unwrap() error { return e.Err }

// A gate holds back requests to a host that is unavailable. It is open while the
// host answers. After gateMisses consecutive failures, one request at a time
// sends a probe and the others wait; an answer to a probe opens the gate. If no
// probe has succeeded for patience, waiting and later requests fail at once,
// except for a probe from time to time.
type gate struct {
	host     string
	patience time.Duration
	off      bool // always open

	mu      sync.Mutex // guards the rest
	misses  int        // failures since the last answer
	most    int        // misses that require a probe; 0: gateMisses
	first   time.Time  // first of the misses
	last    error
	down    bool
	probing bool
	next    time.Time     // of the next probe
	pause   time.Duration // between probes
	closed  *HostError    // error of all requests; nil: they wait
	until   time.Time     // while closed
	changed chan struct{} // closed when the state changes; nil: no request is waiting
}

// pass waits until a request to u is allowed. probe sends a probe and reports
// whether the host answered it.
func (g *gate) pass(ctx context.Context, probe func(context.Context) error) error {
	for {
		g.mu.Lock()
		now := time.Now()
		switch {
		case g.closed != nil && now.Before(g.until):
			err := g.closed
			g.mu.Unlock()
			return err
		case !g.down:
			g.closed = nil // it has expired
			g.mu.Unlock()
			return nil
		case !g.probing && !now.Before(g.next):
			g.probing = true
			g.mu.Unlock()
			err := probe(ctx)
			g.probed(ctx, err)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		wait := mostProbe
		if !g.probing {
			wait = g.next.Sub(now)
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// probed records the result of a probe.
func (g *gate) probed(ctx context.Context, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.broadcast()
	g.probing = false
	if ctx.Err() != nil {
		return // the next probe decides
	}
	if err == nil {
		// The host is available. Further failures concern individual resources.
		g.down, g.closed, g.misses = false, nil, 0
		g.most = min(2*max(g.most, gateMisses), maxGateMisses)
		return
	}
	now := time.Now()
	g.last = err
	g.pause = min(max(2*g.pause, firstProbe), mostProbe)
	g.next = now.Add(g.pause)
	if now.Sub(g.first) >= g.patience || g.closed != nil {
		g.close(now.Add(g.patience), time.Time{})
		g.next = g.until
	}
}

// close makes requests fail until a time. The caller holds the lock.
func (g *gate) close(until, notBefore time.Time) {
	g.closed, g.until = &HostError{Host: g.host, Since: g.first, NotBefore: notBefore, Err: g.last}, until
}

// missed records a failure of the host, and reports whether consecutive requests
// have failed though a probe was successful: then another attempt is useless.
func (g *gate) missed(err error) (troubled bool) {
	if g.off {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.misses++; g.misses == 1 {
		g.first = time.Now()
	}
	g.last = err
	if g.misses >= max(g.most, gateMisses) && !g.down {
		g.down, g.next, g.pause = true, time.Now(), 0
		g.closed = nil
		g.broadcast()
	}
	return g.most > 0
}

// answered records an answer of the host.
func (g *gate) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.misses == 0 && !g.down && g.most == 0 {
		return
	}
	g.misses, g.most, g.down = 0, 0, false
	if g.closed != nil && g.closed.NotBefore.IsZero() {
		g.closed = nil
	}
	g.broadcast()
}

// shut makes requests before a time fail, because the host requested it with
// err.
func (g *gate) shut(err error, until time.Time, said bool) {
	if g.off {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil && until.Before(g.until) {
		return
	}
	if g.first.IsZero() {
		g.first = time.Now()
	}
	g.last = err
	notBefore := until
	if !said {
		notBefore = time.Time{}
	}
	g.close(until, notBefore)
	g.broadcast()
}

func (g *gate) broadcast() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// isOpen reports whether requests need not wait.
func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.down && (g.closed == nil || !time.Now().Before(g.until))
}

// idle reports whether no request waits, and none fails without being sent. That the host has failed the last requests
// is forgotten if failing is set.
func (g *gate) idle(failing bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return (failing || !g.down) && !g.probing && g.changed == nil && (g.closed == nil || time.Now().After(g.until))
}

// probe sends a HEAD request for the root of u's host: after any answer the host
// counts as available, unless the answer says that it is temporarily unavailable. It
// has no credentials: it may be sent before it is known whether the Source has https.
func (c *Client) probe(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(c.opts.Timeout, probeTimeout), fmt.Errorf("%w for %s", ErrTimeout, min(c.opts.Timeout, probeTimeout)))
	defer cancel()
	root := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	req := (&http.Request{
		Method: http.MethodHead, URL: root, Host: root.Host, Header: c.plainHead,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	c.requests.Add(1)
	defer c.pool.Done()
	resp, err := c.pool.Use().lanes[laneDocument].RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return plain(err)
	}
	_ = resp.Body.Close() // it has none
	if retryStatus(resp.StatusCode) {
		return &StatusError{URI: root.String(), Status: resp.StatusCode, Header: resp.Header}
	}
	return nil
}

// NotBefore returns the earliest time of another request after err, if the
// server requested a longer wait than [MaxRetryAfter]; otherwise the zero time.
func NotBefore(err error) time.Time {
	if host, ok := errors.AsType[*HostError](err); ok && !host.NotBefore.IsZero() {
		return host.NotBefore
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.NotBefore
	}
	if deferred, ok := errors.AsType[*DeferralError](err); ok {
		return deferred.NotBefore
	}
	return time.Time{}
}

// Passing reports whether err may be temporary: the server failed or was
// unavailable, or a transfer broke off or was too slow.
func Passing(err error) bool {
	if !NotBefore(err).IsZero() {
		return false
	}
	if _, down := errors.AsType[*HostError](err); down || errors.Is(err, ErrTooSlow) {
		return true
	}
	if body, ok := errors.AsType[*BodyError](err); ok {
		return body.Retryable()
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		return retryable(failed.Err)
	}
	return false
}
