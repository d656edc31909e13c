package follow

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// look finds the Source's sets and their channels. Requests for documents end with work,
// the use of the channels with ctx.
func (f *Follower) look(ctx, work context.Context) error {
	l := f.mirror.Look(work)
	if work.Err() != nil {
		return nil
	}
	defer f.passed()
	p := &l.Pass
	f.reg.mu.Lock()
	first := f.reg.looked.IsZero()
	pause := f.reg.pause
	f.reg.mu.Unlock()
	switch {
	case l.Usable:
	case first && l.Impossible:
		f.notify(p)
		return p.Err
	case l.Passing:
		f.reg.lookFailed(p)
		f.notify(p)
		return nil
	default:
		f.reg.lookFailed(p)
		f.notify(p)
		return f.reg.broken(p.Err)
	}
	f.reg.written(false)
	f.adopt(ctx, &l)
	f.reg.looksDone(&l, pause)
	kept := false
	if l.Left {
		d := f.mirror.Dissolve(work)
		f.notify(&d) // a refusal is repeated by the next look
		kept = d.Err != nil
	}
	f.reg.mu.Lock()
	f.reg.kept = kept
	f.reg.mu.Unlock()
	if p.Err != nil {
		f.notify(p)
	}
	return nil
}

// looksDone records the reasons that a look has left unproven. If some sets could
// not be read, it schedules a retry with growing pauses; the last pause was pause.
// It locks mu.
func (r *registry) looksDone(l *Look, pause time.Duration) {
	r.mu.Lock()
	r.unproven = slices.DeleteFunc(slices.Clone(l.Pass.Report.Unproven), func(u report.Unproven) bool { return u.IsFailure() })
	if r.unread = l.Pass.Err != nil; r.unread {
		r.pause = pause
	} else {
		r.unfound, r.misses = time.Time{}, 0
	}
	r.mu.Unlock()
	if l.Pass.Err != nil {
		r.lookFailed(&l.Pass)
	}
}

// lookFailed records that a look at the Source failed. It locks mu.
func (r *registry) lookFailed(p *Pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var wait time.Duration
	r.pause, wait = r.opts.longer(r.pause)
	now := time.Now()
	r.lookAt = now.Add(max(wait, p.patience(now)))
	r.trouble, r.hint = fetch.Printable(p.Err.Error()), report.HintOf(p.Err)
	if r.misses++; r.unfound.IsZero() {
		r.unfound = now
	}
}

// adopt stores the sets that were found, and connects those that are new or have
// other channels.
func (f *Follower) adopt(ctx context.Context, l *Look) {
	now := time.Now()
	r := f.reg
	overloads := loadOverloads(ctx, f.opts.Journal, l.Sets)
	r.mu.Lock()
	r.looked, r.pause, r.trouble, r.hint = now, 0, "", ""
	r.lookAt = now.Add(max(f.opts.Check, f.opts.Poll)) // earlier, if a set is due earlier
	var changed []*set
	for i := range l.Sets {
		found := &l.Sets[i]
		s := r.found(found, overloads[found.URI], now)
		if ch := channelOf(s.offered); s.since.IsZero() || !ch.equal(&s.channel) {
			changed = append(changed, s)
			if !s.pulled && (f.channels.usesHub(&ch) || f.channels.usesStream(&ch)) {
				s.waiting, s.due = true, now.Add(holdFor)
			}
		}
		for _, w := range s.offered.Warnings {
			f.opts.Log.WarnContext(ctx, "read capability list", slog.String("set", s.name), slog.String("warning", w))
		}
	}
	gone := r.removeOthers(l)
	r.mu.Unlock()
	for _, s := range gone {
		f.channels.unwire(ctx, s)
	}
	for _, s := range changed {
		f.channels.wire(ctx, s, channelOf(s.offered))
	}
}

// found stores one set that was found.
func (r *registry) found(found *FoundSet, o *Overload, now time.Time) *set {
	s := r.find(found.URI)
	if s == nil {
		s = &set{uri: found.URI, name: fetch.Printable(found.Name), due: now, overload: o}
		s.queue, r.early[s.uri] = append(s.queue, r.early[s.uri]...), nil
		for _, m := range s.queue {
			s.queued += m.Weight()
		}
		s.status.Notifications = int64(len(s.queue))
		r.sets = append(r.sets, s)
		r.limitBacklog(s, now)
	}
	s.name, s.offered = fetch.Printable(found.Name), found.Offered
	s.status.Watermark = found.State.Watermark
	p := found.State.Push
	r.pausePush(s, p, now)
	if p.Stream != "" && s.resume.stream == "" {
		s.resume.stream, s.resume.event = p.Stream, p.EventID
	}
	return s
}

// removeOthers removes the sets that a look has not found, and their messages.
func (r *registry) removeOthers(l *Look) (gone []*set) {
	for _, s := range r.sets {
		if !slices.ContainsFunc(l.Sets, func(f FoundSet) bool { return f.URI == s.uri }) && !l.Unreadable(s.uri) {
			gone = append(gone, s)
		}
	}
	r.sets = slices.DeleteFunc(r.sets, func(s *set) bool { return slices.Contains(gone, s) })
	docs := map[string][]byte{}
	for _, s := range gone {
		r.inbox.Remove(s.queue, docs)
		docs[overloadName(s.uri)] = nil
	}
	for uri, ms := range r.early {
		r.inbox.Remove(ms, docs)
		delete(r.early, uri)
	}
	if len(docs) > 0 {
		r.journal.Later(docs)
	}
	return gone
}
