package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
)

// A merger is a Catalog in which each upstream of a group fills a set of its own, which
// is not published. Each Apply also brings the published set in step: a URI has the
// record of the first upstream that has one for it.
type merger struct {
	catalog.Catalog
	set    string // that is published
	events *intake.Reporter

	mu      sync.Mutex // held while a batch is merged; guards the rest
	members []*member  // in the order of their priority
	named   int        // resources that were reported because another has their URI
	behind  bool       // what is published may differ from what should be: a write has failed
}

// A member is an upstream whose resources are merged.
type member struct {
	name, address string
	set           string // of its own
	uri           string // prefix of its own URIs
	everywhere    bool   // they can be any

	first     *firstRun
	waitedFor bool // resources wait for its first run; the lock of the merger guards it
}

// add adds an upstream, which comes after all others.
func (m *merger) add(o *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = append(m.members, o)
}

// remove removes the upstream with a name. What is published of it remains until settle.
func (m *merger) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = slices.DeleteFunc(m.members, func(o *member) bool { return o.name == name })
}

// arrange puts the upstreams in the order of names.
func (m *merger) arrange(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortStableFunc(m.members, func(a, b *member) int {
		return cmp.Compare(slices.Index(names, a.name), slices.Index(names, b.name))
	})
}

func (m *member) covers(uri string) bool { return m.everywhere || isBelow(uri, m.uri) }

// Apply implements [catalog.Catalog].
func (m *merger) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	uris := make([]string, len(updates))
	for i := range updates {
		uris[i] = updates[i].URI
	}
	if err := m.catchUp(ctx); err != nil {
		return catalog.Applied{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.behind
	m.behind = true // also if the answer to the first write is lost
	if _, err := m.Catalog.Apply(ctx, set, updates); err != nil {
		return catalog.Applied{}, err
	}
	a, err := m.resolve(ctx, uris, func(uri string, kept, passed *member) {
		if m.named++; m.named <= maxNamed {
			m.events.Emit(intake.Event{Kind: intake.EventUnreadable, Path: uri, Err: conflict(kept, passed)})
		}
	})
	m.behind = was || err != nil
	return a, err
}

// catchUp compares all of the published set if a write to it has failed: the sets of the
// upstreams have what it lacks, and nothing else would say so. After a kill Scan does that.
func (m *merger) catchUp(ctx context.Context) error {
	m.mu.Lock()
	behind := m.behind
	m.mu.Unlock()
	if !behind {
		return nil
	}
	return m.settle(ctx, &intake.Tally{Reporter: m.events, Start: time.Now()})
}

// catchUp has a merged set repaired, if c is one and a write to it has failed.
func catchUp(ctx context.Context, c catalog.Catalog) error {
	if m, ok := c.(*merger); ok {
		return m.catchUp(ctx)
	}
	return nil
}

// conflict describes that two upstreams have resources with one own URI.
func conflict(kept, passed *member) error {
	return fmt.Errorf("two upstreams have a resource with this address: that of %s is republished, that of %s, which has a lower priority, is not", kept.address, passed.address)
}

// resolve gives URIs of the published set the records that they should have. It calls
// twice for each URI and upstream that another one comes before. The caller holds mu.
func (m *merger) resolve(ctx context.Context, uris []string, twice func(uri string, kept, passed *member)) (catalog.Applied, error) {
	slices.Sort(uris)
	var updates []catalog.Update
	for _, uri := range slices.Compact(uris) {
		update := deletion(uri)
		var kept *member
		var awaited []*member // that come before it, and may have the resource, too
		for i := range m.members {
			o := m.members[i]
			if !o.covers(uri) {
				continue
			}
			r, ok, err := catalog.Find(ctx, m.Catalog, o.set, uri)
			switch {
			case err != nil:
				return catalog.Applied{}, err
			case !ok && kept == nil && !o.first.isOver():
				awaited = append(awaited, o)
			case ok && kept != nil:
				twice(uri, kept, o)
			case ok:
				kept, update = o, catalog.Update{Record: r}
			}
		}
		if kept != nil || len(awaited) > 0 {
			old, ok, err := catalog.Find(ctx, m.Catalog, m.set, uri)
			if err != nil {
				return catalog.Applied{}, err
			}
			if o := waitFor(awaited, &old, ok); o != nil && (ok || kept != nil) {
				o.waitedFor = true
				continue
			}
			switch { // RS-REL-73; it may come from another upstream than before
			case !ok || kept == nil:
			case catalog.SameContent(&old, &update.Record):
				update.Lastmod = old.Lastmod
			case !sameHashes(old.Hashes, update.Hashes) && !update.Lastmod.After(old.Lastmod):
				update.Lastmod = time.Now().UTC().Truncate(time.Microsecond)
			}
		}
		updates = append(updates, update)
	}
	if len(updates) == 0 {
		return catalog.Applied{}, nil
	}
	return m.Catalog.Apply(ctx, m.set, updates)
}

// waitFor returns the upstream, of those awaited, for which the published record of a
// resource remains as it is, or nil: until its first run is over, none of lower priority
// publishes a resource that it may have, too; and until its mirror was compared, what is
// published of it remains.
func waitFor(awaited []*member, published *catalog.Record, ok bool) *member {
	owner, _, _ := parseToken(published.Token)
	for _, o := range awaited {
		if !ok || owner == o.name && !o.first.isCompared() {
			return o
		}
	}
	return nil
}

// settleFirst publishes what has waited for the first run of an upstream, or a part of it,
// and need not wait any longer. The error unavailable says why it may still have resources,
// or is nil.
func (m *merger) settleFirst(ctx context.Context, o *member, unavailable error) error {
	m.mu.Lock()
	waited := o.waitedFor
	o.waitedFor = false
	m.behind = m.behind || waited // until settle has ended: another caller settles, too, or fails
	m.mu.Unlock()
	if !waited {
		return m.catchUp(ctx)
	}
	if err := m.settle(ctx, &intake.Tally{Reporter: m.events, Start: time.Now()}); err != nil {
		m.mu.Lock()
		o.waitedFor = true
		m.mu.Unlock()
		return err
	}
	if unavailable != nil {
		m.events.Emit(intake.Event{Kind: intake.EventUnreadable, Path: o.address, Err: unavailable})
	}
	return nil
}

// settle compares all of the published set with those of the upstreams, and reports the
// resources that are not published because another has their URI.
func (m *merger) settle(ctx context.Context, t *intake.Tally) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.behind = err != nil }()
	public := intake.ReadRows(ctx, m.Catalog, m.set, []catalog.Range{{}})
	defer public.Stop()
	own := make([]*intake.Rows, len(m.members))
	for i := range m.members {
		own[i] = intake.ReadRows(ctx, m.Catalog, m.members[i].set, []catalog.Range{{}})
		defer own[i].Stop()
	}
	var due []string
	flush := func() error {
		a, err := m.resolve(ctx, due, func(string, *member, *member) {})
		due = due[:0]
		t.Applied(a)
		return err
	}
	all := append(slices.Clone(own), public)
	for {
		uri, more := least(all)
		if !more {
			break
		}
		want, kept := "", -1
		for i, rows := range own {
			if !rows.More() || rows.Row().URI != uri {
				continue
			}
			if kept < 0 {
				kept, want = i, rows.Row().Token
			} else {
				t.Skipped(uri, conflict(m.members[kept], m.members[i]))
			}
			rows.Next()
		}
		is := ""
		if public.More() && public.Row().URI == uri {
			is = public.Row().Token
			public.Next()
		}
		if is == want {
			continue
		}
		if due = append(due, uri); len(due) == batchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	for _, rows := range all {
		if rows.Err != nil {
			return rows.Err
		}
	}
	return flush()
}

// least returns the first URI among the current rows; more is false if there is none.
func least(all []*intake.Rows) (uri string, more bool) {
	for _, rows := range all {
		if rows.More() && (!more || rows.Row().URI < uri) {
			uri, more = rows.Row().URI, true
		}
	}
	return uri, more
}
