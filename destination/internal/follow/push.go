package follow

import (
	"context"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// passMessages and passBytes limit the messages that are processed together.
const (
	passMessages = 256
	passBytes    = 4 << 20
)

// push processes messages of a set.
func (f *Follower) push(ctx context.Context, s *set) error {
	r := f.reg
	r.mu.Lock()
	r.limitBacklog(s, time.Now())
	if len(s.queue) == 0 {
		r.mu.Unlock()
		return nil
	}
	ms := s.take()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		s.busy = 0
		r.mu.Unlock()
	}()
	out := f.mirror.Push(ctx, s.uri, func(ctx context.Context) ([]*inbox.Message, error) { return f.load(ctx, ms) })
	p := &out.Pass
	if ctx.Err() != nil && p.Err != nil && !p.isIncomplete() {
		f.interrupted(ctx, s)
		return nil
	}
	done := p.Err == nil || p.isIncomplete()
	if done {
		f.inbox.Remove(ms, out.Docs)
		f.opts.Journal.Later(out.Docs)
	}
	r.mu.Lock()
	now := time.Now()
	if done {
		r.processed(s, ms, &out, now)
	} else {
		var wait time.Duration
		s.pause, wait = f.opts.longer(s.pause)
		s.again, s.status.Error, s.status.Hint = now.Add(wait), fetch.Printable(p.Err.Error()), report.HintOf(p.Err)
	}
	r.mu.Unlock()
	if out.Refusal != nil && p.Err == nil {
		p.Err = out.Refusal
	}
	f.notify(p)
	return f.judge(p)
}

// load returns copies of messages with their bodies.
func (f *Follower) load(ctx context.Context, ms []*inbox.Message) ([]*inbox.Message, error) {
	loaded := make([]*inbox.Message, len(ms))
	for i, m := range ms {
		body, err := f.inbox.Body(ctx, m)
		if err != nil {
			return nil, err
		}
		own := *m
		own.Body, loaded[i] = body, &own
	}
	return loaded, nil
}

// processed records messages that were processed.
func (r *registry) processed(s *set, ms []*inbox.Message, out *Pushed, now time.Time) {
	s.queue, s.busy = slices.Delete(s.queue, 0, len(ms)), 0
	for _, m := range ms {
		s.queued -= m.Weight()
		s.processedEvent(m)
	}
	s.again, s.turn = time.Time{}, 0
	st := &s.status
	if st.Attempts == 0 {
		st.Error, st.Hint = "", "" // of messages that could not be processed: no pull has failed
	}
	st.Applied += out.Applied
	st.Gaps += out.Gaps
	st.Duplicates += out.Duplicates
	st.Quarantined += int64(len(out.Aside))
	st.Watermark = out.Pass.State.Watermark
	st.Pending += out.Pending
	if !out.Newest.IsZero() {
		st.Lag = max(now.Sub(out.Newest), 0)
	}
	if s.changed == nil {
		s.changed = push.Overtaken{}
	}
	s.changed.Processed(out.Announced, out.Stale, now)
	if out.LookAgain != "" || len(s.changed) >= push.MaxOvertaken {
		r.ask(s, now)
	}
	if out.Pass.State.Push.IsFull() { // no more events can be remembered
		r.ask(s, now)
	}
}
