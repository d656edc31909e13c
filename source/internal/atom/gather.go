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

// A pendingEntry is an entry to be, by the change that calls for it.
type pendingEntry struct {
	atompmh.Entry
	seq   catalog.Seq
	event time.Time
}

// A pending change is what happened to a resource since the feed was published.
type pendingChange struct {
	Change  catalog.Change // the last
	created bool           // the first made it, and no feed has it, as far as the build saw it coming
}

// A gathering finds out what changes mean for records.
type gathering struct {
	*update
	changes map[string]*pendingChange
	view    *view
	groups  *groupCache
	through feed                     // where the changes end
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
			if !c.created { // else no feed had it
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

// there notes the entry of a record; c may be nil where it has not changed itself.
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
	if old := g.entries[id]; old == nil || old.Kind != atompmh.Active || old.seq <= e.seq { // the last one is the record
		g.entries[id] = e
	}
}

// gone notes that a record is deleted, unless it is found elsewhere.
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

// settle finds the places of all resources that those in uris may have to do with:
// had before, or have now.
func (g *gathering) settle(ctx context.Context, uris map[string]bool) (groupMap, error) {
	affected := make(map[string]bool)
	record := func(uri string) error { // a record, and all that may belong to it
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

// place finds out which record a resource belongs to, and which entries change by that.
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
	oldID := "" // the identifier of the record it had in the feed
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

// own notes which resources have been given an identifier. Only one should be at
// any time; but where a record moves from one to another, the new one may come
// before the old one goes.
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

// leave notes that a resource is not the record id any more: that is
// deleted, unless another resource is it.
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
