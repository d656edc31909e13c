package atom

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A pendingEntry is an entry to be added to the feed, with the change that causes it.
type pendingEntry struct {
	atompmh.Entry
	seq   catalog.Seq
	event time.Time
}

// A pendingChange combines the changes of a resource since the feed was published.
type pendingChange struct {
	Change  catalog.Change // the last one
	created bool           // the first one created the resource, and the feed does not have it yet
}

// A gathering determines how changes of resources change records.
type gathering struct {
	*update
	changes map[string]*pendingChange
	view    *view
	groups  *groupCache
	through feed                     // its Through is the last change
	entries map[string]*pendingEntry // by identifier
}

func (g *gathering) run(ctx context.Context) (groupMap, error) {
	around := make(map[string]bool)
	for uri, c := range g.changes {
		known, err := g.groups.get(ctx, uri)
		if err != nil {
			return nil, err
		}
		if !known.plain() {
			around[uri] = true
			continue
		}
		if c.Change.Change == resourcesync.Deleted {
			if !c.created { // else the feed never had it
				g.gone(atompmh.RecordID(uri), uri, c)
			}
			continue
		}
		if r := g.view.represent(&c.Change.Record); r.alone() {
			g.there(atompmh.RecordID(uri), r, nil, c)
		} else {
			around[uri] = true
		}
	}
	if len(around) == 0 {
		return nil, nil
	}
	return g.settle(ctx, around)
}

// there adds the entry of an existing record; c is nil if its main resource has not
// changed.
func (g *gathering) there(id string, main *representation, members []*representation, c *pendingChange) {
	e := g.at(c)
	if !g.view.active(&e.Entry, id, main, members) {
		g.result.Refused++
		return
	}
	for _, m := range members {
		if c := g.changes[m.uri]; c != nil && c.Change.Seq > e.seq {
			e.seq, e.event = c.Change.Seq, c.Change.EventTime
		}
	}
	if old := g.entries[id]; old == nil || old.Kind != atompmh.Active || old.seq <= e.seq { // the last one applies
		g.entries[id] = e
	}
}

// gone adds the deletion of a record, unless another resource is that record.
func (g *gathering) gone(id, uri string, c *pendingChange) {
	if old := g.entries[id]; old != nil && old.Kind == atompmh.Active {
		return
	}
	if !absoluteIRI(uri) {
		return
	}
	e := g.at(c)
	g.view.deletion(&e.Entry, id, uri)
	g.entries[id] = e
}

func (g *gathering) at(c *pendingChange) *pendingEntry {
	if c == nil {
		return &pendingEntry{seq: g.through.Through, event: g.through.ThroughTime}
	}
	return &pendingEntry{seq: c.Change.Seq, event: c.Change.EventTime}
}

// settle determines the records of all resources that are related to those in uris,
// before the changes or after them.
func (g *gathering) settle(ctx context.Context, uris map[string]bool) (groupMap, error) {
	affected := make(map[string]bool)
	record := func(uri string) error { // adds a record and all resources that may belong to it
		affected[uri] = true
		known, err := g.groups.get(ctx, uri)
		if err != nil {
			return err
		}
		if known != nil {
			for _, m := range known.Members {
				affected[m] = true
			}
		}
		r, err := g.view.find(ctx, uri)
		if err != nil || r == nil {
			return err
		}
		for _, m := range r.alternates {
			affected[m] = true
		}
		return nil
	}
	for uri := range uris {
		known, err := g.groups.get(ctx, uri)
		if err != nil {
			return nil, err
		}
		of := []string{uri}
		if known != nil && known.Main != "" {
			of = append(of, known.Main)
		}
		r, err := g.view.find(ctx, uri)
		if err != nil {
			return nil, err
		}
		if r != nil && r.canonical != "" {
			of = append(of, r.canonical)
		}
		for _, uri := range of {
			if err := record(uri); err != nil {
				return nil, err
			}
		}
	}
	grouped := make(groupMap)
	for uri := range affected {
		if err := g.place(ctx, uri, grouped); err != nil {
			return nil, err
		}
	}
	return grouped, nil
}

// place determines which record a resource belongs to, and which entries change.
func (g *gathering) place(ctx context.Context, uri string, grouped groupMap) error {
	known, err := g.groups.get(ctx, uri)
	if err != nil {
		return err
	}
	r, err := g.view.find(ctx, uri)
	if err != nil {
		return err
	}
	c := g.changes[uri]
	oldID := "" // the identifier of its record in the feed
	if c != nil && !c.created || c == nil && (r != nil || known != nil) {
		oldID = atompmh.RecordID(uri)
		if known != nil {
			oldID = cmp.Or(known.ID, oldID)
		}
		if known != nil && known.Main != "" {
			oldID = ""
		}
	}
	var now *group
	if r != nil {
		main, id, members, err := g.view.place(ctx, r)
		if err != nil {
			return err
		}
		now = groupOf(uri, main, id, members)
		changed := oldID != id || c != nil || !known.equal(now) || slices.ContainsFunc(members, func(m *representation) bool { return g.changes[m.uri] != nil })
		if main == "" && changed {
			g.there(id, r, members, c)
		}
		if main == "" && oldID == id {
			oldID = ""
		}
	}
	if !known.equal(now) {
		grouped[uri] = now
	}
	if err := g.own(ctx, uri, known, now, grouped); err != nil {
		return err
	}
	if oldID == "" {
		return nil
	}
	return g.leave(ctx, oldID, uri, c, grouped)
}

// own records which resources have an identifier. There should be only one at any time;
// but if a record moves to another resource, the new one may appear before the old one
// is deleted.
func (g *gathering) own(ctx context.Context, uri string, known, now *group, grouped groupMap) error {
	var was, is string
	if known != nil {
		was = known.ID
	}
	if now != nil {
		is = now.ID
	}
	for id, has := range map[string]bool{was: false, is: true} {
		if id == "" || was == is {
			continue
		}
		owners, err := g.owners(ctx, id, grouped)
		if err != nil {
			return err
		}
		owners = slices.DeleteFunc(slices.Clone(owners), func(o string) bool { return o == uri })
		if has {
			owners = append(owners, uri)
		}
		grouped[ownersKey(id)] = &group{Members: owners}
	}
	return nil
}

func (g *gathering) owners(ctx context.Context, id string, grouped groupMap) ([]string, error) {
	all, ok := grouped[ownersKey(id)]
	if !ok {
		var err error
		if all, err = g.groups.get(ctx, ownersKey(id)); err != nil {
			return nil, err
		}
	}
	if all == nil {
		return nil, nil
	}
	return all.Members, nil
}

// leave handles a resource that is no longer the record id: the record is deleted,
// unless another resource is it.
func (g *gathering) leave(ctx context.Context, id, uri string, c *pendingChange, grouped groupMap) error {
	owners, err := g.owners(ctx, id, grouped)
	if err != nil {
		return err
	}
	for _, o := range owners {
		r, err := g.view.find(ctx, o)
		if err != nil {
			return err
		}
		if r == nil || o == uri {
			continue
		}
		main, is, members, err := g.view.place(ctx, r)
		if err != nil {
			return err
		}
		if main == "" && is == id {
			if g.entries[id] == nil {
				g.there(id, r, members, c)
			}
			return nil
		}
	}
	g.gone(id, uri, c)
	return nil
}
