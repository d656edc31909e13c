package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A change of a kind that the standard does not know, or of no stated kind,
// says only that something happened to the resource (RS-EM-02). Its own address
// is asked: content is an update, 404 or 410 is a deletion that the Source has
// confirmed. Such deletions are gathered while the others are carried out, and
// are then guarded and carried out like those that the Source lists.

// confirmsDeletion reports whether err, of a request for a, is the answer that
// there is no such resource to a question whether there is.
func confirmsDeletion(a *plan.Action, err error) bool {
	var status *fetch.StatusError
	return a.Change == resourcesync.UnknownChange && a.Address() == a.URI && errors.As(err, &status) &&
		(status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

// confirm records that a resource is gone, as its own address answers.
func (p *applier) confirm(a *plan.Action, err error) {
	if !plan.HasSet(a.Held.Sets, p.set.Number) || p.d.opts.Delete == DeleteKeep {
		p.paid(a)
		return
	}
	p.mended(a)
	w := a.AsStated()
	w.Gone, w.Refused, w.Unconfirmed = true, "", false
	w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
	p.owing = true
	p.confirmed++
	p.pending.Owe = append(p.pending.Owe, journal.Owed{Set: p.set.Number, URI: a.URI, Entry: w.Append(nil), Cause: err.Error()})
}

// isConfirmed reports whether w is a deletion that was confirmed by asking, and
// has not been carried out yet.
func isConfirmed(w *desired.Resource) bool {
	return w.Class == desired.Pending && w.Gone && w.Change == resourcesync.UnknownChange
}

// removeConfirmed removes what this run found to be gone.
func (r *setRun) removeConfirmed(ctx context.Context, w *work) (err error) {
	before := r.stage
	r.stage = stage.New(r.d.journal)
	defer func() {
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
		r.stage = before
	}()
	for o, err := range r.d.journal.Owed(ctx, r.set.Number) {
		if err != nil {
			return err
		}
		gone, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return err
		}
		if !isConfirmed(&gone) {
			continue
		}
		if err := r.stage.Add(ctx, gone); err != nil {
			return fmt.Errorf("stage what is gone: %w", err)
		}
	}
	_, err = r.carryOut(ctx, work{mode: w.mode, via: w.via, complete: true})
	return err
}
