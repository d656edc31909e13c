package follow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

const (
	// idleBefore is how long the worker is idle before documents of little urgency
	// are saved.
	idleBefore = 50 * time.Millisecond

	// pauseMost is the longest wait before a failure is retried.
	pauseMost = time.Minute

	// A failure to write the mirror ends a Follower after this time and number of
	// attempts.
	failsFor  = time.Minute
	failsMost = 5
)

// ErrTurn is the cause of a context that ends the work for a set when it is
// another set's turn.
var ErrTurn = fmt.Errorf("%w: it is another set's turn", context.Canceled)

// work does one job after another, with the sets taking turns.
func (f *Follower) work(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := false
	for {
		if ctx.Err() != nil {
			return nil
		}
		j, wait := f.reg.next(time.Now())
		if j != nil {
			idle = false
			if err := f.do(ctx, j); err != nil {
				return err
			}
			continue
		}
		if idle {
			if err := f.opts.Journal.Flush(ctx); err != nil && ctx.Err() == nil {
				f.opts.Log.WarnContext(ctx, "record progress", slog.Any("err", err)) // it is still pending
			}
		} else {
			wait = min(wait, idleBefore)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-f.reg.wake:
			idle = false
		case <-timer.C:
			idle = true
		}
	}
}

// do runs a job. If it takes long and other sets wait, it is interrupted.
func (f *Follower) do(ctx context.Context, j *job) error {
	work, done := f.turn(ctx, j.push)
	defer done()
	if work.Err() != nil {
		return nil
	}
	if j.set == nil {
		return f.look(ctx, work)
	}
	own, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	turn := max(j.set.turn, f.turnFor)
	var alarm *time.Timer
	alarm = time.AfterFunc(turn, func() {
		if f.reg.othersWait(j.set) {
			cancel(ErrTurn)
			return
		}
		alarm.Reset(time.Second)
	})
	defer alarm.Stop()
	if j.push {
		return f.push(own, j.set)
	}
	return f.pull(own, j.set)
}

// turn waits until a piece of work may begin.
func (f *Follower) turn(ctx context.Context, urgent bool) (context.Context, func()) {
	if f.opts.Turn == nil {
		return ctx, func() {}
	}
	return f.opts.Turn(ctx, Work{Urgent: urgent, Received: f.opts.Client.Bytes})
}

// longer returns the next pause after an unsuccessful one, and a random wait around
// it, so that several Destinations do not retry at the same time.
func (o *Options) longer(pause time.Duration) (next, wait time.Duration) {
	if pause == 0 {
		next = o.Pause
	} else {
		next = min(2*pause, max(cmp.Or(o.PauseMost, pauseMost), o.Pause))
	}
	return next, next*4/5 + rand.N(next*2/5+1)
}

// judge decides how the result of a pass over a set affects the Follower.
func (f *Follower) judge(p *Pass) error {
	switch {
	case p.Err == nil, p.isIncomplete():
		if f.reg.written(true) {
			f.mirror.InStep()
		}
		return nil
	case p.isRefused():
		return nil // the set is left unchanged and retried
	case p.isUndelivered():
		return nil // changes that were not accepted are sent again
	}
	return f.reg.broken(p.Err)
}

// broken records that the mirror, or its Journal, cannot be written. It returns err
// if that has lasted too long. It locks mu.
func (r *registry) broken(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.failing.IsZero() {
		r.failing = now
	}
	r.trouble, r.hint = fetch.Printable(err.Error()), report.HintOf(err)
	if r.fails++; r.fails >= failsMost && now.Sub(r.failing) >= failsFor {
		return err
	}
	return nil
}

// written records that the mirror can be written. After a pass over a set it
// reports whether all sets have been pulled. It locks mu.
func (r *registry) written(pass bool) (allPulled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failing.IsZero() && r.misses == 0 {
		r.trouble, r.hint = "", "" // of broken: no look has failed
	}
	r.failing, r.fails = time.Time{}, 0
	if !pass || r.unread {
		return false
	}
	for _, s := range r.sets {
		if !s.pulled {
			return false
		}
	}
	r.synced = r.synced || haveBeenRead(r.sets)
	return true
}

// haveBeenRead reports whether all sets have been in step since Run began, apart from single
// resources that failed.
func haveBeenRead(sets []*set) bool {
	return !slices.ContainsFunc(sets, func(s *set) bool { return !s.read })
}
