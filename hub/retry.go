package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/hub/internal/timing"
)

// settle records the result of the attempt to deliver e to s. The caller holds
// h.mu.
func (h *Hub) settle(s *subscription, e *entry, out outcome) {
	if s.stage == gone || out.ended {
		return
	}
	h.reached(s.host, out)
	switch {
	case out.took >= slowAfter:
		s.slow = slowFor
	case s.slow > 0:
		s.slow--
	}
	p := &s.Progress
	switch {
	case out.status/100 == 2:
		h.tally.deliver(len(e.Body), out.took)
		p.Attempts, p.Next, p.Failing, p.LastError = 0, time.Time{}, time.Time{}, ""
		p.Taken++
		p.LastTaken = h.now()
		if !s.moved {
			p.Cursor = max(p.Cursor, e.Seq)
		}
		h.note(s)
	case out.status == http.StatusGone: // WS-C-07
		h.tally.end()
		h.finish(s)
	default:
		h.tally.fail()
		h.fail(s, e, out)
	}
}

// fail records a failed attempt: when the next is made, and whether the message
// has waited too long.
func (h *Hub) fail(s *subscription, e *entry, out outcome) {
	p, now := &s.Progress, h.now()
	p.LastError = out.String()
	if p.Failing.IsZero() {
		p.Failing = now
	}
	p.Attempts++
	p.Next = now.Add(h.wait(p.Attempts, out.retryAfter))
	limit := now.Add(-h.opts.RetryFor)
	if !p.Failing.After(limit) && !e.At.After(limit) {
		h.skip(s, e.Seq)
	}
	h.giveUp(s, p.Failing, limit)
	h.note(s)
	h.hurry()
}

// giveUp skips the messages that were accepted before limit, which is RetryFor
// ago, if the endpoint has failed since then (WS-C-10). For messages that waited
// for another reason, such as downtime of the hub, the time counts from the
// first failure.
func (h *Hub) giveUp(s *subscription, failing, limit time.Time) {
	if !failing.IsZero() && !failing.After(limit) {
		h.skip(s, min(s.log.ages.before(limit), s.log.last))
	}
}

// wait returns how long to wait after that many failed attempts (WS-C-09).
func (h *Hub) wait(attempts int, retryAfter time.Duration) time.Duration {
	d := h.opts.RetryFirst
	for ; attempts > 1 && d < h.opts.RetryMost; attempts-- {
		d *= 2
	}
	return max(timing.Jitter(min(d, h.opts.RetryMost)), min(retryAfter, h.opts.RetryMost))
}

// reached records whether a connection to a host could be made. After several
// failures in a row, all deliveries to the host pause.
func (h *Hub) reached(x *host, out outcome) {
	if out.late {
		return // whatever the reason
	}
	if _, failed := errors.AsType[*dialError](out.err); !failed {
		if x.down > 0 {
			x.down, x.since = 0, time.Time{}
			x.offer()
		}
		return
	}
	if x.down++; x.down == 1 {
		x.since = h.now()
	}
	if x.down >= breakerAfter && !x.shut {
		x.shut = true
		h.ring(&x.alarm, h.now().Add(h.wait(x.down-breakerAfter+1, 0)))
	}
}

// resume moves s to its next stage. The caller holds h.mu; no delivery to s is
// under way, and s is in no queue.
func (h *Hub) resume(s *subscription) {
	switch {
	case s.stage == gone:
	case h.now().Before(s.Progress.Next):
		h.rest(s, s.Progress.Next)
	case s.Progress.Cursor < s.log.last:
		h.enqueue(s)
	default:
		s.log.list(s)
	}
}

// rest makes s wait until a time.
func (h *Hub) rest(s *subscription, until time.Time) {
	if s.stage == gone {
		return
	}
	s.stage = waiting
	if s.Expires.Before(until) {
		until = s.Expires
	}
	h.ring(&s.alarm, until)
}

// enqueue makes s wait for its turn.
func (h *Hub) enqueue(s *subscription) {
	s.stage = queued
	q := &s.host.queues[fast]
	if s.slow > 0 {
		q = &s.host.queues[slow]
	}
	q.ready.push(s)
	q.offer()
}

// String describes the failure, without the address.
func (o outcome) String() string {
	if o.err != nil {
		return o.err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("answered %d %s", o.status, http.StatusText(o.status)))
}

// retryAfter returns the wait that the header field requests; 0 if it is
// missing or not understood.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // on overflow n is the largest possible value
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
