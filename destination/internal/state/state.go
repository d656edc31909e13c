// Package state loads the state of a mirror from its Journal for one or several runs,
// settles what a killed run left, and saves the state of the mirror as a whole. The
// states of single sets are loaded by package sets.
package state

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/deferral"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/intent"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/reclaim"
	"lockstep/destination/internal/recovery"
	"lockstep/destination/internal/rows"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// Settings describe a mirror and the run that opens it.
type Settings struct {
	Store     blob.Store
	Journal   journal.Journal
	Client    *fetch.Client
	Forgetful bool   // Store keeps nothing: the Journal alone knows what was delivered
	In        string // names the mirror in the middle of a sentence; may be empty

	Portable bool           // names of files suit file systems that fold case or refuse characters
	Maps     []filename.Map // the user's
	DryRun   bool           // change nothing
	AskNow   bool           // request documents also if their server asked to wait
	MayOwn   bool           // files that exist already may be the mirror's own although the Journal is new

	History history.Mirror
	Rule    history.Rule // which versions to keep

	Emit func(report.Event)
	Warn func(uri, text string)
}

// A Mirror is the state of a mirror as a whole.
type Mirror struct {
	Settings

	Source   saved.Mirror               // the Source as it was last found, and the numbers of its sets
	Counts   saved.Counts               // resources of each set
	Marked   places.Marked              // which resources have marked names
	Deferred deferral.Deferrals         // documents that must not be requested yet
	Own      reclaim.Ownership          // of the files that exist already
	Keep     *history.Keeper            // nil: the mirror keeps no versions
	Out      *outbox.Box[report.Change] // changes to deliver

	Resume     bool        // an earlier run may have left unfinished downloads
	begun      bool        // the Journal says that a run is in progress
	leftIntent atomic.Bool // this run has left an intent, see [Mirror.LeaveIntent]
}

// New returns the state of a mirror that has not been opened yet.
func New(s Settings, out *outbox.Box[report.Change]) *Mirror {
	return &Mirror{Settings: s, Out: out, Source: saved.Mirror{Numbers: map[string]int{}}, Counts: saved.Counts{}}
}

// Read reads what is known of the Source and of the sets, and reports whether there is
// a mirror. It changes nothing.
func (m *Mirror) Read(ctx context.Context) (known bool, err error) {
	if known, err = saved.Load(ctx, m.Journal, saved.DocMirror, &m.Source); err != nil {
		return known, err
	}
	if m.Source.Numbers == nil {
		m.Source.Numbers = map[string]int{}
	}
	_, err = saved.Load(ctx, m.Journal, saved.DocCounts, &m.Counts)
	return known, err
}

// Open reads the state, settles what a killed run left, and delivers the changes that
// an earlier run could not deliver.
func (m *Mirror) Open(ctx context.Context) error {
	known, err := m.Read(ctx)
	if err != nil {
		return err
	}
	m.Own.Open = !known && m.MayOwn && !m.Forgetful
	if !known {
		m.Marked = places.NoneMarked()
	}
	if _, err := saved.Load(ctx, m.Journal, places.DocMarked, &m.Marked); err != nil {
		return err
	}
	if err := m.Deferred.Load(ctx, m.Journal, m.Client, m.AskNow); err != nil {
		return err
	}
	running, err := m.Journal.Load(ctx, saved.DocOpen)
	if err != nil {
		return err
	}
	if err := m.Out.Load(ctx); err != nil {
		return err
	}
	if m.Resume, m.begun = running != nil, running != nil; m.Resume { // else there is no intent either
		if err := m.recover(ctx); err != nil {
			return err
		}
	}
	if !m.DryRun {
		if err := m.OpenKeeper(ctx); err != nil {
			return err
		}
	}
	return m.deliver(ctx)
}

// intent describes the mirror of a run that may have been killed.
func (m *Mirror) intent() intent.Mirror {
	return intent.Mirror{Journal: m.Journal, Files: m.Store, Forgetful: m.Forgetful, In: m.In}
}

// Halfway returns the rows that would change if what a killed run left were settled,
// by their URIs.
func (m *Mirror) Halfway(ctx context.Context) (map[string]journal.Held, error) {
	i := m.intent()
	return i.Read(ctx)
}

// OpenKeeper starts to record versions if the mirror is to keep any.
func (m *Mirror) OpenKeeper(ctx context.Context) (err error) {
	whole := !m.Resume // the mirror is in the state that a completed run left
	m.Keep, err = history.Open(ctx, m.History, m.Rule, whole, func(mark func(int, time.Time)) (known bool, err error) {
		if m.Source.Found == nil {
			return false, nil
		}
		for _, n := range m.Source.Numbers {
			var st saved.Set
			if _, err := saved.Load(ctx, m.Journal, saved.DocSet(n), &st); err != nil {
				return false, err
			}
			mark(st.Number, st.Watermark)
		}
		return true, nil
	})
	return err
}

// deliver delivers the changes of an earlier run.
func (m *Mirror) deliver(ctx context.Context) error {
	switch {
	case m.Out.Pending() == 0 || m.DryRun:
		return nil
	case !m.Out.Delivers():
		m.Warn("", fmt.Sprintf("%d changes of an earlier run were not handed over yet; the next run that hands over its changes begins with them", m.Out.Pending()))
		return nil
	}
	return m.Out.Send(ctx)
}

// Rows returns what records rows and reports changes of resources.
func (m *Mirror) Rows() rows.Recorder {
	return rows.Recorder{Journal: m.Journal, Keep: m.Keep, Out: m.Out, Emit: m.Emit}
}

// recover settles what was left half done.
func (m *Mirror) recover(ctx context.Context) error {
	m.Marked = places.Marked{} // it may lack some
	killed := recovery.Mirror{Intent: m.intent(), Counts: m.Counts, Rows: m.Rows()}
	return killed.Recover(ctx)
}

// LeaveIntent notes that the Journal has an intent of which nothing is recorded: before another
// one replaces it, its files are examined. It may be called concurrently.
func (m *Mirror) LeaveIntent() { m.leftIntent.Store(true) }

// SettleLeft settles an intent that this run has left.
func (m *Mirror) SettleLeft(ctx context.Context) error {
	if !m.leftIntent.Load() {
		return nil
	}
	clear(m.Counts) // they count what was not recorded
	if _, err := saved.Load(ctx, m.Journal, saved.DocCounts, &m.Counts); err != nil {
		return err
	}
	if err := m.recover(ctx); err != nil {
		return err
	}
	m.leftIntent.Store(false)
	return nil
}

// Begin records that files are going to be written, and settles what this run has left
// half done.
func (m *Mirror) Begin(ctx context.Context) error {
	if err := m.SettleLeft(ctx); err != nil {
		return err
	}
	if m.begun {
		return nil
	}
	err := m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocOpen: []byte("{}"), saved.DocMirror: saved.Encode(m.Source)}})
	m.begun = err == nil
	return err
}

// Close removes unfinished downloads that are no longer needed, and records that the
// run has completed.
func (m *Mirror) Close(ctx context.Context) error {
	if m.DryRun || !m.begun {
		return nil
	}
	if err := m.SettleLeft(ctx); err != nil {
		return err
	}
	if sweeper, ok := m.Store.(blob.Sweeper); ok {
		paths, err := m.Paths()
		if err != nil {
			return err
		}
		if err := recovery.Sweep(ctx, m.Journal, sweeper, paths, maps.Values(m.Source.Numbers)); err != nil {
			return err
		}
	}
	return m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocOpen: nil}})
}

// Rest is Close for a mirror that remains in use.
func (m *Mirror) Rest(ctx context.Context) error {
	if err := m.Close(ctx); err != nil {
		return err
	}
	m.begun, m.Resume = false, false
	return nil
}

// Paths returns the names of the mirror's files.
func (m *Mirror) Paths() (*filename.Mapping, error) { return m.Source.Paths(m.Portable, m.Maps) }

// SetOrigin records the origin of the resources, which is that of the first resource if
// the Source is a file.
func (m *Mirror) SetOrigin(ctx context.Context, origin string) error {
	m.Source.Origin = origin
	if m.DryRun {
		return nil
	}
	return m.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{saved.DocMirror: saved.Encode(m.Source)}})
}

// MoveHome moves files with marked names to places that have become free.
func (m *Mirror) MoveHome(ctx context.Context, r *counting.Report) error {
	store, ok := m.Store.(interface {
		blob.Store
		blob.Mover
	})
	if !ok || m.DryRun || m.Source.Origin == "" {
		return nil
	}
	paths, err := m.Paths()
	if err != nil {
		return err
	}
	out := m.Rows()
	v := places.Mover{Journal: m.Journal, Files: store, Paths: paths, In: m.In, Begin: m.Begin, Warn: m.Warn,
		Record: func(ctx context.Context, b journal.Batch) error {
			return out.Record(ctx, b, "record which files moved", func() { r.Moved += int64(len(b.Put)) })
		},
		Stops: func(err error) bool { return failure.IsFatal(&content.LocalError{Err: err}) },
		Moved: func(h *journal.Held) { out.Report(resourcesync.Updated, h) }}
	return v.MoveHome(ctx, &m.Marked, r.Deleted > 0)
}

// EndKeeping records that a run has completed, and reports the versions that are kept.
func (m *Mirror) EndKeeping(ctx context.Context, r *report.Report) error {
	if err := m.Keep.End(ctx); err != nil {
		return err
	}
	if m.Keep.IsOn() {
		versions, bytes, since := m.Keep.Kept()
		r.Kept = &report.Kept{Versions: versions, Bytes: bytes, Since: since}
	}
	return nil
}
