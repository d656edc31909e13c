package fetch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/fetch/concurrency"
	"lockstep/internal/fetch/shown"
	"lockstep/internal/sleep"
)

const (
	// MaxRetryAfter caps the total delay of one request by Retry-After headers. If
	// a server requests more, there is no retry: the request has failed, see
	// [NotBefore].
	MaxRetryAfter = time.Minute

	// maxSilences is how many attempts of one request may end in silence, each of
	// which takes Options.Timeout.
	maxSilences = 2

	// shutMisses is the number of requests with a long Retry-After, with only failures in
	// between, after which it applies to all requests to the host. Of other failures it says
	// nothing: some resources may always fail.
	shutMisses = 8

	// unsaidPause is the pause after too many requests to a host that does not
	// state one.
	unsaidPause = time.Second

	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// A failure describes why a request is repeated.
type failure struct {
	err  error
	host *host
	well bool // the host answers nearly everything: it was chance
	over bool // further attempts are useless
}

// booked records that the request of uri failed with err, and reduces the
// number of requests to its host if necessary.
func (c *Client) booked(uri string, err error) failure {
	f := failure{err: err, host: c.hosts.get(HostOf(uri))}
	s := &f.host.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.As(err, new(*HostError)) {
		return f // no request was sent
	}
	now := time.Now()
	s.misses++
	var status *StatusError
	switch {
	case errors.As(err, &status):
		cost := concurrency.CostStatus
		if status.RetryAfter > 0 {
			cost = concurrency.CostAsked
		}
		// A resource that always answers 429 must not stop a healthy host.
		often := status.Status == http.StatusTooManyRequests && (s.misses > 1 || !s.adapter.Well())
		strained := s.adapter.Failed(now, cost, often)
		switch {
		case !status.NotBefore.IsZero():
			if s.waits++; s.waits >= shutMisses {
				f.host.gate.shut(status, status.NotBefore, true)
			}
		case strained && (status.RetryAfter > 0 || often): // it applies to all requests to the host
			if f.over = f.host.putOff(now, status.RetryAfter, c.opts.Retries); f.over {
				f.host.gate.shut(status, now.Add(max(status.RetryAfter, maxBackoff)), false)
			}
		}
		if retryStatus(status.Status) && status.Status != http.StatusTooManyRequests && status.RetryAfter == 0 {
			f.over = f.host.gate.missed(err) || f.over
		}
	default:
		silent := errors.Is(err, ErrTimeout)
		s.adapter.Failed(now, concurrency.CostBroken, silent && !s.adapter.Well())
		f.over = f.host.gate.missed(err)
		if _, answered := errors.AsType[*BodyError](err); !answered && s.misses&(s.misses-1) == 0 {
			c.Close() // idle connections may occupy the only ones that the server accepts
		}
	}
	f.well = s.adapter.Well()
	return f
}

// attempts counts the attempts of one request.
type attempts struct {
	tries  int
	silent int           // of them, those that ended in silence
	waited time.Duration // because of Retry-After
}

// helps reports whether another attempt after f may help without delaying the run
// too much.
func (a *attempts) helps(c *Client, r *Request, f *failure) bool {
	if errors.Is(f.err, ErrTimeout) {
		a.silent++
	}
	if r.Once || a.tries > c.opts.Retries || a.silent >= maxSilences || f.over || errors.Is(f.err, ErrTooSlow) {
		return false
	}
	if status, ok := errors.AsType[*StatusError](f.err); ok {
		if a.waited += status.RetryAfter; a.waited > MaxRetryAfter {
			return false
		}
	}
	return true
}

// putOff delays all requests to h for that long; zero means an unspecified
// pause, which doubles. It reports whether h did this so often in a row that it
// is useless. The caller holds the lock of the slots.
func (h *host) putOff(now time.Time, after time.Duration, retries int) (over bool) {
	s := &h.slots
	most := max(retries, 1)
	if after == 0 {
		after = min(unsaidPause<<min(s.pauses, 16), maxBackoff)
		most *= 2
	}
	if h.rate.Paused() == 0 {
		if s.pauses >= most {
			return true
		}
		s.pauses++
	}
	h.rate.Pause(now.Add(min(after, MaxRetryAfter)))
	return false
}

// pauseBefore waits before the next attempt.
func (c *Client) pauseBefore(ctx context.Context, tries int, f failure) error {
	d := backoff(tries)
	if f.well {
		d = soon(tries)
	}
	var status *StatusError
	if errors.As(f.err, &status) && status.RetryAfter > 0 {
		d = max(d, min(status.RetryAfter, MaxRetryAfter))
	}
	if lg := c.opts.Logger; lg.Enabled(ctx, slog.LevelDebug) {
		uri, cause := causeOf(f.err)
		lg.DebugContext(ctx, "try again", slog.String("uri", shown.Redacted(uri)), slog.Int("attempt", tries), slog.Duration("dur", d), slog.String("err", Printable(cause.Error())))
	}
	return sleep.For(ctx, d)
}

// causeOf returns the URI of a failed request, and why it failed: unlike err, its text has no
// URI, which may contain secrets.
func causeOf(err error) (uri string, cause error) {
	if body, ok := errors.AsType[*BodyError](err); ok {
		return body.URI, body.Err
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.URI, failed.Err
	}
	return "", err // unreachable: one of these is repeated
}

// soon is backoff for a failure that was chance; but the last attempts are
// reserved for the case that it was not.
func soon(n int) time.Duration {
	d := chanceBackoff[min(n, len(chanceBackoff))-1]
	return d - rand.N(d/2)
}

var chanceBackoff = [...]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 2 * time.Second}

// backoff returns the wait after attempt number n: doubling, capped, and
// randomly reduced by up to half, to spread retries.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n-1, 16), maxBackoff)
	return d - rand.N(d/2)
}

// retryAfter parses a Retry-After header, seconds or a date, up to MaxDeferral;
// zero if absent.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(n, uint64(MaxDeferral/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return MaxDeferral
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return min(t.Sub(now), MaxDeferral)
	}
	return 0
}
