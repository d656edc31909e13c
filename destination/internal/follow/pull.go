package follow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// pull brings one set into step by the Source's documents.
func (f *Follower) pull(ctx context.Context, s *set) error {
	start := time.Now()
	r := f.reg
	r.mu.Lock()
	routine := s.pulled && !s.asked
	s.asked, s.waiting = false, false // requests from now on are for later changes
	clear(s.changed)
	req := r.pullRequest(s)
	r.mu.Unlock()
	p := f.mirror.Pull(ctx, s.uri, req)
	if ctx.Err() != nil && p.Err != nil {
		f.interrupted(ctx, s)
		return nil
	}
	r.mu.Lock()
	now := time.Now()
	f.recordPull(ctx, s, &p, start, now)
	if !s.isLive() {
		r.adapt(s, &p, routine)
	}
	r.planNext(s, &p, now)
	s.pulled = s.pulled || p.Err == nil || p.isIncomplete()
	s.read = s.read || p.Err == nil || p.isIncomplete() && !p.Unread
	r.synced = r.synced || !r.unread && haveBeenRead(r.sets)
	if routine && p.applied() > 0 {
		f.channels.remind(ctx, s, now)
	}
	r.mu.Unlock()
	f.notify(&p)
	f.passed()
	return f.judge(&p)
}

// pullRequest returns the parameters for a pull of the set.
func (r *registry) pullRequest(s *set) PullRequest {
	req := PullRequest{Name: s.name, Overload: func() *Overload { return r.unreported(s) }}
	req.Ask = func(uri string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if o := r.find(uri); o != nil {
			r.ask(o, time.Now())
		}
	}
	for _, o := range r.sets {
		if o != s && !o.pulled {
			req.All = nil
			break
		}
		req.All = append(req.All, o.uri)
	}
	return req
}

// recordPull records the result of a pull. The caller holds the registry's mu.
func (f *Follower) recordPull(ctx context.Context, s *set, p *Pass, start, now time.Time) {
	s.last, s.took = now, now.Sub(start)
	st := &s.status
	st.Pulls++
	st.Pulled, st.Error, st.Hint, s.turn = now, "", "", 0
	st.Pending, st.Refused = p.Report.Pending, ""
	if st.Complete = p.Report.Complete; !slices.Equal(st.Unproven, p.Report.Unproven) {
		was := st.Unproven
		st.Unproven = p.Report.Unproven
		for _, u := range p.Report.Unproven {
			if !u.IsFailure() && !slices.ContainsFunc(was, u.Repeats) {
				f.opts.Log.WarnContext(ctx, "the mirror is not known to be complete", slog.String("set", s.name), slog.String("because", u.String()))
			}
		}
	}
	if p.Err != nil {
		st.Error, st.Hint = fetch.Printable(p.Err.Error()), report.HintOf(p.Err)
		if st.Attempts++; st.FailingSince.IsZero() {
			st.FailingSince = now
		}
	} else {
		st.InStep, st.FailingSince, st.Attempts = now, time.Time{}, 0
	}
	if s.refused = p.isRefused(); s.refused {
		st.Refused = st.Error
	}
	s.unread = p.Unread && p.isIncomplete()
	if s.idlePulls++; p.hasSynced() || p.Err != nil {
		s.idlePulls = 0
	}
	if p.State.Push != nil {
		st.Watermark = p.State.Watermark
	}
	f.reg.pausePush(s, p.State.Push, now)
	if p.Err == nil {
		f.reg.endOverload(s, start, now)
	}
}

// planNext schedules the next pull of the set.
func (r *registry) planNext(s *set, p *Pass, now time.Time) {
	behind := p.Err != nil || p.State.Push != nil && p.State.Push.HasGap()
	wait := r.interval(s)
	if r.opts.PollMost > r.opts.Poll {
		wait -= rand.N(wait/20 + 1) // Sources that were pulled at the same time are so no more
	}
	if s.overload != nil && s.overload.Over {
		wait = min(max(wait, 10*s.took), r.opts.Check)
	}
	if p.State.Ended {
		wait = max(wait, r.opts.Check) // it states that there will be no more changes
	}
	if p.Report.Pending > 0 {
		wait = min(wait, r.opts.Poll)
	}
	if behind {
		var pause time.Duration
		if s.pause, pause = r.opts.longer(s.pause); p.Unread {
			wait = max(wait, r.opts.PauseMost)
		}
		wait = min(wait, max(pause, 10*s.took)) // a comparison of everything may take long
	} else {
		s.pause = 0
	}
	if !s.asked {
		s.due = now.Add(wait)
		s.asked = behind
	} else if earliest := now.Add(r.distance(s)); s.due.Before(earliest) {
		s.due = earliest
		if s.isOverloaded() {
			s.due = now.Add(min(r.distance(s), r.opts.Poll))
		}
	}
	if patience := p.patience(now); patience > 0 && p.State.Deferred {
		s.due = now.Add(max(wait, patience))
	}
}

// interrupted records that the work for a set was interrupted.
func (f *Follower) interrupted(ctx context.Context, s *set) {
	if !errors.Is(context.Cause(ctx), ErrTurn) {
		return
	}
	f.reg.mu.Lock()
	defer f.reg.mu.Unlock()
	s.turn = 2 * max(s.turn, f.turnFor)
	s.due, s.asked = time.Now(), true
}
