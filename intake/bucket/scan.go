package bucket

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
)

// scan is one run of a Bucket.
type scan struct {
	b      *Bucket
	sorted listed.Sorter // the listing, sorted
	packed []byte        // scratch
	gone   listed.URIs   // URIs for which no object was listed
	proof  proof
	jobs   chan job
	ready  chan catalog.Update

	intake.Tally

	liesMu sync.Mutex // guards lies
	lies   intake.Problems
}

// A job is an object to be examined.
type job struct {
	object
	key, uri string
}

func newScan(b *Bucket) *scan {
	return &scan{
		b: b, Tally: intake.Tally{Reporter: &b.events, Start: time.Now()},
		sorted: listed.Sorter{Dir: b.o.TempDir},
		gone:   listed.URIs{Dir: b.o.TempDir},
		jobs:   make(chan job, b.o.Requests),
		ready:  make(chan catalog.Update, intake.BatchRows),
	}
}

func (s *scan) close() {
	s.sorted.Close()
	s.gone.Close()
}

// run lists the bucket, then compares the listing with the catalog.
//
// Order of writes: updates as they are found; deletions after everything else has
// succeeded and the object of each deletion has been requested once more. After a
// scan was killed at any point the next one continues from the catalog it left.
func (s *scan) run(ctx context.Context) error {
	defer s.Progress()()
	if err := s.list(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(s.jobs)
		return s.merge(gctx)
	})
	g.Go(func() error {
		defer close(s.ready)
		return s.lookAll(gctx)
	})
	g.Go(func() error { return s.applyAll(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := s.listingError(); err != nil {
		return err
	}
	return s.deleteGone(ctx)
}

// merge compares the listing with the set, both in the order of URIs.
func (s *scan) merge(ctx context.Context) error {
	rows := intake.ReadRows(ctx, s.b.cat, s.b.set, []catalog.Range{{}})
	defer rows.Stop()
	err := s.sorted.All(ctx, func(l *listed.Entry) error { return s.meet(ctx, rows, parseObject(string(l.URI), l.Packed)) })
	if err != nil {
		return err
	}
	return rows.Rest(s.gone.Add)
}

// meet compares an object with the catalog row of the same URI.
func (s *scan) meet(ctx context.Context, rows *intake.Rows, o object) error {
	uri := s.b.base + o.path
	for rows.More() && rows.Row().URI < uri {
		if err := s.gone.Add(rows.Row().URI); err != nil {
			return err
		}
		rows.Next()
	}
	if rows.Err != nil {
		return rows.Err
	}
	if rows.More() && rows.Row().URI == uri {
		old := rows.Row().Token
		rows.Next()
		if old == s.b.token(&o) {
			s.Unchanged.Add(1)
			return nil
		}
	}
	select {
	case s.jobs <- job{o, o.key(), uri}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookAll examines the objects that are new or may have changed.
func (s *scan) lookAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range s.b.o.Requests {
		g.Go(func() error {
			l := newLooker(s)
			for j := range s.jobs {
				rec, err := l.look(ctx, &j)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				switch {
				case errors.Is(err, blob.ErrNotExist):
					s.Skipped(j.key, errNoObject)
					continue
				case errors.Is(err, errLie):
					if err := s.lie(j.key, err); err != nil {
						return err
					}
					fallthrough
				case err != nil:
					s.Unreadable(j.key, err)
					continue
				}
				select {
				case s.ready <- catalog.Update{Record: rec}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// applyAll applies finished updates to the catalog.
func (s *scan) applyAll(ctx context.Context) error {
	tick := time.NewTicker(intake.ApplyEvery)
	defer tick.Stop()
	var batch []catalog.Update
	flush := func() error {
		slices.SortFunc(batch, func(x, y catalog.Update) int { return strings.Compare(x.URI, y.URI) })
		err := s.apply(ctx, batch)
		batch = nil // the catalog may retain it
		return err
	}
	for {
		select {
		case u, ok := <-s.ready:
			if !ok {
				return flush()
			}
			if batch = append(batch, u); len(batch) < intake.BatchRows {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := flush(); err != nil {
			return err
		}
	}
}

// deleteGone deletes the resources for which no object was listed, once every
// such object has been requested.
func (s *scan) deleteGone(ctx context.Context) error {
	if s.gone.Count == 0 {
		return nil
	}
	if s.Files.Load() == 0 && !s.b.o.AllowEmpty {
		st, err := s.b.cat.Status(ctx, s.b.set)
		if err != nil {
			return err
		}
		if st.Resources > 0 {
			return &intake.EmptyError{Root: s.b.objects.String(), Resources: st.Resources, Listing: true}
		}
	}
	sure := listed.URIs{Dir: s.b.o.TempDir}
	defer sure.Close()
	for batch, err := range chunks(&s.gone) {
		if err == nil {
			err = s.absent(ctx, batch, &sure)
		}
		if err != nil {
			return err
		}
	}
	if err := s.listingError(); err != nil {
		return err
	}
	for batch, err := range chunks(&sure) {
		var us []catalog.Update
		for _, uri := range batch {
			us = append(us, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		}
		if err == nil {
			err = s.apply(ctx, us)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// chunks yields the URIs of sp in batches.
func chunks(sp *listed.URIs) func(func([]string, error) bool) {
	return func(yield func([]string, error) bool) {
		var batch []string
		for uri, err := range sp.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, uri); len(batch) == intake.BatchRows {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// absent requests the objects of uris, none of which was listed, and adds to sure
// those that do not exist.
func (s *scan) absent(ctx context.Context, uris []string, sure *listed.URIs) error {
	there := make([]bool, len(uris))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.b.o.Requests)
	for i, uri := range uris {
		key, ok := s.b.Key(uri)
		if !ok || !s.b.filter.Passes(key) {
			continue
		}
		g.Go(func() error {
			h, err := s.b.objects.Head(gctx, key)
			there[i] = !errors.Is(err, blob.ErrNotExist)
			switch {
			case gctx.Err() != nil:
				return gctx.Err()
			case err == nil && s.older(h):
				return s.lie(key, errUnlisted)
			case err != nil && there[i]:
				s.Unreadable(key, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, uri := range uris {
		if there[i] {
			continue
		}
		if err := sure.Add(uri); err != nil {
			return err
		}
	}
	return nil
}

// older reports whether an object existed before the scan began, by the clock of
// the service.
func (s *scan) older(h http.Header) bool {
	mod, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return true
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	began := now.Add(-time.Since(s.Start)).Add(-filestat.CoarseTick) // both headers have a resolution of one second
	return mod.Before(began)
}

func (s *scan) apply(ctx context.Context, batch []catalog.Update) error {
	if len(batch) == 0 {
		return nil
	}
	a, err := s.b.cat.Apply(ctx, s.b.set, batch)
	if err != nil {
		return err
	}
	s.Applied(a)
	return nil
}
