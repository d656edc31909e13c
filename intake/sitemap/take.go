package sitemap

import (
	"context"

	"golang.org/x/sync/errgroup"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/listed"
)

// An ask is a resource whose record may have to be updated, perhaps after its content
// was requested from its server.
type ask struct {
	part  uint32
	token entryToken
	said  catalog.Record // as the Sitemap describes it
	known bool           // the catalog has the resource
	fetch bool           // its content has to be requested

	update  bool // said is to be applied to the catalog
	failure error
}

// take brings the set in step with the documents read. It reports again if all
// documents have to be read to find out which resources are gone.
func (r *reading) take(ctx context.Context) (again bool, err error) {
	g, gctx := errgroup.WithContext(ctx)
	asks, answers := make(chan *ask), make(chan *ask, r.s.client.Jobs())
	g.Go(func() error {
		defer close(asks)
		return r.list.Compare(gctx, func(it *listed.Entry, token string, known bool) error {
			return r.met(gctx, it, token, known, asks)
		}, func(row *intake.Row) error {
			return r.left(gctx, row, asks, &again)
		})
	})
	g.Go(func() error {
		defer close(answers)
		return r.fetchAll(gctx, asks, answers)
	})
	g.Go(func() error { return r.applyAll(gctx, answers) })
	if err := g.Wait(); err != nil {
		return false, err
	}
	return again && !r.list.Incomplete.Load(), nil
}

// met compares the entry of a resource with its record in the catalog.
func (r *reading) met(ctx context.Context, it *listed.Entry, token string, known bool, asks chan<- *ask) error {
	r.list.Files.Add(1)
	r.said = append(append(r.said[:0], it.Packed...), r.rules...)
	said := string(listed.AppendFingerprint(nil, r.said))
	id := r.ids[it.Part]
	old, ours := parseToken(token)
	known = known && ours
	if known && old.part != id {
		if _, ok := r.asIs[old.part]; ok {
			r.now.Shared = true
		}
	}
	same := known && old.said == said
	if same && !old.ask && old.part == id {
		r.list.Unchanged.Add(1)
		return nil
	}
	rec, err := listed.ParseRecord(it.Packed)
	if err != nil {
		return err
	}
	rec.URI = string(it.URI)
	a := &ask{part: it.Part, said: rec, known: known, token: entryToken{part: id, said: said}, update: true}
	switch {
	case !r.s.o.Content || len(rec.Hashes) > 0 && rec.Length >= 0:
	case same:
		// The record is still valid, but the entry is in another document, or the
		// resource's server has to be asked.
		kept, ok, err := intake.Held(ctx, r.list.Catalog, r.list.Set, rec.URI)
		if err != nil {
			return err
		}
		a.token.ask, a.update = undated(&rec), old.part != id
		if ok && len(kept.Hashes) > 0 {
			a.said, a.token.etag, a.token.modified = kept, old.etag, old.modified
			a.fetch = a.token.ask
		} else {
			a.fetch = true
		}
	default:
		a.token.ask, a.fetch = undated(&rec), true
	}
	a.said.Token = a.token.String()
	return r.send(ctx, asks, a)
}

// left handles a resource that is listed in none of the documents that were read.
func (r *reading) left(ctx context.Context, row *intake.Row, asks chan<- *ask, again *bool) error {
	old, ours := parseToken(row.Token)
	if _, ok := r.asIs[old.part]; ok {
		r.list.Files.Add(1)
		if !old.ask || !r.s.o.Content {
			r.list.Unchanged.Add(1)
			return nil
		}
		rec, ok, err := intake.Held(ctx, r.list.Catalog, r.list.Set, row.URI)
		if err != nil || !ok {
			return err
		}
		r.now.Undated = true
		return r.send(ctx, asks, &ask{part: noPart, token: old, said: rec, known: true, fetch: true})
	}
	if len(r.asIs) > 0 && (!ours || r.old.Shared) {
		*again = true // an unchanged document may list it
	}
	if gone, err := r.missed.has(row.URI); err != nil {
		return err
	} else if !gone { // it may have moved while the documents were read this time
		r.doubtful[old.part] = struct{}{}
		return nil
	}
	if _, ok := r.lost[old.part]; !ok {
		r.strayed[old.part] = struct{}{}
	}
	return r.list.Gone.Add(row.URI)
}

// noPart is the part of a resource whose document was not read.
const noPart = ^uint32(0)

func (r *reading) send(ctx context.Context, asks chan<- *ask, a *ask) error {
	if a.token.ask {
		r.now.Undated = true
	}
	select {
	case asks <- a:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetchAll fetches the contents of asks, as many at a time as the client allows.
func (r *reading) fetchAll(ctx context.Context, asks <-chan *ask, answers chan<- *ask) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := 1
	if r.s.o.Content {
		workers = r.s.client.Jobs()
	}
	for range workers {
		g.Go(func() error {
			f := r.newFetcher()
			for a := range asks {
				if a.fetch {
					if err := f.fetch(ctx, a); err != nil {
						return err
					}
				}
				select {
				case answers <- a:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// applyAll applies the answers to the catalog.
func (r *reading) applyAll(ctx context.Context, answers <-chan *ask) error {
	for a := range answers {
		switch {
		case a.failure != nil:
			r.list.Unreadable(a.said.URI, a.failure)
			if a.part != noPart {
				r.failed[a.part] = true
			}
		case a.update:
			if err := r.list.Put(ctx, catalog.Update{Record: a.said}); err != nil {
				return err
			}
		default:
			r.list.Unchanged.Add(1)
		}
	}
	return r.list.Flush(ctx)
}
