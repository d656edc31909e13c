// Package rows records rows of the Journal together with the changes that they make to
// the mirror: each change is delivered and emitted as an event.
package rows

import (
	"context"
	"fmt"

	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// A Recorder records rows and reports changes.
type Recorder struct {
	Journal journal.Journal
	Keep    *history.Keeper // nil: the mirror keeps no versions
	Out     *outbox.Box[report.Change]
	Emit    func(report.Event)
}

// Report reports a change of a resource that now has the given row.
func (r *Recorder) Report(kind resourcesync.Change, row *journal.Held) {
	r.ReportChange(report.Change{URI: row.URI, Kind: kind, Path: row.Path, Length: row.Length, Hashes: row.Hashes, Lastmod: row.Lastmod,
		Type: row.Type, Links: row.Links, Stated: row.Stated})
}

// ReportChange reports a change.
func (r *Recorder) ReportChange(c report.Change) {
	r.Out.Add(c)
	r.Emit(report.AppliedEvent(&c))
}

// Record records rows with the past of each and the changes reported since the last
// transaction, and delivers these. It calls recorded, if not nil, before delivery.
func (r *Recorder) Record(ctx context.Context, b journal.Batch, what string, recorded func()) error {
	if err := r.Keep.AddPast(ctx, &b); err != nil {
		return err
	}
	changes := r.Out.Take()
	r.Out.Save(b.Save, changes)
	if err := r.Keep.Record(ctx, r.Journal, b); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if recorded != nil {
		recorded()
	}
	return r.Out.Saved(ctx, changes)
}
