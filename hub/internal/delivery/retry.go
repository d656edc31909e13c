package delivery

import (
	"errors"
	"net/http"
	"time"

	"lockstep/hub/internal/client"
	"lockstep/hub/internal/post"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
)

// A retryPolicy has the waits between failed attempts: see [Options].
type retryPolicy struct{ first, most, patience time.Duration }

// wait returns how long to wait after that many failed attempts (WS-C-09).
func (p retryPolicy) wait(attempts int, retryAfter time.Duration) time.Duration {
	d := p.first
	for ; attempts > 1 && d < p.most; attempts-- {
		d *= 2
	}
	return max(timing.Jitter(min(d, p.most)), min(retryAfter, p.most))
}

// outcomes records the results of attempts. The lock of the registry guards what
// it changes: callers hold it.
type outcomes struct {
	scheduler *scheduler
	progress  *progressSaver
	alarms    *alarmClock
	retry     retryPolicy
	tally     *tally.Tally
	now       func() time.Time
}

// An outcome is the result of an attempt, and what the deliverer knows of it.
type outcome struct {
	post.Result
	took  time.Duration
	late  bool // it took too long
	ended bool // the hub is shutting down: the result says nothing about the endpoint
}

// settle records the result of the attempt to deliver e to s.
func (o *outcomes) settle(s *subscription, e *entry, out outcome) {
	if s.stage == gone || out.ended {
		return
	}
	o.reached(s.host, out)
	switch {
	case out.took >= slowAfter:
		s.slow = slowFor
	case s.slow > 0:
		s.slow--
	}
	p := &s.Progress
	switch {
	case out.Status/100 == 2:
		o.tally.Deliver(len(e.Body), out.took)
		p.Attempts, p.Next, p.Failing, p.LastError = 0, time.Time{}, time.Time{}, ""
		p.Taken++
		p.LastTaken = o.now()
		if !s.moved {
			p.Cursor = max(p.Cursor, e.Seq)
		}
		o.progress.note(s)
	case out.Status == http.StatusGone: // WS-C-07
		o.tally.End()
		o.progress.finish(s)
	default:
		o.tally.Fail()
		o.fail(s, e, out)
	}
}

// fail records a failed attempt: when the next is made, and whether the message
// has waited too long.
func (o *outcomes) fail(s *subscription, e *entry, out outcome) {
	p, now := &s.Progress, o.now()
	p.LastError = out.String()
	if p.Failing.IsZero() {
		p.Failing = now
	}
	p.Attempts++
	p.Next = now.Add(o.retry.wait(p.Attempts, out.RetryAfter))
	limit := now.Add(-o.retry.patience)
	if !p.Failing.After(limit) && !e.At.After(limit) {
		o.skip(s, e.Seq)
	}
	o.giveUp(s, p.Failing, limit)
	o.progress.note(s)
	o.progress.hurry()
}

// giveUp skips the messages that were accepted before limit, which is RetryFor
// ago, if the endpoint has failed since then (WS-C-10). For messages that waited
// for another reason, such as downtime of the hub, the time counts from the
// first failure.
func (o *outcomes) giveUp(s *subscription, failing, limit time.Time) {
	if !failing.IsZero() && !failing.After(limit) {
		o.skip(s, min(s.log.ages.before(limit), s.log.last))
	}
}

// skip gives up the messages up to upto: they are forgotten, or have waited too
// long.
func (o *outcomes) skip(s *subscription, upto int64) {
	if n := upto - s.Progress.Cursor; n > 0 {
		s.Progress.Cursor = upto
		s.Progress.GivenUp += n
		o.tally.GiveUp(n)
		o.progress.note(s)
	}
}

// expire ends a subscription whose lease has expired (WS-L-01).
func (o *outcomes) expire(s *subscription) {
	o.tally.Expire()
	o.progress.finish(s)
}

// reached records whether a connection to a host could be made. After several
// failures in a row, all deliveries to the host pause.
func (o *outcomes) reached(x *host, out outcome) {
	if out.late {
		return // whatever the reason
	}
	if _, failed := errors.AsType[*client.DialError](out.Err); !failed {
		if x.down > 0 {
			x.down, x.since = 0, time.Time{}
			x.offer()
		}
		return
	}
	if x.down++; x.down == 1 {
		x.since = o.now()
	}
	if x.down >= breakerAfter && !x.shut {
		x.shut = true
		o.alarms.ring(&x.alarm, o.now().Add(o.retry.wait(x.down-breakerAfter+1, 0)))
	}
}
