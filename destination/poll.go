package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/internal/fetch"
)

// pauseMost is the longest wait before a failure is retried.
const pauseMost = time.Minute

// longer returns the next pause after one that ended without success, and a
// random wait around it: several Destinations should not retry at the same
// time.
func (f *Follower) longer(pause time.Duration) (next, wait time.Duration) {
	if pause == 0 {
		next = f.opts.Pause
	} else {
		next = min(2*pause, max(pauseMost, f.opts.Pause))
	}
	return next, next*4/5 + rand.N(next*2/5+1)
}

// pass calls do with the session, and returns the result.
func (f *Follower) pass(ctx context.Context, do func(s *session) error) (Report, error) {
	d := f.d
	start, requests, bytes := time.Now(), d.client.Requests(), d.client.Bytes()
	report := Report{Source: fetch.WithoutUser(f.address), Destination: d.opts.Dest, Sets: []string{}}
	s := f.session
	var err error
	if s == nil {
		s = &session{d: d}
		s.report = report
		s.out = newOutbox(d.journal, d.deliverer())
		if err = s.open(ctx); err == nil {
			f.session = s
		}
	} else {
		s.report = report
	}
	if err == nil {
		err = deferringDocuments(ctx, s, func() error { return do(s) })
	}
	if err == nil || errors.Is(err, ErrIncomplete) {
		if kerr := endKeeping(ctx, s.keep, &s.report); kerr != nil {
			err = kerr
		}
	}
	s.tellCounts()
	r := s.report
	r.Requests, r.Bytes = d.client.Requests()-requests, d.client.Bytes()-bytes
	r.Elapsed = time.Since(start).Seconds()
	if r.Mode == "" {
		r.Mode = ModeNone
	}
	if err == nil && r.Failed+r.Refused+int64(r.unread) > 0 {
		err = fmt.Errorf("%w: %s", ErrIncomplete, r.shortfall())
	}
	s.settle(&r, err)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		f.forget() // it is unknown what of it is in the Journal
	}
	return r, err
}

// forget makes the next pass read the state again.
func (f *Follower) forget() {
	f.session = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sets {
		s.state = nil
	}
}

// tell passes a report to OnSync.
func (f *Follower) tell(r *Report, err error) {
	if f.opts.OnSync != nil && (err != nil || r.Mode != ModeNone || r.Created+r.Updated+r.Deleted > 0) {
		f.opts.OnSync(*r, err)
	}
}

// look finds the Source's sets and their channels.
func (f *Follower) look(ctx context.Context) error {
	var sets, left []*setState
	source := false // what failed is the Source's
	r, err := f.pass(ctx, func(s *session) (err error) {
		found, changed, err := s.find(ctx, f.address)
		if err != nil {
			source = true
			return err
		}
		if sets, err = s.takeOver(ctx, f.address, found, changed); err != nil {
			return err
		}
		left, err = s.unselected(ctx, sets)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	f.mu.Lock()
	first := f.looked.IsZero()
	f.mu.Unlock()
	var unknown *SetError
	switch {
	case err == nil, errors.Is(err, ErrIncomplete) && len(sets) > 0:
	case first && (errors.Is(err, ErrRefused) || errors.As(err, &unknown) || errors.Is(err, fs.ErrNotExist)): // what the user asked for cannot be
		f.tell(&r, err)
		return err
	case source || errors.As(err, &unknown) || errors.Is(err, ErrRefused) || errors.Is(err, ErrIncomplete) || isDelivery(err):
		f.lookFailed(&r, err)
		f.tell(&r, err)
		return nil
	default:
		f.lookFailed(&r, err)
		f.tell(&r, err)
		return f.broken(err)
	}
	f.written()
	gone := slices.DeleteFunc(slices.Clone(sets), func(st *setState) bool { return f.session.offered(st.URI) != nil })
	left = append(left, gone...) // those the Source has no more, as the user wishes
	sets = slices.DeleteFunc(sets, func(st *setState) bool { return slices.Contains(gone, st) })
	pause := f.pause
	f.adopt(ctx, sets)
	f.setUnproven(&r)
	if f.setUnread(err != nil, pause); err != nil {
		f.lookFailed(&r, err)
	}
	if len(left) > 0 {
		dr, derr := f.dissolve(ctx, left)
		f.tell(&dr, derr) // a refusal is repeated with the next look
	}
	if err != nil {
		f.tell(&r, err)
	}
	return nil
}

// dissolve empties sets that are no longer to be followed.
func (f *Follower) dissolve(ctx context.Context, sets []*setState) (Report, error) {
	return f.pass(ctx, func(s *session) error {
		for _, set := range sets {
			if err := s.syncOne(ctx, set); err != nil {
				return err
			}
		}
		return nil
	})
}

// setUnread notes whether a look found sets that could not be read, which is
// tried again with growing pauses; the last one was pause.
func (f *Follower) setUnread(unread bool, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unread = unread; unread {
		f.pause = pause
	}
}

// lookFailed records that a look at the Source failed.
func (f *Follower) lookFailed(r *Report, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wait time.Duration
	f.pause, wait = f.longer(f.pause)
	now := time.Now()
	f.lookAt = now.Add(max(wait, r.patience(now)))
	f.trouble = fetch.Printable(err.Error())
}

// adopt stores the sets that were found.
func (f *Follower) adopt(ctx context.Context, sets []*setState) {
	now := time.Now()
	overloads := f.loadOverloads(ctx, sets)
	f.mu.Lock()
	f.looked, f.pause, f.trouble = now, 0, ""
	f.lookAt = now.Add(max(f.opts.Check, f.opts.Poll)) // sooner, if a set is to be looked at sooner
	type wiring struct {
		s *followed
		c channel
	}
	var wirings []wiring
	for _, st := range sets {
		s := f.find(st.URI)
		if s == nil {
			s = &followed{uri: st.URI, name: fetch.Printable(st.Name), due: now, overload: overloads[st.URI]}
			s.queue, f.early[st.URI] = append(s.queue, f.early[st.URI]...), nil
			for _, m := range s.queue {
				s.queued += m.Weight()
			}
			s.status.Notifications = int64(len(s.queue))
			f.sets = append(f.sets, s)
			f.limitBacklog(s, now)
		}
		s.name, s.state, s.offered = fetch.Printable(st.Name), st, f.session.offered(st.URI)
		s.status.Watermark = st.syncedUntil()
		f.pausePush(s, st.push, now)
		if st.push.Stream != "" && s.resume.stream == "" {
			s.resume.stream, s.resume.event = st.push.Stream, st.push.EventID
		}
		if c := channelOf(s.offered); s.since.IsZero() || !c.equal(&s.channel) {
			wirings = append(wirings, wiring{s, c})
			byHub := f.sub != nil && c.topic != "" && f.uses(ChannelHub)
			if !s.pulled && (byHub || c.events != "" && f.uses(ChannelEvents)) {
				s.waiting, s.due = true, now.Add(holdFor)
			}
		}
		for _, w := range s.offered.Warnings {
			f.d.log.WarnContext(ctx, "read capability list", slog.String("set", s.name), slog.String("warning", w))
		}
	}
	gone := slices.DeleteFunc(slices.Clone(f.sets), func(s *followed) bool {
		return slices.ContainsFunc(sets, func(st *setState) bool { return st.URI == s.uri })
	})
	gone = slices.DeleteFunc(gone, func(s *followed) bool { // one that could not be read is there still
		o := f.session.offered(s.uri)
		return o != nil && o.Err != nil
	})
	f.sets = slices.DeleteFunc(f.sets, func(s *followed) bool { return slices.Contains(gone, s) })
	docs := map[string][]byte{}
	for _, s := range gone {
		f.inbox.Remove(s.queue, docs)
		docs[overloadName(s.uri)] = nil
	}
	for uri, ms := range f.early {
		f.inbox.Remove(ms, docs)
		delete(f.early, uri)
	}
	f.mu.Unlock()
	if len(docs) > 0 {
		f.journal.Later(docs)
	}
	for _, s := range gone {
		s.wired()
		if f.sub != nil {
			f.run(func() { f.drop(ctx, s) })
		}
	}
	for _, w := range wirings {
		f.wire(ctx, w.s, w.c)
	}
}

// pull brings one set into step by what the Source's documents say.
func (f *Follower) pull(ctx context.Context, s *followed) error {
	start := time.Now()
	f.mu.Lock()
	routine := s.pulled && !s.asked
	s.asked, s.waiting = false, false // requests from now on are for what is still to come
	clear(s.changed)
	f.mu.Unlock()
	r, err := f.pass(ctx, func(ses *session) error {
		st, err := f.stateOf(ctx, ses, s)
		if err != nil {
			return err
		}
		ses.report.Sets = []string{s.uri}
		f.warnOfOverload(ses, s, st)
		ses.d.emit(Event{Kind: EventSet, Set: s.name, Progress: Progress{Set: 1, Sets: 1}})
		if err := ses.knowsOwn(ctx); err != nil {
			return err
		}
		if err := f.checkLocal(ctx, ses); err != nil {
			return err
		}
		err = ses.syncOne(ctx, st)
		ses.until(st)
		if nerr := f.nothingSelected(ses, s); nerr != nil && (err == nil || errors.Is(err, ErrRefused)) {
			err = nerr
		}
		if err == nil && ses.unrepaired > 0 {
			err = fmt.Errorf("%w: %d files of the mirror are damaged and cannot be repaired", ErrIncomplete, ses.unrepaired)
		}
		if err == nil || errors.Is(err, ErrIncomplete) {
			if merr := ses.moveHome(ctx); merr != nil {
				return merr
			}
			if cerr := ses.rest(ctx); cerr != nil {
				return cerr
			}
		}
		if errors.Is(err, ErrRefused) {
			ses.report.fail(st.URI, err.Error())
		}
		return err
	})
	if ctx.Err() != nil && err != nil {
		f.interrupted(ctx, s)
		return nil
	}
	f.mu.Lock()
	now := time.Now()
	s.last, s.took = now, now.Sub(start)
	s.status.Pulls++
	s.status.Pulled, s.status.Error, s.turn = now, "", 0
	s.status.Pending, s.status.Refused = r.Pending, ""
	if s.status.Complete = r.Complete; !slices.Equal(s.status.Unproven, r.Unproven) {
		s.status.Unproven = r.Unproven
		f.logUnproven(ctx, s)
	}
	if err != nil {
		s.status.Error = fetch.Printable(err.Error())
	}
	if s.refused = errors.Is(err, ErrRefused); s.refused {
		s.status.Refused = s.status.Error
	}
	if s.vain++; r.Mode != ModeNone || err != nil {
		s.vain = 0
	}
	behind := err != nil
	if s.state != nil {
		s.status.Watermark = s.state.syncedUntil()
		behind = behind || s.state.push.HasGap()
		f.pausePush(s, s.state.push, now)
	} else {
		f.pausePush(s, nil, now)
	}
	if err == nil {
		f.endOverload(s, start, now, s.status.Watermark)
	}
	wait := f.interval(s)
	if s.overload != nil && s.overload.Over {
		wait = min(max(wait, 10*s.took), f.opts.Check)
	}
	if s.state != nil && s.state.Ended {
		wait = max(wait, f.opts.Check) // it says that nothing new will come
	}
	if r.Pending > 0 {
		wait = min(wait, f.opts.Poll)
	}
	if behind {
		var pause time.Duration
		if s.pause, pause = f.longer(s.pause); pause < wait {
			wait = min(wait, max(pause, 10*s.took)) // a comparison of all may take long
		}
	} else {
		s.pause = 0
	}
	if !s.asked {
		s.due = now.Add(wait)
		s.asked = behind
	} else if earliest := now.Add(f.distance(s)); s.due.Before(earliest) {
		s.due = earliest
		if s.overload != nil && !s.overload.Over {
			s.due = now.Add(min(f.distance(s), f.opts.Poll))
		}
	}
	if patience := r.patience(now); patience > 0 && s.state != nil && isDeferred(f.d.client, s.state) {
		s.due = now.Add(max(wait, patience))
	}
	done := err == nil || errors.Is(err, ErrIncomplete)
	s.pulled = s.pulled || done
	if routine && r.Created+r.Updated+r.Deleted > 0 {
		f.remind(ctx, s, now)
	}
	f.mu.Unlock()
	f.tell(&r, err)
	return f.judge(s, err)
}

// nothingSelected is that of all sets that are followed, if each was looked at;
// now is the one that was looked at last.
func (f *Follower) nothingSelected(ses *session, now *followed) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	sets := make([]*setState, 0, len(f.sets))
	for _, s := range f.sets {
		if s.state == nil || s != now && !s.pulled {
			return nil
		}
		sets = append(sets, s.state)
	}
	return ses.nothingSelected(sets)
}

// remindEvery is how often at most a hub is reminded of a subscription.
const remindEvery = 10 * time.Minute

// remind renews the subscription of a set in which a routine look has found
// changes: its hub should have sent notifications of them, and may have lost
// its memory. The caller holds mu.
func (f *Follower) remind(ctx context.Context, s *followed, now time.Time) {
	if f.sub == nil || !s.hub || now.Sub(s.reminded) < remindEvery {
		return
	}
	s.reminded = now
	ctx = context.WithoutCancel(ctx) // that of the look, which is over
	f.run(func() {
		if err := f.sub.Renew(ctx, s.uri); err != nil {
			f.d.log.WarnContext(ctx, "renew the subscription", slog.String("set", s.uri), slog.Any("err", err))
		}
	})
}

// interrupted records that the work for a set was interrupted.
func (f *Follower) interrupted(ctx context.Context, s *followed) {
	if !errors.Is(context.Cause(ctx), errTurn) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.turn = 2 * max(s.turn, f.turnFor)
	s.due, s.asked = time.Now(), true
}

// judge decides what an error of a pass over a set means.
func (f *Follower) judge(s *followed, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrIncomplete):
		f.written()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.firstDone()
		return nil
	case errors.Is(err, ErrRefused):
		return nil // the set is left as it is, and tried again
	case isDelivery(err):
		return nil // changes that were not taken are handed over again
	}
	return f.broken(err)
}

// firstDone notes whether all sets were in step. The caller holds mu.
func (f *Follower) firstDone() {
	for _, s := range f.sets {
		if !s.pulled {
			return
		}
	}
	if f.unread {
		return
	}
	f.synced = true
	f.d.opts.Baseline = false // it is done
}

// isDelivery reports whether err says that changes were not taken.
func isDelivery(err error) bool {
	var delivery *DeliveryError
	return errors.As(err, &delivery)
}

// broken records that the mirror, or its Journal, cannot be written. It returns
// err if that has lasted.
func (f *Follower) broken(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.failing.IsZero() {
		f.failing = now
	}
	f.trouble = fetch.Printable(err.Error())
	if f.fails++; f.fails >= failsMost && now.Sub(f.failing) >= failsFor {
		return err
	}
	return nil
}

// written records that it can.
func (f *Follower) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.fails = time.Time{}, 0
}

// stateOf returns the state of a set, and reads it again if it is not known.
func (f *Follower) stateOf(ctx context.Context, ses *session, s *followed) (*setState, error) {
	if s.state != nil {
		return s.state, nil
	}
	ses.goHome(f.address)
	st, err := ses.loadSet(ctx, s.offered)
	if err == nil {
		st.Foreign = ses.mirror.Found.Foreign
		s.state = st
	}
	return st, err
}
