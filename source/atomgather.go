package source

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// An atomNews is an entry to be, by the change that calls for it.
type atomNews struct {
	atompmh.Entry
	seq   catalog.Seq
	event time.Time
}

// A pending change is what happened to a resource since the feed was published.
type pendingChange struct {
	catalog.Change      // the last
	created        bool // the first made it, and it was not told of by who saw that coming
}

// An atomGathering finds out what changes mean for records.
type atomGathering struct {
	*atomPublication
	changes map[string]*pendingChange
	view    *atomView
	groups  *groupCache
	through atomFeed             // where the changes end
	news    map[string]*atomNews // by identifier
}

func (g *atomGathering) run(ctx context.Context) (atomGroups, error) {
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
			if !c.created { // else nobody was told of it
				g.gone(atompmh.RecordID(uri), uri, c)
			}
			continue
		}
		if r := g.view.represent(&c.Record); r.alone() {
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
func (g *atomGathering) there(id string, main *representation, members []*representation, c *pendingChange) {
	e := g.at(c)
	if !g.view.active(&e.Entry, id, main, members) {
		g.report.Refused++
		return
	}
	for _, m := range members {
		if c := g.changes[m.uri]; c != nil && c.Seq > e.seq {
			e.seq, e.event = c.Seq, c.EventTime
		}
	}
	if old := g.news[id]; old == nil || old.Kind != atompmh.Active || old.seq <= e.seq { // the last one is the record
		g.news[id] = e
	}
}

// gone notes that a record is deleted, unless it is found elsewhere.
func (g *atomGathering) gone(id, uri string, c *pendingChange) {
	if old := g.news[id]; old != nil && old.Kind == atompmh.Active {
		return
	}
	if !absoluteIRI(uri) {
		return
	}
	e := g.at(c)
	g.view.deletion(&e.Entry, id, uri)
	g.news[id] = e
}

func (g *atomGathering) at(c *pendingChange) *atomNews {
	if c == nil {
		return &atomNews{seq: g.through.Through, event: g.through.ThroughTime}
	}
	return &atomNews{seq: c.Seq, event: c.EventTime}
}

// settle finds the places of all resources that those in uris may have to do with:
// had before, or have now.
func (g *atomGathering) settle(ctx context.Context, uris map[string]bool) (atomGroups, error) {
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
	grouped := make(atomGroups)
	for uri := range affected {
		if err := g.place(ctx, uri, grouped); err != nil {
			return nil, err
		}
	}
	return grouped, nil
}

// place finds out how a resource is to be told of, and what is news by that.
func (g *atomGathering) place(ctx context.Context, uri string, grouped atomGroups) error {
	known, err := g.groups.get(ctx, uri)
	if err != nil {
		return err
	}
	r, err := g.view.find(ctx, uri)
	if err != nil {
		return err
	}
	c := g.changes[uri]
	told := "" // the identifier it was told of by
	if c != nil && !c.created || c == nil && (r != nil || known != nil) {
		told = atompmh.RecordID(uri)
		if known != nil {
			told = cmp.Or(known.ID, told)
		}
		if known != nil && known.Main != "" {
			told = ""
		}
	}
	var now *atomGroup
	if r != nil {
		main, id, members, err := g.view.place(ctx, r)
		if err != nil {
			return err
		}
		now = groupOf(uri, main, id, members)
		changed := told != id || c != nil || !known.equal(now) || slices.ContainsFunc(members, func(m *representation) bool { return g.changes[m.uri] != nil })
		if main == "" && changed {
			g.there(id, r, members, c)
		}
		if main == "" && told == id {
			told = ""
		}
	}
	if !known.equal(now) {
		grouped[uri] = now
	}
	if err := g.own(ctx, uri, known, now, grouped); err != nil {
		return err
	}
	if told == "" {
		return nil
	}
	return g.leave(ctx, told, uri, c, grouped)
}

// own notes which resources have been given an identifier. Only one should be at
// any time; but where a record moves from one to another, the new one may come
// before the old one goes.
func (g *atomGathering) own(ctx context.Context, uri string, known, now *atomGroup, grouped atomGroups) error {
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
		grouped[ownersKey(id)] = &atomGroup{Members: owners}
	}
	return nil
}

func (g *atomGathering) owners(ctx context.Context, id string, grouped atomGroups) ([]string, error) {
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

// leave notes that a resource is not told of as the record id any more: that is
// deleted, unless another resource is it.
func (g *atomGathering) leave(ctx context.Context, id, uri string, c *pendingChange, grouped atomGroups) error {
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
			if g.news[id] == nil {
				g.there(id, r, members, c)
			}
			return nil
		}
	}
	g.gone(id, uri, c)
	return nil
}
