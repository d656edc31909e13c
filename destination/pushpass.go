package destination

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/internal/fetch"
)

// pushTo processes messages of a set.
func (f *Follower) pushTo(ctx context.Context, s *followed) error {
	f.mu.Lock()
	f.limitBacklog(s, time.Now())
	if len(s.queue) == 0 {
		f.mu.Unlock()
		return nil
	}
	n, size := 0, int64(0)
	for n < len(s.queue) && n < passMessages && (n == 0 || size+s.queue[n].Size <= passBytes) {
		size += s.queue[n].Size
		n++
	}
	ms := slices.Clone(s.queue[:n])
	s.busy = n
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		s.busy = 0
		f.mu.Unlock()
	}()
	var out pushed
	var st *setState
	r, err := f.pass(ctx, func(ses *session) error {
		loaded := make([]*inbox.Message, n)
		for i, m := range ms {
			body, err := f.inbox.Body(ctx, m)
			if err != nil {
				return err
			}
			own := *m
			own.Body, loaded[i] = body, &own
		}
		var err error
		if st, err = f.stateOf(ctx, ses, s); err != nil {
			return err
		}
		ses.report.Sets = []string{s.uri}
		out, err = ses.push(ctx, st, &s.up, loaded, time.Now())
		ses.until(st)
		if err == nil {
			err = inbox.PutAside(context.WithoutCancel(ctx), f.journal, s.uri, out.aside, out.docs)
		}
		return err
	})
	if ctx.Err() != nil && err != nil && !errors.Is(err, ErrIncomplete) {
		f.interrupted(ctx, s)
		return nil
	}
	done := err == nil || errors.Is(err, ErrIncomplete)
	if done {
		f.inbox.Remove(ms, out.docs)
		f.journal.Later(out.docs)
	}
	f.mu.Lock()
	now := time.Now()
	if done {
		f.processed(s, ms, &out, st, now)
	} else {
		var wait time.Duration
		s.pause, wait = f.longer(s.pause)
		s.again, s.status.Error = now.Add(wait), fetch.Printable(err.Error())
	}
	f.mu.Unlock()
	if out.refusal != nil && err == nil {
		err = out.refusal
	}
	f.tell(&r, err)
	return f.judge(s, err)
}

// processed records messages that were processed. The caller holds mu.
func (f *Follower) processed(s *followed, ms []*inbox.Message, out *pushed, st *setState, now time.Time) {
	s.queue, s.busy = slices.Delete(s.queue, 0, len(ms)), 0
	for _, m := range ms {
		s.queued -= m.Weight()
		if m.EventID != "" {
			s.resume.stream, s.resume.event = m.Stream, m.EventID
		}
	}
	s.again, s.turn = time.Time{}, 0
	s.status.Applied += out.applied
	s.status.Gaps += out.gaps
	s.status.Duplicates += out.duplicate
	s.status.Quarantined += int64(len(out.aside))
	s.status.Watermark = st.syncedUntil()
	s.status.Pending += out.pending
	if !out.newest.IsZero() {
		s.status.Lag = max(now.Sub(out.newest), 0)
	}
	if s.changed == nil {
		s.changed = push.Overtaken{}
	}
	s.changed.Processed(out.news, out.stale, now)
	if out.lookAgain != "" || len(s.changed) >= push.MaxOvertaken {
		f.ask(s, now)
	}
	if st.push.IsFull() { // more cannot be remembered
		f.ask(s, now)
	}
}
