package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
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

// grow takes the next changes into the feed: their entries come into the
// subscription document, the oldest of which are cut to archives where there are
// more than one holds (AP-TS-12).
func (a *atomPublication) grow(ctx context.Context) error {
	cur := a.st.Current
	next := *cur
	next.Title, next.Author, next.Stamp = a.want.Title, a.want.Author, a.after(cur.Stamp)
	news, grouped, err := a.collect(ctx, &next)
	if err != nil {
		return err
	}
	if len(grouped) > 0 && next.Groups == "" {
		next.Groups = next.Chain
	}
	named := cur.Title != next.Title || cur.Author != next.Author
	if len(news) == 0 && len(grouped) == 0 && !named { // what came is gone again
		a.st.Current = &next
		return a.planAtom(ctx, a.set.Name, a.st, &next, nil)
	}
	var doc atompmh.Feed
	var entries []atompmh.Entry
	for e, err := range a.readAtom(ctx, atomName(a.set.Name), cur.ID, &doc) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(x, y atompmh.Entry) int { return x.Updated.Compare(y.Updated) })
	if len(news) > 0 {
		clock := newAtomClock(cur.Last, news[len(news)-1].event, a.opts.Now(), int64(len(news)))
		for i := range slices.Backward(news) {
			news[i].Updated = millis(clock.next(news[i].event))
		}
		next.Last = clock.top
	}
	for i := range news {
		entries = append(entries, news[i].Entry)
	}
	next.Entries += int64(len(news))
	return a.cut(ctx, &next, entries, grouped)
}

// cut writes entries, which are in the order of time, as the subscription
// document and the archives cut from it, and makes them the feed.
func (a *atomPublication) cut(ctx context.Context, next *atomFeed, entries []atompmh.Entry, grouped atomGroups) error {
	var cut []blob.Writer
	defer func() {
		for _, w := range cut {
			_ = w.Close() // does nothing where it was committed
		}
	}()
	for len(entries) > a.limit {
		n := a.limit
		for n < len(entries)-1 && n < 2*a.limit && entries[n].Updated.Equal(entries[n-1].Updated) {
			n++
		}
		next.Number++
		name, succ := atomArchiveName(a.set.Name, next.Chain, next.Number), ""
		if len(entries)-n > a.limit { // else that is under construction
			succ = atomArchiveName(a.set.Name, next.Chain, next.Number+1)
		}
		d, err := a.write(ctx, next, name, next.Newest, succ, entries[:n])
		if err != nil {
			return err
		}
		cut = append(cut, d.blob)
		next.Newest, entries = name, entries[n:]
		next.Archives++
	}
	d, err := a.write(ctx, next, atomName(a.set.Name), next.Newest, "", entries)
	if err != nil {
		return err
	}
	defer d.discard() // does nothing where it was committed
	return a.switchTo(ctx, next, d, cut, grouped)
}

// write writes a document with the entries, the newest first, as readers of feeds
// expect.
func (a *atomPublication) write(ctx context.Context, next *atomFeed, name, prev, succ string, entries []atompmh.Entry) (*atomDocument, error) {
	updated := next.Last // AP-TS-13: of the archive before it, if it is empty
	if len(entries) > 0 {
		updated = entries[len(entries)-1].Updated.UnixMilli()
	}
	if updated == noTime {
		updated = a.status.Kept.At.UnixMilli()
	}
	d, err := a.document(ctx, next, name, prev, succ, updated)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(entries) {
		if err := d.Write(&entries[i]); err != nil {
			d.discard()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := d.Close(); err != nil {
		d.discard()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// collect returns the entries that the next changes call for, in the order of
// these, one at most for each record, and what they change of which resources
// belong together. It moves next.Through.
func (a *atomPublication) collect(ctx context.Context, next *atomFeed) ([]atomNews, atomGroups, error) {
	changes := make(map[string]*pendingChange)
	n := 0
	for c, err := range a.catalog.Changes(ctx, a.capabilityList(a.set.Name), next.Through) {
		if err != nil {
			return nil, nil, fmt.Errorf("read catalog: %w", err)
		}
		if c.Seq > a.status.Last { // it came while this publishes
			break
		}
		next.Through, next.ThroughTime = c.Seq, c.EventTime
		if p := changes[c.URI]; p != nil {
			p.Change = c
		} else {
			changes[c.URI] = &pendingChange{c, c.Change == resourcesync.Created && c.Seq > next.Seen}
		}
		if n++; n == atomSlice {
			break
		}
	}
	if n == 0 && a.status.Last > next.Through {
		return nil, nil, fmt.Errorf("read catalog: change %d is not in it", next.Through+1)
	}
	g := &atomGathering{atomPublication: a, changes: changes, view: a.atomView(&a.set), news: make(map[string]*atomNews), through: *next,
		groups: &groupCache{Source: a.Source, set: a.set.Name, chain: next.Groups, none: next.Groups == ""}}
	grouped, err := g.run(ctx)
	if err != nil {
		return nil, nil, err
	}
	news := make([]atomNews, 0, len(g.news))
	for _, e := range g.news {
		news = append(news, *e)
	}
	slices.SortFunc(news, func(x, y atomNews) int { return cmp.Or(cmp.Compare(x.seq, y.seq), cmp.Compare(x.ID, y.ID)) })
	return news, grouped, nil
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
