package intake

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
	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/listed"
)

// bucketScan is one run of a Bucket.
type bucketScan struct {
	b      *Bucket
	sorted listed.Sorter // the listing
	packed []byte        // scratch
	gone   listed.URIs   // URIs no object was listed for
	proof  proof
	jobs   chan bucketJob
	ready  chan catalog.Update

	tally

	liesMu sync.Mutex // guards lies
	lies   Problems
}

// A bucketJob is an object to be looked at.
type bucketJob struct {
	object
	key, uri string
}

func newBucketScan(b *Bucket) *bucketScan {
	return &bucketScan{
		b: b, tally: tally{teller: &b.events, start: time.Now()},
		sorted: listed.Sorter{Dir: b.o.TempDir},
		gone:   listed.URIs{Dir: b.o.TempDir},
		jobs:   make(chan bucketJob, b.o.Requests),
		ready:  make(chan catalog.Update, BatchRows),
	}
}

func (s *bucketScan) close() {
	s.sorted.Close()
	s.gone.Close()
}

// run lists the bucket, then compares the listing with the catalog.
//
// Order of writes: updates as they come; deletions when all else has succeeded,
// and every one of them has been looked at. A scan killed at any point leaves a
// catalog from which the next one goes on.
func (s *bucketScan) run(ctx context.Context) error {
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
func (s *bucketScan) merge(ctx context.Context) error {
	rows := readRows(ctx, s.b.cat, s.b.set, []catalog.Range{{}})
	defer rows.stop()
	err := s.sorted.All(ctx, func(l *listed.Entry) error { return s.meet(ctx, rows, parseObject(string(l.URI), l.Packed)) })
	if err != nil {
		return err
	}
	for rows.more() {
		if err := s.gone.Add(rows.row().URI); err != nil {
			return err
		}
		rows.next()
	}
	return rows.err
}

// meet compares an object with the row that stands at its place.
func (s *bucketScan) meet(ctx context.Context, rows *rows, o object) error {
	uri := s.b.base + o.path
	for rows.more() && rows.row().URI < uri {
		if err := s.gone.Add(rows.row().URI); err != nil {
			return err
		}
		rows.next()
	}
	if rows.err != nil {
		return rows.err
	}
	if rows.more() && rows.row().URI == uri {
		old := rows.row().Token
		rows.next()
		if old == s.b.token(&o) {
			s.Unchanged.Add(1)
			return nil
		}
	}
	select {
	case s.jobs <- bucketJob{o, o.key(), uri}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookAll looks at the objects that are new or may have changed.
func (s *bucketScan) lookAll(ctx context.Context) error {
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

// applyAll puts into the catalog what is ready.
func (s *bucketScan) applyAll(ctx context.Context) error {
	tick := time.NewTicker(applyEvery)
	defer tick.Stop()
	var batch []catalog.Update
	flush := func() error {
		slices.SortFunc(batch, func(x, y catalog.Update) int { return strings.Compare(x.URI, y.URI) })
		err := s.apply(ctx, batch)
		batch = nil // the catalog may keep it
		return err
	}
	for {
		select {
		case u, ok := <-s.ready:
			if !ok {
				return flush()
			}
			if batch = append(batch, u); len(batch) < BatchRows {
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
// object has been asked for.
func (s *bucketScan) deleteGone(ctx context.Context) error {
	if s.gone.Count == 0 {
		return nil
	}
	if s.Files.Load() == 0 && !s.b.o.AllowEmpty {
		st, err := s.b.cat.Status(ctx, s.b.set)
		if err != nil {
			return err
		}
		if st.Resources > 0 {
			return &EmptyError{Root: s.b.objects.String(), Resources: st.Resources, listing: true}
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

// chunks yields the URIs of sp, a batch at a time.
func chunks(sp *listed.URIs) func(func([]string, error) bool) {
	return func(yield func([]string, error) bool) {
		var batch []string
		for uri, err := range sp.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, uri); len(batch) == BatchRows {
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

// absent asks for the objects of uris, none of which was listed, and adds to
// sure those that are not there.
func (s *bucketScan) absent(ctx context.Context, uris []string, sure *listed.URIs) error {
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

// older reports whether an object was there before the scan began, by the clock
// of the service.
func (s *bucketScan) older(h http.Header) bool {
	mod, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return true
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	began := now.Add(-time.Since(s.start)).Add(-filestat.CoarseTick) // both headers count in seconds
	return mod.Before(began)
}

func (s *bucketScan) apply(ctx context.Context, batch []catalog.Update) error {
	if len(batch) == 0 {
		return nil
	}
	a, err := s.b.cat.Apply(ctx, s.b.set, batch)
	if err != nil {
		return err
	}
	s.applied(a)
	return nil
}
