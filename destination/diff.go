package destination

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/diff"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// The results of a comparison of two instants. Package report declares them.
type (
	Difference = report.Difference
	DiffReport = report.DiffReport
)

// DiffUnknown is the Change of a resource that existed at both instants, if
// nothing stated about it allows a comparison of its contents (RA-DST-06).
const DiffUnknown = report.DiffUnknown

// Diff compares the state of the collection of the Source at address at two
// instants, using what the Source has kept of its past (RA-DST-06): it reads
// nothing but documents, and uses neither mirror nor Journal. A zero to is now.
// Diff passes each difference to each, by URI in byte order, and ends if each
// returns an error.
//
// The error is an [ErrIncomplete] if the state of the collection at one of the
// instants is unknown, or documents could not be read; a [NoPastError] names
// the earliest instant with a known state. Then each was not called.
func (d *Destination) Diff(ctx context.Context, address string, from, to time.Time, each func(Difference) error) (DiffReport, error) {
	begun := newMeter(d.client)
	out := DiffReport{Source: fetch.WithoutUser(address), From: from.UTC(), To: to.UTC(), Sets: []string{}}
	s, err := d.observe(address, true)
	if err != nil {
		return out, err // unreachable: d was made with these options
	}
	f := &differ{session: s, report: &out, warned: map[string]bool{}}
	err = f.run(ctx, address, each)
	f.settleEnd()
	s.countWarnings()
	out.Sets, out.Warnings, out.Failures = s.report.Sets, s.report.Warnings, s.report.Failures
	out.Requests, _, out.Elapsed = begun.since(d.client)
	return out, err
}

// A differ is one comparison in progress.
type differ struct {
	session *session
	report  *DiffReport
	states  diff.Comparison
	warned  map[string]bool
}

// warnOnce warns once about what the two instants have in common.
func (f *differ) warnOnce(uri, text string) {
	if !f.warned[text] && len(f.warned) < maxListed {
		f.warned[text] = true
		f.session.warn(uri, text)
	}
}

func (f *differ) run(ctx context.Context, address string, each func(Difference) error) (err error) {
	s := f.session
	sets, err := s.locate(ctx, address)
	if err != nil {
		return err
	}
	f.states = diff.Comparison{Report: f.report, Sorter: scratch.RoomOf(s.d.journal).Sorter(), Selects: func(w *desired.Resource) bool { return s.d.selects.Selects(w, false) }}
	defer func() {
		if cerr := f.states.Sorter.Close(); err == nil {
			err = cerr
		}
	}()
	incomplete := len(s.report.Failures) > 0 // sets that cannot be read
	for i, set := range sets {
		s.d.emit(Event{Kind: EventSet, Set: set.Name, Progress: Progress{Set: i + 1, Sets: len(sets)}})
		for side, at := range []time.Time{f.report.From, f.report.To} {
			if err := f.collect(ctx, set, i, diff.Side(side), at); err != nil {
				return err
			}
		}
	}
	if incomplete {
		return fmt.Errorf("%w: %s", ErrIncomplete, s.report.Shortfall())
	}
	f.settleEnd()
	return f.states.Each(ctx, each)
}

// settleEnd sets the end of the interval if it is now, by our clock or, if that is later, by
// that of the Source from which the other instant is.
func (f *differ) settleEnd() {
	if !f.report.To.IsZero() {
		return
	}
	if f.report.To = time.Now().UTC().Truncate(time.Microsecond); f.report.To.Before(f.report.From) {
		f.report.To = f.report.From
	}
}

// collect adds the state of a set at an instant; zero is now.
func (f *differ) collect(ctx context.Context, set *setState, number int, side diff.Side, at time.Time) (err error) {
	r := newSetRun(f.session, set).reader
	r.Warn = f.warnOnce
	defer r.Release(ctx, &err)
	st, err := restore.Exactly(ctx, r, at, f.session.warn)
	if err != nil {
		return err
	}
	return f.states.Add(ctx, number, side, st.At, r.Stage)
}
