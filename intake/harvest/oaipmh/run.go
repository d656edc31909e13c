package oaipmh

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/intake"
	"lockstep/intake/internal/fault"
	"lockstep/intake/internal/future"
	"lockstep/oaipmh"
)

// A harvest is one stretch of harvesting: the pages of a list are requested one after
// the other, each while the page before it is being stored.
type harvest struct {
	h       *Harvester
	list    *intake.Listing
	stretch Stretch
	began   time.Time

	at       *progress // its progress, part of memory
	fresh    bool      // the set was empty when it began
	storeAll bool      // it is not known which versions are in the Contents

	lost  map[string]bool // records of earlier harvests that are still to be read
	taken int64           // records of this stretch
	dirty bool            // the catalog has changed since memory was saved
	begun bool            // it was saved that a harvest is in progress

	paused   bool // the stretch was used up at the end of a page
	wentBack bool // the repository's clock went back since the last harvest

	future future.Times // datestamps and response times that were read

	profile struct { // namespace of the last record
		name string
		ok   bool
	}
}

// run harvests until the list is at its end, or the stretch is used up. The list of an
// interrupted harvest shows the repository as it was when the harvest began: once it
// reaches its end, later changes are harvested at once. If the repository's clock went
// back, everything is harvested again: the datestamps of later changes may be before
// the time from which changes were requested.
func (v *harvest) run(ctx context.Context) (more bool, err error) {
	if err := v.h.verify(ctx); err != nil {
		return false, err
	}
	if err := v.identify(ctx); err != nil {
		return false, err
	}
	for full := v.stretch.Full; ; full = v.wentBack {
		v.wentBack = false
		more, err := v.once(ctx, full)
		v.h.stale = v.h.stale || err != nil && v.h.memory.Run != nil
		if err != nil || more || !v.h.stale && !v.wentBack {
			return more, err
		}
		v.h.stale = false
	}
}

// once harvests one list to its end, unless the stretch is used up before.
func (v *harvest) once(ctx context.Context, full bool) (more bool, err error) {
	if err := v.start(ctx, full); err != nil {
		return false, err
	}
	over, err := v.readList(ctx)
	v.reportFuture()
	if err != nil || !over {
		if serr := v.keep(ctx); err == nil {
			err = serr
		}
		return err == nil, err
	}
	return false, v.end(ctx)
}

// reportFuture reports datestamps and response times that are in our future.
func (v *harvest) reportFuture() {
	if !v.future.IsAhead(v.h.memory.Reported) { // a clock that stays ahead is reported once
		v.future.Note("its response", v.at.Ahead)
	}
	if err := v.future.Report(); err != nil {
		v.list.Skipped(v.h.base, err)
		v.h.memory.Reported, v.dirty = v.future.Reported, true
	}
}

// identify requests the repository's description, once in the life of a Harvester.
func (v *harvest) identify(ctx context.Context) error {
	if v.h.server != nil {
		return nil
	}
	var id oaipmh.Identify
	_, err := v.h.ask(ctx, oaipmh.URL(v.h.base, oaipmh.VerbIdentify), func(r *oaipmh.Reader) (err error) {
		id, err = r.Identify()
		return err
	})
	if err != nil {
		return fmt.Errorf("request Identify: %w", fault.Plain(oaipmh.URL(v.h.base, oaipmh.VerbIdentify), err))
	}
	if p := id.ProtocolVersion; p != "" && !strings.HasPrefix(p, "2.") {
		return fmt.Errorf("it speaks version %.20q of OAI-PMH, not 2.0", p)
	}
	v.h.server = &id
	return nil
}

// clockSlack is how much the clocks of the machines behind one address may differ
// before a difference counts as a clock that went back.
const clockSlack = 2 * time.Hour

// refusedInterval is the time between full harvests while the deletion of absent records
// is refused: they may be listed again.
const refusedInterval = 24 * time.Hour

func stamp(t time.Time) string { return oaipmh.FormatDatestamp(t, oaipmh.Second) }

// start begins a harvest, unless one is in progress.
func (v *harvest) start(ctx context.Context, full bool) error {
	m := &v.h.memory
	due := v.h.o.FullInterval >= 0 && future.IsDue(m.FullAt, v.h.o.FullInterval)
	if m.Absent { // that records are absent must be true now
		due = due || v.h.o.AllowEmpty || future.IsDue(m.FullAt, refusedInterval)
	}
	// A repository that listed nothing, or less than half, may have lacked its records for a
	// while only: changes since then would not show them.
	full = full || !m.Listed || m.From.IsZero() || m.Doubtful || due
	if m.Run == nil || full && !m.Run.Full {
		m.Run = &progress{Full: full, StoreAll: !m.Listed, Coarse: m.Coarse}
		if full {
			m.Generation = max(m.Generation+1, time.Now().UnixMilli())
			st, err := v.list.Catalog.Status(ctx, v.list.Set)
			if err != nil {
				return err
			}
			m.Run.Fresh = st.Resources == 0
		} else {
			m.Run.From = v.from()
		}
	} else {
		v.begun = true
		if m.Run.Token == "" {
			m.Run.rewind() // it had come to its end, and is read again
		}
	}
	v.at, v.fresh, v.storeAll = m.Run, m.Run.Fresh, m.Run.StoreAll
	v.future = future.Times{Now: time.Now(), Reported: m.Reported}
	v.lost = make(map[string]bool, len(m.Lost))
	for _, id := range m.Lost {
		v.lost[id] = true
	}
	return nil
}

// from returns the argument of an incremental harvest; empty if all records are at or
// after that time anyway.
func (v *harvest) from() string {
	t := v.h.memory.From.Add(-harvestOverlap)
	if first := v.h.server.EarliestDatestamp; t.Before(first) && !first.After(v.h.memory.From) { // else first is wrong
		return ""
	}
	return oaipmh.FormatDatestamp(t, v.h.granularity(v.h.memory.Coarse))
}

// readList requests the pages and stores their records. It reports whether the list
// reached its end. Records read before an error are stored.
func (v *harvest) readList(ctx context.Context) (over bool, err error) {
	pages := make(chan *piece, piecesAhead)
	ready := make(chan *piece, piecesAhead)
	ask, stop := context.WithCancel(ctx)
	defer stop()
	var asked error
	v.paused = false
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(pages)
		p := &pager{h: v.h, run: *v.at, out: pages}
		asked = p.all(ask)
		return nil
	})
	g.Go(func() error {
		defer close(ready)
		return v.describe(gctx, pages, ready)
	})
	g.Go(func() error {
		var err error
		over, err = v.take(gctx, ready)
		stop() // later pages belong to the next stretch
		for range ready {
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return false, err
	}
	if _, endless := errors.AsType[*endlessError](asked); endless {
		return false, asked
	}
	if over || v.paused && ctx.Err() == nil {
		return over, nil
	}
	return false, asked
}

// used reports whether the stretch is used up.
func (v *harvest) used() bool {
	return v.stretch.Records > 0 && v.taken >= v.stretch.Records || v.stretch.Time > 0 && time.Since(v.began) >= v.stretch.Time
}

// maxHeld is how many harvests in a row may repeat a request because its list had
// gaps: after that, gaps are taken to be normal for the repository.
const maxHeld = 2

// end completes a harvest whose list has reached its end.
func (v *harvest) end(ctx context.Context) error {
	if err := v.again(ctx); err != nil {
		_ = v.keep(ctx) // err is more informative
		return err
	}
	m, run := &v.h.memory, v.at
	m.Run = nil
	gap := run.Incomplete || run.Windowed || run.short()
	m.Complete = !gap && len(m.Lost) == 0
	if m.Held++; !gap || m.Held > maxHeld {
		m.Held = 0
	}
	if m.Held > 0 { // the next list may have the missing records
		v.dirty = true
	} else if !run.Began.IsZero() {
		if !run.Full && run.Began.Add(clockSlack).Before(m.From) {
			v.list.Skipped(v.h.base, fmt.Errorf("its clock went back from %s to %s: everything is harvested again", stamp(m.From), stamp(run.Began)))
			v.wentBack, v.dirty = true, true
		}
		v.dirty = v.dirty || run.Began.Sub(m.From) >= saveEvery
		if at := run.Began; at.Before(m.From) { // as at the end of summer time
			v.dirty = true
			m.From = at.Add(-clockSlack)
		} else {
			m.From = at
		}
	}
	if run.short() {
		v.list.Skipped(v.h.base, fmt.Errorf("the repository announced %d records but listed %d, so no record is deleted because it is not listed", run.Size, run.Listed))
	}
	if run.Windowed {
		v.list.Unreadable(v.h.base, errors.New("the repository refuses its own resumption tokens, so its list was restarted in the middle, where it may lack records; nothing is deleted because of its absence from the list"))
	}
	if run.Full {
		v.dirty, m.Doubtful = true, run.Listed == 0
		if m.Absent = false; m.Held == 0 {
			m.Listed, m.FullAt = true, time.Now()
		}
		switch {
		case run.Incomplete || len(m.Lost) > 0:
			v.list.Skipped(v.h.base, errors.New("a part of the list could not be read, so no record is deleted because it is not listed"))
		case !run.Windowed && !run.short():
			m.Whole, m.Absent = true, true
		}
	}
	if m.Absent {
		if err := v.deleteAbsent(ctx); err != nil {
			m.Complete = false
			_ = v.h.save(ctx) // err is more informative
			return err
		}
		m.Absent = false
	}
	if !v.dirty && !v.begun {
		at, err := v.list.Point(ctx)
		m.Point = at
		return err
	}
	return v.h.save(ctx)
}

// short reports whether the list ended before the size that the repository has
// stated in the same way on every page.
func (r *progress) short() bool { return r.Size > 0 && !r.Wrong && r.Listed < r.Size }

// keep saves the progress of the harvest.
func (v *harvest) keep(ctx context.Context) error {
	if !v.dirty && !v.begun {
		v.h.memory.Run = nil // it has changed nothing
		return nil
	}
	return v.h.save(context.WithoutCancel(ctx))
}

// tokenOf returns the Token of the records of this generation.
func (v *harvest) tokenOf() string {
	return generationMark + strconv.FormatInt(v.h.memory.Generation, 36)
}

const generationMark = "oai:"
