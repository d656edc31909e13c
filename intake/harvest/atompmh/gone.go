package atompmh

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"strings"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/internal/fetch"
)

// adopt adds resources of the catalog that the ledger has lost to the ledger.
func (p *applier) adopt(ctx context.Context) error {
	var batch []ledger.Row
	flush := func() error {
		b := batch
		batch = nil
		return p.adoptAll(ctx, b)
	}
	err := p.unowned(ctx, func(r *intake.Row) error {
		id, ours := strings.CutPrefix(r.Token, tokenOfFeed)
		if !ours || id == "" {
			return nil
		}
		rec, ok, err := intake.Held(ctx, p.list.Catalog, p.list.Set, r.URI)
		if err != nil || !ok {
			return err
		}
		batch = append(batch, ledger.Row{ID: id, Updated: rec.Lastmod, Resources: []ledger.Resource{{URI: rec.URI, Type: rec.Type}}})
		if len(batch) < feedBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// adoptAll adds resources to the rows of their records.
func (p *applier) adoptAll(ctx context.Context, rows []ledger.Row) error {
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].ID < rows[j].ID })
	put := rows[:0]
	for _, r := range rows {
		if last := len(put) - 1; last >= 0 && put[last].ID == r.ID {
			put[last].Resources = append(put[last].Resources, r.Resources...)
			continue
		}
		put = append(put, r)
	}
	ids := make([]string, len(put))
	for i := range put {
		ids[i] = put[i].ID
	}
	accounts, err := p.a.ledger.Lookup(ctx, p.list.Set, ids)
	if err != nil {
		return err
	}
	for i, account := range accounts {
		if account.ID == "" {
			continue
		}
		account.Deleted, account.Resources = false, union(account.Resources, put[i].Resources)
		put[i] = account
	}
	return p.a.ledger.Record(ctx, p.list.Set, put, nil)
}

// unowned calls f for the resources of the catalog that no record owns.
func (p *applier) unowned(ctx context.Context, f func(*intake.Row) error) error {
	rows := intake.ReadRows(ctx, p.list.Catalog, p.list.Set, []catalog.Range{{}})
	defer rows.Stop()
	next, stop := iter.Pull2(p.a.ledger.URIs(ctx, p.list.Set))
	defer stop()
	uri, err, more := next()
	for ; err == nil && rows.More(); rows.Next() {
		r := rows.Row()
		for more && err == nil && uri < r.URI {
			uri, err, more = next()
		}
		if err == nil && !(more && uri == r.URI) {
			err = f(r)
		}
	}
	if err == nil {
		err = rows.Err
	}
	return err
}

// tokenOfFeed begins the Tokens of resources from a feed; the record follows.
const tokenOfFeed = "atom-pmh "

// dropGone deletes records that are gone because they are absent, and resources that
// no record ever owned, unless there are too many to be plausible.
func (h *harvest) dropGone(ctx context.Context) error {
	if !h.whole() {
		return nil
	}
	if h.catalogUnknown || !h.old.Whole {
		if err := h.unowned(ctx, func(r *intake.Row) error { return h.strays.Add(r.URI) }); err != nil {
			return err
		}
	}
	records := h.list.Gone.Count
	h.list.Gone.Count += h.strays.Count
	if err := h.list.MayDelete(ctx); err != nil {
		return err
	}
	h.list.Gone.Count = records
	for uri, err := range h.strays.All() {
		if err == nil {
			err = h.list.Put(ctx, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		}
		if err != nil {
			return err
		}
	}
	if err := h.list.Flush(ctx); err != nil {
		return err
	}
	var batch []feedChange
	flush := func() error {
		b := batch
		batch = nil
		return h.applyBatch(ctx, b)
	}
	for id, err := range h.list.Gone.All() {
		if err != nil {
			return err
		}
		batch = append(batch, feedChange{id: id, absent: true})
		if len(batch) == feedBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// ofRecord adds the record to an error.
func ofRecord(id string, err error) error {
	return fmt.Errorf("record %s: %w", fetch.Printable(id), err)
}
