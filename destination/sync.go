package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/proof"
	"lockstep/destination/internal/state"
	"lockstep/destination/internal/turns"
	"lockstep/internal/fetch"
)

// A session is one run over all sets.
type session struct {
	d      *Destination
	state  *state.Mirror
	home   *url.URL // the Source as the user named it
	file   string   // URI of the file that the user named as the Source, or ""
	report counting.Report
	past   *pastRun // the mirror is brought to a past state of the collection; nil: to the present one

	earlier    map[int]SetReport // what was done for sets whose turn ended early; nil: there are none
	passing    map[int]int64     // counts by set what failed and is tried again at the end of the run; nil: nothing is
	withdrawn  map[int]bool      // numbers of the sets that the Source has withdrawn, and whose files stay
	damaged    map[int]bool      // numbers of the sets with files that the local check found damaged
	unrepaired int               // files that are damaged or cannot be examined, and that no set can repair
	restored   bool              // all of a set was compared whose state had been restored, which is not reported yet
}

// newSession returns a session for the Source at address whose changes are passed to
// deliver, if not nil. Its state is not open yet.
func newSession(d *Destination, address string, past *pastRun, deliver func(context.Context, []Change) (int, error)) *session {
	o := &d.opts
	s := &session{d: d, past: past}
	s.report = newReport(d, address)
	if past != nil {
		s.report.At, s.report.Missing = past.at.UTC(), []Failure{}
	}
	s.state = state.New(state.Settings{
		Store: d.store, Journal: d.journal, Client: d.client, Forgetful: d.isForgetful(), In: d.inDest(),
		Portable: o.Portable, Maps: o.Maps, DryRun: o.DryRun, AskNow: o.AskNow, MayOwn: past == nil && !o.Adopt,
		History: history.Mirror{Journal: d.journal, Files: d.store, Versions: d.vault, Log: d.log, Clock: d.clock, Open: d.kept},
		Rule:    history.Rule(o.Keep), Emit: d.emit, Warn: s.warn,
	}, newOutbox(d.journal, deliver))
	return s
}

// newReport returns the report of a run that begins.
func newReport(d *Destination, address string) counting.Report {
	return counting.Report{Report: Report{Source: fetch.WithoutUser(address), Destination: d.opts.Dest, Sets: []string{}, DryRun: d.opts.DryRun}}
}

// Sync brings the mirror into step with the Source at address, which may be
// anything that leads to its documents. Each set is compared in full the first
// time, and when its history has a gap; otherwise its changes are applied.
//
// The Report is valid also if there is an error. The error is an [ErrRefused] if a set
// was left unchanged for safety, an [ErrIncomplete] if some resources or documents
// failed and everything else was done, and that of the context if it ended, in which
// case finished work is kept. Any other error stopped the run.
func (d *Destination) Sync(ctx context.Context, address string) (Report, error) {
	return d.sync(ctx, address, d.deliverer())
}

// deliverer returns the function that delivers changes, or nil if
// Options.Deliver is not set.
func (d *Destination) deliverer() func(context.Context, []Change) (int, error) {
	if d.opts.Deliver == nil {
		return nil
	}
	return func(ctx context.Context, batch []Change) (int, error) {
		if err := d.opts.Deliver(ctx, slices.Clone(batch)); err != nil {
			return 0, &DeliveryError{Err: err}
		}
		return len(batch), nil
	}
}

// sync is Sync with a consumer of changes, if deliver is not nil: it returns the number
// of changes that it accepted.
func (d *Destination) sync(ctx context.Context, address string, deliver func(context.Context, []Change) (int, error)) (Report, error) {
	var past *pastRun
	if at := d.opts.At; !at.IsZero() {
		past = &pastRun{at: at, from: d}
	}
	s := newSession(d, address, past, deliver)
	return s.whole(func() error {
		return deferringDocuments(ctx, s, func() error { return s.run(ctx, address) })
	})
}

// deferringDocuments calls do and then records which documents must not be requested
// yet, also if do failed.
func deferringDocuments(ctx context.Context, s *session, do func() error) error {
	err := do()
	if s.d.opts.DryRun || s.d.compare {
		return err
	}
	if serr := s.state.Deferred.Save(ctx, s.d.journal, s.d.client); err == nil || errors.Is(err, ErrIncomplete) && serr != nil {
		err = serr
	}
	return err
}

// whole calls do, and returns the report of the run.
func (s *session) whole(do func() error) (Report, error) {
	begun := newMeter(s.d.client)
	err := do()
	return conclude(s, begun, err), err
}

// A meter has the values of the counters of a client, and the time, at the beginning
// of a run.
type meter struct {
	start           time.Time
	requests, bytes int64
}

func newMeter(c *fetch.Client) meter { return meter{time.Now(), c.Requests(), c.Bytes()} }

// since returns what was counted since then, and the time in seconds.
func (m meter) since(c *fetch.Client) (requests, bytes int64, elapsed float64) {
	return c.Requests() - m.requests, c.Bytes() - m.bytes, time.Since(m.start).Seconds()
}

// conclude returns the report of a run that ended with err.
func conclude(s *session, begun meter, err error) Report {
	s.countWarnings()
	if t := fetch.NotBefore(err); !t.IsZero() {
		s.report.Defer(t)
	}
	r := s.report.Report
	r.Requests, r.Bytes, r.Elapsed = begun.since(s.d.client)
	if r.Mode == "" {
		r.Mode = ModeNone
	}
	mirrorOf(s).Settle(&r, err, s.past != nil)
	return r
}

// mirrorOf names the mirror as commands do.
func mirrorOf(s *session) proof.Mirror {
	return proof.Mirror{Source: s.report.Source, Dest: s.d.opts.Dest}
}

// reasonsOf returns why it is not certain that a set is complete; of a past state there
// are no reasons.
func reasonsOf(s *session, st *setState) []Unproven {
	if s.past != nil {
		return nil
	}
	return mirrorOf(s).Reasons(&st.Set, s.report.Fallbacks)
}

// run opens the mirror, finds the sets of the Source and brings them into step.
func (s *session) run(ctx context.Context, address string) error {
	if err := s.state.Open(ctx); err != nil {
		return err
	}
	sets, err := s.locate(ctx, address)
	if err != nil {
		own, oerr := ownPast(ctx, s, address, err)
		if own == nil || oerr != nil {
			return cmp.Or(oerr, err)
		}
		return s.runSets(ctx, own)
	}
	left, err := unselected(ctx, s, sets)
	if err != nil {
		return err
	}
	if err := decideOwnership(ctx, s); err != nil {
		return err
	}
	if err := checkLocal(ctx, s); err != nil {
		return err
	}
	return s.runSets(ctx, append(sets, left...))
}

// runSets brings sets into step.
func (s *session) runSets(ctx context.Context, sets []*setState) error {
	var refused, incomplete error
	if !s.d.opts.DryRun && s.past == nil {
		s.passing = map[int]int64{}
	}
	waiting := make([]turn, len(sets))
	for i, set := range sets {
		waiting[i] = turn{set, i + 1, s.d.patience}
	}
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		set := next.set
		s.d.emit(Event{Kind: EventSet, Set: set.Name, Progress: Progress{Set: next.number, Sets: len(sets)}})
		err := s.takeTurn(ctx, next, len(waiting) > 0)
		if errors.Is(err, turns.ErrSlow) {
			if err := s.state.SettleLeft(ctx); err != nil {
				return err
			}
			next.patience *= 2
			waiting = append(waiting, next)
			continue
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrRefused):
			s.report.Fail(set.URI, err.Error())
			if refused == nil {
				refused = err
			}
		case errors.Is(err, ErrIncomplete):
			incomplete = cmp.Or(incomplete, err)
			reportUnknown(s, set, err, len(sets))
		default:
			for _, t := range waiting {
				if _, begun := s.earlier[t.set.Number]; begun {
					_ = s.bring(t.set, func() error { return err }) // returns err
				}
			}
			return err
		}
		s.until(set)
		if t := set.AsOf; !t.IsZero() && (s.report.AsOf.IsZero() || t.Before(s.report.AsOf)) {
			s.report.AsOf = t
		}
	}
	if err := finalPass(ctx, s, sets); err != nil {
		return err
	}
	if err := s.state.MoveHome(ctx, &s.report); err != nil {
		return err
	}
	reportUnrecorded(ctx, s, sets)
	if err := s.state.Close(ctx); err != nil {
		return err
	}
	if err := s.state.EndKeeping(ctx, &s.report.Report); err != nil {
		return err
	}
	if err := nothingSelected(s, sets); err != nil {
		return err
	}
	switch {
	case refused != nil:
		return refused
	case incomplete == nil && !s.report.HasFailures() && s.unrepaired == 0:
		s.report.Local.SetRepaired()
		return nil
	case s.past != nil:
		return s.past.incomplete(&s.report.Report, incomplete, len(sets))
	}
	return fmt.Errorf("%w: %s", ErrIncomplete, s.report.Shortfall())
}

// A turn is that of a set in a run over several.
type turn struct {
	set      *setState
	number   int           // of the set in the run
	patience time.Duration // for which it may be slow while others wait
}

// takeTurn brings a set into step, and records the result for it separately. If it is slow
// while others wait, the error is [turns.ErrSlow]: what is finished is kept, and the rest is
// done in a later turn.
func (s *session) takeTurn(ctx context.Context, t turn, others bool) error {
	if !others {
		return s.syncOne(ctx, t.set)
	}
	return s.bring(t.set, func() error {
		before := s.report
		watched, done := turns.Watch(ctx, s.d.client, t.patience)
		defer done()
		err := pullSet(watched, s, t.set)
		if err == nil || !errors.Is(context.Cause(watched), turns.ErrSlow) {
			return err
		}
		if s.earlier == nil {
			s.earlier = map[int]SetReport{}
		}
		s.earlier[t.set.Number] = s.report.Postpone(&before, s.earlier[t.set.Number])
		delete(s.passing, t.set.Number)
		s.warn(t.set.URI, fmt.Sprintf("set %s: little has arrived from the Source for %v, so the other sets go first", fetch.Printable(t.set.Name), t.patience))
		return turns.ErrSlow
	})
}

// syncOne brings a set into step, however long it takes, and records the result for it
// separately.
func (s *session) syncOne(ctx context.Context, set *setState) error {
	return s.bring(set, func() error { return pullSet(ctx, s, set) })
}

// pullSet brings a set into step by its documents.
func pullSet(ctx context.Context, s *session, set *setState) error {
	before := s.report
	if err := syncSet(ctx, s, set); err != nil {
		return err
	}
	return s.pulled(ctx, set, &before)
}

// bring calls do, which works on a set, and records the result for the set unless its turn
// has ended early.
func (s *session) bring(set *setState, do func() error) error {
	begun := newMeter(s.d.client)
	before := s.report
	s.report.Mode, s.report.Via = "", ""
	err := do()
	r := s.earlier[set.Number]
	_, bytes, elapsed := begun.since(s.d.client)
	r.Bytes, r.Elapsed = r.Bytes+bytes, r.Elapsed+elapsed
	if errors.Is(err, turns.ErrSlow) {
		s.report.Mode, s.report.Via = before.Mode, before.Via
		s.earlier[set.Number] = r
		return err
	}
	delete(s.earlier, set.Number)
	r.URI, r.Name, r.SyncedUntil, r.AsOf = set.URI, fetch.Printable(set.Name), set.SyncedUntil(), set.AsOf
	r = s.report.AddSet(r, &before, err, reasonsOf(s, set))
	s.d.emit(Event{Kind: EventDone, Set: set.Name, Result: r})
	return err
}

// until records the time up to which a set is in step: the Report states the earliest
// of all sets.
func (s *session) until(set *setState) {
	s.state.Keep.Mark(set.Number, set.Watermark)
	w := set.SyncedUntil()
	if w.IsZero() {
		return
	}
	if s.report.SyncedUntil.IsZero() || w.Before(s.report.SyncedUntil) {
		s.report.SyncedUntil = w
	}
}

// problem records a document that could not be read.
func (s *session) problem(uri string, err error) {
	s.report.FailDocument(uri, err)
	s.d.emit(Event{Kind: EventFailed, URI: uri, Err: err})
}

// warn records a warning and emits it, unless there was one of its kind.
func (s *session) warn(uri, text string) {
	if !s.report.Warn(text) {
		return
	}
	s.d.emit(Event{Kind: EventWarning, URI: uri, Err: errors.New(text)})
}

// countWarnings appends to each warning how many more there were of its kind, and
// reports the resulting sentences.
func (s *session) countWarnings() {
	s.report.FinishWarnings(func(text string) {
		s.d.emit(Event{Kind: EventWarning, Err: errors.New(text)})
	})
}
