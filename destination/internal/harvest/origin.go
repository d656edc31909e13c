// Package harvest brings a set without documents into step with the memory of its
// Origin: a feed or a repository that is harvested.
package harvest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"

	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// An Origin is the memory of a Source that is harvested. Its contract is that of the
// Origin of package destination.
type Origin interface {
	Update(ctx context.Context, full bool) (more bool, err error)
	Status(ctx context.Context) (Status, error)
	Entries(ctx context.Context) iter.Seq2[resourcesync.Entry, error]
	Changes(ctx context.Context, after int64) iter.Seq2[resourcesync.Entry, error]
	Open(ctx context.Context, uri string, h resourcesync.Hashes) (io.ReadCloser, error)
	Applied(ctx context.Context, changes, contents int64) error
}

// Status describes the memory of an Origin.
type Status struct {
	ID     string    // of the memory: numbers of another memory mean nothing
	Source string    // what it is a memory of, as the Source states it: the id of a feed
	Seq    int64     // of the newest change
	Kept   int64     // Changes(after) is complete for after >= Kept
	Until  time.Time // on the Source's clock: all earlier changes are known; zero: unknown

	Whole    bool // everything was read once without a gap: the Source lists nothing that Entries does not yield
	Complete bool // what the Source does not list does not exist (AP-CDL-01, AP-CDL-02)

	Warnings []string // of the last Update, as sentences with the address in them
}

// StoredBy returns a function that offers a transfer the content that an Origin has.
func StoredBy(o Origin) func(context.Context, *plan.Action, func(io.Reader) transfer.Outcome) (transfer.Outcome, bool) {
	return func(ctx context.Context, a *plan.Action, put func(io.Reader) transfer.Outcome) (transfer.Outcome, bool) {
		content, err := o.Open(ctx, a.URI, a.Hashes)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return transfer.Outcome{}, false
		case err != nil:
			return transfer.Outcome{Err: err, Stale: errors.Is(err, report.ErrGone) || transfer.IsStale(err)}, true
		}
		defer content.Close()
		out := put(content)
		out.By, out.Stale = transfer.ByHarvest, transfer.IsStale(out.Err)
		return out, true
	}
}
