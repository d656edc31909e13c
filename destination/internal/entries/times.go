package entries

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// date reads the times of documents from the documents themselves where no archive
// states them (RA-RES-04, RA-IDX-04). Documents that cannot be read are left out.
func (a *archiveReading) date(ctx context.Context) error {
	var undated []*Archived
	for i := range a.found {
		if d := &a.found[i]; d.undated() && !d.Dated && len(undated) < maxUndated {
			undated = append(undated, d)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(a.Jobs, maxReaders))
	for _, d := range undated {
		g.Go(func() error {
			err := a.Confirm(gctx, d)
			if err == nil || gctx.Err() != nil {
				return context.Cause(gctx)
			}
			d.Kind = "" // removed below
			return a.leaveOut(gctx, d.Uri, err)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range a.found {
		a.found[i].guess()
	}
	a.found = slices.DeleteFunc(a.found, func(d Archived) bool { return d.Kind == "" || !d.changes() && d.At.IsZero() })
	return nil
}

// guess uses the time at which the document was written where no better time is
// known (RA-VER-02).
func (d *Archived) guess() {
	switch {
	case d.changes() && d.Until.IsZero() && d.From.IsZero() && !d.Current:
		d.Until, d.Approx = d.lastmod, true
	case !d.changes() && d.At.IsZero():
		d.At, d.Approx = d.lastmod, true
	}
}

// take copies the times that the document itself states.
func (d *Archived) take(h *resourcesync.Header) {
	d.Dated = true
	if h.Capability.Changes() {
		if !h.FromUnproven {
			d.From = h.From
		}
		if d.Until = h.Until; h.Living && d.Current {
			d.Until = resourcesync.Datetime{} // RS-VER-10
		}
		return
	}
	if !h.At.IsZero() {
		d.At, d.Completed, d.Approx = h.At, h.Completed, h.Approximate
	}
}

// Confirm opens a document to read its times, unless that was done before. If they
// differ from those in the archive, the document takes precedence and a warning is
// reported (RA-DOC-10). The error is not nil if the document is now of another kind
// than the archive states.
func (r *Reader) Confirm(ctx context.Context, d *Archived) error {
	if d.Dated {
		return nil
	}
	doc, err := r.Open(ctx, d.Uri, saved.Validators{})
	if err != nil {
		return err
	}
	defer doc.Close()
	if err := expect(doc, d.Kind, 1); err != nil {
		return err
	}
	said := *d
	d.take(&doc.Header)
	d.differs(r, &said)
	return nil
}

// differs warns if a document states other times than its archive.
func (d *Archived) differs(r *Reader, said *Archived) {
	for _, t := range [...]struct {
		name      string
		said, own resourcesync.Datetime
	}{{"at", said.At, d.At}, {"completed", said.Completed, d.Completed}, {"from", said.From, d.From}, {"until", said.Until, d.Until}} {
		if t.said.IsZero() || t.own.IsZero() || t.said.Compare(t.own) == 0 {
			continue
		}
		r.mu.Lock()
		r.Warn(d.Uri, fmt.Sprintf("read %s: its %s is %s, the archive says %s; the document is right", fetch.Printable(d.Uri), t.name, wording.Time(t.own.Time()), wording.Time(t.said.Time())))
		r.mu.Unlock()
	}
}

// sort orders snapshots by their instants, and changes by their beginnings,
// regardless of the order in which they were listed (RA-RES-03, RA-CHG-06).
func (a *archiveReading) sort() {
	slices.SortStableFunc(a.found, func(x, y Archived) int {
		if x.changes() {
			return cmp.Or(x.begins().Compare(y.begins()), x.Until.Compare(y.Until), cmp.Compare(x.place, y.place))
		}
		return cmp.Or(x.At.Compare(y.At), x.Completed.Compare(y.Completed), cmp.Compare(x.place, y.place))
	})
	for i := 1; i < len(a.found); i++ {
		x, y := &a.found[i-1], &a.found[i]
		if !x.changes() && x.Kind == y.Kind && x.At.Compare(y.At) == 0 && !x.Current && !y.Current { // otherwise it is the same document, listed twice
			a.Warn(y.Uri, fmt.Sprintf("archives of set %s: %s and %s are both of %s; the latter is used", a.Set.Name, fetch.Printable(x.Uri), fetch.Printable(y.Uri), wording.Time(x.At.Time())))
		}
	}
}

// begins returns the time by which a is sorted: its beginning or, if that is
// unknown, its end.
func (a *Archived) begins() resourcesync.Datetime {
	if a.From.IsZero() {
		return a.Until
	}
	return a.From
}

// Closed returns the end of the range that a is known to cover at now: an end in
// the future does not count (RS-AMB-25).
func (a *Archived) Closed(now time.Time) resourcesync.Datetime {
	if a.Until.Time().After(now) {
		return resourcesync.Datetime{}
	}
	return a.Until
}
