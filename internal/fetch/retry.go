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
)

const (
	// MaxRetryAfter caps how long a server may put off one request, with all
	// its Retry-After headers together. One that asks for more is not asked again:
	// the request has failed, see [NotBefore].
	MaxRetryAfter = time.Minute

	// maxSilences is how many tries of one request may end in silence, each of
	// which takes Options.Timeout.
	maxSilences = 2

	// shutMisses is how many failures in a row make a host's request for a long
	// pause one for all its resources.
	shutMisses = 8

	// unsaidPause is how long a host is left alone that is asked too often and
	// does not say for how long.
	unsaidPause = time.Second

	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// A failure is why something is asked for again.
type failure struct {
	err  error
	host *host
	well bool // the host answers nearly everything: it was chance
	over bool // nothing is to be hoped of the host
}

// booked books that the answer of uri failed with err, so that its host is
// asked less if there is reason to.
func (c *Client) booked(uri string, err error) failure {
	f := failure{err: err, host: c.hosts.get(HostOf(uri))}
	s := &f.host.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.As(err, new(*HostError)) {
		return f // it was not asked
	}
	now := time.Now()
	s.misses++
	var status *StatusError
	switch {
	case errors.As(err, &status):
		cost := costStatus
		if status.RetryAfter > 0 {
			cost = costAsked
		}
		// A resource that always answers 429 must not stop a host that is well.
		often := status.Status == http.StatusTooManyRequests && (s.misses > 1 || !s.well())
		strained := s.failed(now, cost, often)
		switch {
		case !status.NotBefore.IsZero():
			if s.misses >= shutMisses {
				f.host.gate.shut(status, status.NotBefore, true)
			}
		case strained && (status.RetryAfter > 0 || often): // all who ask that host are meant
			if f.over = f.host.putOff(now, status.RetryAfter, c.opts.Retries); f.over {
				f.host.gate.shut(status, now.Add(max(status.RetryAfter, maxBackoff)), false)
			}
		}
		if retryStatus(status.Status) && status.Status != http.StatusTooManyRequests && status.RetryAfter == 0 {
			f.over = f.host.gate.missed(err) || f.over
		}
	default:
		silent := errors.Is(err, ErrTimeout)
		s.failed(now, costBroken, silent && !s.well())
		f.over = f.host.gate.missed(err)
	}
	f.well = s.well()
	return f
}

// attempts counts what was done to get one thing.
type attempts struct {
	tries  int
	silent int           // of them those that ended in silence
	waited time.Duration // because of Retry-After
}

// helps reports whether to try again after f may help, and is not asking too much
// of those who wait for the end of the run.
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

// putOff lets nobody ask h for so long; zero is not said how long, and doubles.
// It reports whether h did nothing else so often that it is of no use any more.
// The lock of the slots is held.
func (h *host) putOff(now time.Time, after time.Duration, retries int) (over bool) {
	s := &h.slots
	most := max(retries, 1)
	if after == 0 {
		after = min(unsaidPause<<min(s.pauses, 16), maxBackoff)
		most *= 2
	}
	if h.rate.paused() == 0 {
		if s.pauses >= most {
			return true
		}
		s.pauses++
	}
	h.rate.pause(now.Add(min(after, MaxRetryAfter)))
	return false
}

// pauseBefore waits before the next try.
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
		lg.DebugContext(ctx, "try again", slog.Int("attempt", tries), slog.Duration("dur", d), slog.String("err", f.err.Error()))
	}
	return sleep(ctx, d)
}

// soon is backoff where what failed was chance; but the last tries are kept
// for when it was not.
func soon(n int) time.Duration {
	d := chanceBackoff[min(n, len(chanceBackoff))-1]
	return d - rand.N(d/2)
}

var chanceBackoff = [...]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 2 * time.Second}

// backoff returns how long to wait after try number n: doubling, capped, and
// less by up to half at random, so that many do not come back at once.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n-1, 16), maxBackoff)
	return d - rand.N(d/2)
}

// retryAfter reads a Retry-After header, seconds or a date, of up to MaxDeferral;
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
