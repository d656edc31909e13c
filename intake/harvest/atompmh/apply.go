package atompmh

import (
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/listed"
	"lockstep/resourcesync"
)

// A feedChange is a change of a record that has to be applied.
type feedChange struct {
	id      string // as in the ledger
	updated time.Time
	statement
	absent bool // it is no longer in the feed

	open    ledger.Open     // why the state of the record is not certain
	content []contentOfFeed // of the resources, if it was fetched
}

// recordID returns the identifier of the record itself.
func (c *feedChange) recordID() string {
	if c.statement.id != "" {
		return c.statement.id
	}
	return c.id
}

// applyAll applies the sorted changes: AP-HV-03, 7.
func (p *applier) applyAll(ctx context.Context) error {
	var batch []feedChange
	size, most := 0, feedBatch
	if p.a.o.Content {
		most = feedBatchFetched
	}
	flush := func() error {
		b := batch
		batch, size = nil, 0
		return p.applyBatch(ctx, b)
	}
	err := p.order.All(ctx, func(it *listed.Entry) error {
		batch = append(batch, feedChange{id: string(it.URI[timeSize:]), updated: parseTime(it.URI), statement: parseStatement(it.Packed)})
		if size += len(it.Packed); len(batch) < most && size < feedBatchBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// An applier applies changes of records to the catalog and the ledger. If the entries
// do not determine the state of a record it fetches the representations.
type applier struct {
	list  *intake.Listing // its sorter contains entries by record and time; gone, records
	a     *Harvester
	order listed.Sorter // changes to be applied, by time

	blank        bool // the ledger is empty
	unremembered bool // if this harvest is cut off the next one reads everything: changes need no claims

	pending atomic.Bool // a representation was found missing
	asked   sync.Map    // records whose state could not be determined in this harvest
}

// A feedStep is one step: a batch of changes to be written to the catalog and the
// ledger.
type feedStep struct {
	updates []catalog.Update
	claims  []ledger.Row // what the step is about to do
	put     []ledger.Row
	drop    []string
	named   map[string]bool // URIs that the rows in put own
	removed []string        // URIs that previous rows owned, and no row in put owns
}

// applyBatch applies changes to the catalog and records them in the ledger. Each is
// claimed beforehand, so that even if the process ends at any point every resource
// has an owner and no ledger row disagrees with the catalog: see recover.
func (p *applier) applyBatch(ctx context.Context, changes []feedChange) error {
	if len(changes) == 0 {
		return nil
	}
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = changes[i].id
	}
	rows, err := p.lookup(ctx, ids)
	if err != nil {
		return err
	}
	if err := p.ask(ctx, changes, rows); err != nil {
		return err
	}
	s := feedStep{named: make(map[string]bool)}
	for i := range changes {
		p.step(&s, &changes[i], &rows[i])
	}
	if err := p.release(ctx, &s, ids); err != nil {
		return err
	}
	if len(s.updates) > 0 {
		if !p.unremembered {
			if err := p.a.ledger.Record(ctx, p.list.Set, s.claims, nil); err != nil {
				return err
			}
			for i := range s.put {
				s.put[i].New = false
			}
		}
		a, err := p.list.Catalog.Apply(ctx, p.list.Set, s.updates)
		if err != nil {
			return err
		}
		p.list.Applied(a)
	}
	// Rows that are near each other in a database are written together.
	sort.SliceStable(s.put, func(i, j int) bool { return s.put[i].ID < s.put[j].ID })
	return p.a.ledger.Record(ctx, p.list.Set, s.put, s.drop)
}

// recover finishes changes that a harvest claimed but did not record.
func (p *applier) recover(ctx context.Context) error {
	for {
		var batch []feedChange
		for row, err := range p.a.ledger.Open(ctx, p.list.Set) {
			if err != nil {
				return err
			}
			if row.Open != ledger.OpenClaim {
				continue
			}
			batch = append(batch, feedChange{
				id: row.ID, updated: row.Updated, absent: row.Deleted && row.Updated.IsZero(), statement: statement{deleted: row.Deleted, resources: row.Next},
			})
			if len(batch) == feedBatch {
				break
			}
		}
		if len(batch) == 0 {
			return nil
		}
		if err := p.applyBatch(ctx, batch); err != nil {
			return err
		}
	}
}

// step adds the changes of one record to s.
func (p *applier) step(s *feedStep, c *feedChange, row *ledger.Row) {
	if c.absent {
		if row.ID != "" {
			s.drop = append(s.drop, c.id)
			s.claims = append(s.claims, ledger.Row{ID: c.id, Deleted: true, Open: ledger.OpenClaim, Resources: row.Resources})
			s.disown(row.Resources, nil)
		}
		return
	}
	next := ledger.Row{ID: c.id, Updated: c.updated, Deleted: c.deleted, Open: c.open, New: row.ID == ""}
	switch {
	case c.open != ledger.OpenNothing:
		// The present resources stay until the state of the record is known.
		next.Deleted, next.Resources, next.Next = row.Deleted, row.Resources, c.resources
	case c.deleted:
	case len(c.resources) == 0 && p.a.o.KeepVanished:
		next.Resources = row.Resources
	default: // AP-CDL-07: a record without a requested representation counts as deleted
		next.Resources = c.resources
		for i := range c.resources {
			s.updates = append(s.updates, catalog.Update{Record: c.record(i)})
		}
	}
	for _, r := range next.Resources {
		s.named[r.URI] = true
	}
	s.put = append(s.put, next)
	if c.open == ledger.OpenNothing {
		s.claims = append(s.claims, ledger.Row{
			ID: c.id, Updated: c.updated, Deleted: c.deleted, Open: ledger.OpenClaim, Resources: union(next.Resources, row.Resources), Next: next.Resources, New: next.New,
		})
	}
	s.disown(row.Resources, next.Resources)
}

// union returns a followed by the elements that only b contains.
func union(a, b []ledger.Resource) []ledger.Resource {
	here := make(map[string]bool, len(a))
	for _, r := range a {
		here[r.URI] = true
	}
	all := slices.Clone(a)
	for _, r := range b {
		if !here[r.URI] {
			all = append(all, r)
		}
	}
	return all
}

// disown records the resources that a record owned before and no longer owns.
func (s *feedStep) disown(before, after []ledger.Resource) {
	for _, r := range union(after, before)[len(after):] {
		s.removed = append(s.removed, r.URI)
	}
}

// record returns the catalog record of the i-th resource of c.
func (c *feedChange) record(i int) catalog.Record {
	r := recordOf(c.recordID(), c.updated, c.resources, i)
	r.Token = tokenOfFeed + c.id
	if i < len(c.content) {
		c.content[i].complete(&r)
	}
	return r
}

// recordOf returns the catalog record of the i-th resource of the record id.
func recordOf(id string, updated time.Time, resources []ledger.Resource, i int) catalog.Record {
	r := catalog.Record{URI: resources[i].URI, Type: resources[i].Type, Length: -1}
	if y := updated.UTC().Year(); y >= 1 && y <= 9999 { // documents cannot represent other years
		r.Lastmod = updated.UTC().Truncate(time.Microsecond)
	}
	link := func(l resourcesync.Link) {
		if entry.CheckListed(&resourcesync.Entry{Loc: r.URI, Links: []resourcesync.Link{l}}) == nil {
			r.Links = append(r.Links, l)
		}
	}
	if !strings.HasPrefix(id, hashedID) {
		link(resourcesync.Link{Rel: catalog.RelRecord, Href: id}) // AP-RS-03
	}
	if i > 0 {
		link(resourcesync.Link{Rel: "canonical", Href: resources[0].URI})
		return r
	}
	for _, other := range resources[1:] {
		link(resourcesync.Link{Rel: "alternate", Href: other.URI, Type: other.Type})
	}
	return r
}

// release deletes the resources that no record owns any more. A resource that a
// record outside this step also owns is reassigned to that record.
func (p *applier) release(ctx context.Context, s *feedStep, ids []string) error {
	slices.Sort(s.removed)
	removed := slices.DeleteFunc(slices.Compact(s.removed), func(uri string) bool { return s.named[uri] })
	if len(removed) == 0 {
		return nil
	}
	here := make(map[string]bool, len(ids))
	for _, id := range ids {
		here[id] = true
	}
	owners, err := p.a.ledger.Owners(ctx, p.list.Set, removed, func(id string) bool { return here[id] })
	if err != nil {
		return err
	}
	for i, uri := range removed {
		u := catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
		if owners[i] != "" {
			if u, err = p.handOver(ctx, uri, owners[i]); err != nil {
				return err
			}
		}
		s.updates = append(s.updates, u)
	}
	return nil
}

// handOver reassigns a resource to another record that names it.
func (p *applier) handOver(ctx context.Context, uri, owner string) (catalog.Update, error) {
	rows, err := p.a.ledger.Lookup(ctx, p.list.Set, []string{owner})
	if err != nil {
		return catalog.Update{}, err
	}
	now, _, err := intake.Held(ctx, p.list.Catalog, p.list.Set, uri)
	if err != nil {
		return catalog.Update{}, err
	}
	row := &rows[0]
	i := slices.IndexFunc(row.Resources, func(r ledger.Resource) bool { return r.URI == uri })
	if i < 0 {
		return catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}, nil // unreachable: the ledger listed it
	}
	r := recordOf(owner, row.Updated, row.Resources, i)
	r.Token = tokenOfFeed + owner
	if len(now.Hashes) > 0 {
		r.Hashes, r.Length, r.Type, r.Encoding = now.Hashes, now.Length, now.Type, now.Encoding
	}
	return catalog.Update{Record: r}, nil
}
