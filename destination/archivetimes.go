package destination

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

// date asks documents of which times they are, where no archive says it
// (RA-RES-04, RA-IDX-04). Those that cannot be read are left out.
func (a *archiveReading) date(ctx context.Context) error {
	var undated []*archived
	for i := range a.found {
		if d := &a.found[i]; d.undated() && !d.dated && len(undated) < maxUndated {
			undated = append(undated, d)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(a.jobs, maxReaders))
	for _, d := range undated {
		g.Go(func() error {
			err := a.confirm(gctx, d)
			if err == nil || gctx.Err() != nil {
				return context.Cause(gctx)
			}
			d.kind = "" // gone
			return a.leaveOut(gctx, d.uri, err)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range a.found {
		a.found[i].guess()
	}
	a.found = slices.DeleteFunc(a.found, func(d archived) bool { return d.kind == "" || !d.changes() && d.at.IsZero() })
	return nil
}

// guess takes the time at which the document was written for the one it is of,
// where nothing better is known (RA-VER-02).
func (d *archived) guess() {
	switch {
	case d.changes() && d.until.IsZero() && d.from.IsZero() && !d.current:
		d.until, d.approx = d.lastmod, true
	case !d.changes() && d.at.IsZero():
		d.at, d.approx = d.lastmod, true
	}
}

// take copies what the document itself states about its times.
func (d *archived) take(h *resourcesync.Header) {
	d.dated = true
	if h.Capability.Changes() {
		if !h.FromUnproven {
			d.from = h.From
		}
		if d.until = h.Until; h.Living && d.current {
			d.until = resourcesync.Datetime{} // RS-VER-10
		}
		return
	}
	if !h.At.IsZero() {
		d.at, d.completed, d.approx = h.At, h.Completed, h.Approximate
	}
}

// confirm opens a document to learn of which time it is, unless it was asked
// already. Where it says otherwise than the archive, the document is right, and
// that is warned of (RA-DOC-10). What is there now may be of another kind than
// what the archive says; that is an error.
func (r *setReader) confirm(ctx context.Context, d *archived) error {
	if d.dated {
		return nil
	}
	doc, err := r.open(ctx, d.uri, saved.Validators{})
	if err != nil {
		return err
	}
	defer doc.Close()
	if err := expect(doc, d.kind, 1); err != nil {
		return err
	}
	said := *d
	d.take(&doc.Header)
	d.differs(r, &said)
	return nil
}

// differs warns if what a document says of its times is not what was said of it.
func (d *archived) differs(r *setReader, said *archived) {
	for _, t := range [...]struct {
		name      string
		said, own resourcesync.Datetime
	}{{"at", said.at, d.at}, {"completed", said.completed, d.completed}, {"from", said.from, d.from}, {"until", said.until, d.until}} {
		if t.said.IsZero() || t.own.IsZero() || t.said.Compare(t.own) == 0 {
			continue
		}
		r.mu.Lock()
		r.warn(d.uri, fmt.Sprintf("read %s: its %s is %s, the archive says %s; the document is right", fetch.Printable(d.uri), t.name, wording.Time(t.own.Time()), wording.Time(t.said.Time())))
		r.mu.Unlock()
	}
}

// sort puts snapshots in order of their instants, and changes of their
// beginnings, whatever order they were listed in (RA-RES-03, RA-CHG-06).
func (a *archiveReading) sort() {
	slices.SortStableFunc(a.found, func(x, y archived) int {
		if x.changes() {
			return cmp.Or(x.begins().Compare(y.begins()), x.until.Compare(y.until), cmp.Compare(x.place, y.place))
		}
		return cmp.Or(x.at.Compare(y.at), x.completed.Compare(y.completed), cmp.Compare(x.place, y.place))
	})
	for i := 1; i < len(a.found); i++ {
		x, y := &a.found[i-1], &a.found[i]
		if !x.changes() && x.kind == y.kind && x.at.Compare(y.at) == 0 && !x.current && !y.current { // else it is the same, written twice
			a.warn(y.uri, fmt.Sprintf("archives of set %s: %s and %s are both of %s; the latter is used", a.set.Name, fetch.Printable(x.uri), fetch.Printable(y.uri), wording.Time(x.at.Time())))
		}
	}
}

// begins returns the time by which a is sorted: its beginning or, if that is
// not known, its end.
func (a *archived) begins() resourcesync.Datetime {
	if a.from.IsZero() {
		return a.until
	}
	return a.from
}

// closed is the end of what a is known to cover at now: an end in the future
// does not count (RS-AMB-25).
func (a *archived) closed(now time.Time) resourcesync.Datetime {
	if a.until.Time().After(now) {
		return resourcesync.Datetime{}
	}
	return a.until
}
