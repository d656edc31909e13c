package intake

import (
	"context"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A Row is the part of a Record that a comparison needs.
type Row struct{ URI, Token string }

// Rows reads ahead in the catalog, one page per transaction: changes that are applied
// meanwhile concern rows that were already read.
type Rows struct {
	pages  chan page
	cancel context.CancelFunc
	page   []Row
	Err    error
}

type page struct {
	rows []Row
	err  error
}

// ReadRows begins to read the rows in ranges. The caller calls [Rows.Stop].
func ReadRows(ctx context.Context, cat catalog.Catalog, set string, ranges []catalog.Range) *Rows {
	ctx, cancel := context.WithCancel(ctx)
	r := &Rows{pages: make(chan page, 2), cancel: cancel}
	go func() {
		defer close(r.pages)
		for _, rg := range ranges {
			for more := true; more; {
				var p page
				p, more = readPage(ctx, cat, set, &rg)
				select {
				case r.pages <- p:
				case <-ctx.Done():
					return
				}
				if p.err != nil {
					return
				}
			}
		}
	}()
	return r
}

// readPage reads the next rows of rg, moves the start of rg past them and reports
// whether there may be more.
func readPage(ctx context.Context, cat catalog.Catalog, set string, rg *catalog.Range) (page, bool) {
	p := page{rows: make([]Row, 0, 64)}
	for rec, err := range cat.Resources(ctx, set, *rg) {
		if err != nil {
			return page{err: err}, false
		}
		p.rows = append(p.rows, Row{rec.URI, rec.Token})
		if len(p.rows) == pageRows {
			rg.From = rec.URI + "\x00"
			return p, true
		}
	}
	return p, false
}

// More reports whether there is a row.
func (r *Rows) More() bool {
	for len(r.page) == 0 {
		p, ok := <-r.pages
		if !ok {
			return false
		}
		if p.err != nil {
			r.Err = p.err
		}
		r.page = p.rows
	}
	return true
}

// Row returns the current row. The last call of [Rows.More] must have returned true.
func (r *Rows) Row() *Row { return &r.page[0] }

// Next advances to the next row.
func (r *Rows) Next() { r.page = r.page[1:] }

// Rest calls f with the URI of each remaining row.
func (r *Rows) Rest(f func(uri string) error) error {
	for r.More() {
		if err := f(r.Row().URI); err != nil {
			return err
		}
		r.Next()
	}
	return r.Err
}

// Stop stops reading and waits until the goroutine has ended.
func (r *Rows) Stop() {
	r.cancel()
	for range r.pages {
	}
}

// Held returns the record of one resource, without patches: each belongs to an
// earlier change.
func Held(ctx context.Context, cat catalog.Catalog, set, uri string) (catalog.Record, bool, error) {
	rec, ok, err := catalog.Find(ctx, cat, set, uri)
	rec.Links = slices.DeleteFunc(rec.Links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelPatch })
	return rec, ok, err
}

// ApplyEvery bounds how long an entry waits for its batch to fill.
const ApplyEvery = time.Second

// Sizes of reads from and writes to a catalog. They bound the memory of a scan.
const (
	pageRows  = 4 << 10 // rows read in one transaction
	BatchRows = 4 << 10 // updates applied in one transaction
)
