package aggregator

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/intake"
	"lockstep/internal/extsort"
)

// held is a row of a Journal.
type held = journal.Held

// compare brings the catalog in step with the mirror: it reads all rows, sorts them by
// their own URIs, and compares these with the records, in one pass. New and changed
// resources are applied first, deletions last.
func (u *Upstream) compare(ctx context.Context, t *intake.Tally) error {
	done, err := u.o.Fleet.compare(ctx)
	if err != nil {
		return err
	}
	defer done()
	u.applying.Lock()
	defer u.applying.Unlock()
	c := comparison{u: u, t: t, inStep: u.o.AllowEmpty || u.inStep.Load()} // before the rows are read
	rows := extsort.New(extsort.TempFiles(u.o.TempDir))
	defer rows.Close()
	if err := u.sort(ctx, rows, t); err != nil {
		return err
	}
	c.gone = extsort.New(extsort.TempFiles(u.o.TempDir))
	defer c.gone.Close()
	if err := c.merge(ctx, rows); err != nil {
		return err
	}
	u.progress.counted(t.Files.Load())
	return c.drop(ctx)
}

// sort adds what the catalog should have to a sorter, by own URI: the Token of the
// record, or nothing if it stays as it is.
func (u *Upstream) sort(ctx context.Context, to *extsort.Sorter, t *intake.Tally) error {
	page := make([]held, 0, batchRows)
	flush := func() error {
		found, err := u.translate.all(ctx, page)
		if err != nil {
			return err
		}
		for i := range found {
			f := &found[i]
			if f.refused != nil {
				t.Skipped(page[i].URI, f.refused)
				continue
			}
			u.await(page[i].URI, f)
			t.Files.Add(1)
			if err := to.Add([]byte(f.URI), []byte(f.Token)); err != nil {
				return err
			}
		}
		page = page[:0]
		return nil
	}
	for h, err := range u.mirror.Journal.Held(ctx, "", "") {
		if err != nil {
			return err
		}
		if page = append(page, h); len(page) == batchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// A comparison is one comparison of a mirror with the catalog.
type comparison struct {
	u    *Upstream
	t    *intake.Tally
	had  int64            // records of the upstream in the catalog
	kept int64            // of them, how many stay
	gone *extsort.Sorter  // own URIs of the others
	due  map[string]touch // resources whose records have to change

	// The mirror has been in step with the upstream, or AllowEmpty is set. Until then the
	// mirror may lack what the upstream has: it was restored from a backup, or is being
	// filled.
	inStep  bool
	unsure  map[string][]string // own URIs of records without rows, by their URIs at the upstream; "": not known
	waiting int                 // how many of them
	spared  int64               // how many such records stay
}

// merge compares the sorted rows with the records, applies what is new or differs, and
// collects what is gone.
func (c *comparison) merge(ctx context.Context, rows *extsort.Sorter) error {
	u := c.u
	records := intake.ReadRows(ctx, u.catalog, u.set, []catalog.Range{u.extent()})
	defer records.Stop()
	c.due = make(map[string]touch)
	for p, err := range rows.Sorted(ctx) {
		if err != nil {
			return err
		}
		for records.More() && records.Row().URI < string(p.Key) {
			if err := c.left(ctx, records.Row()); err != nil {
				return err
			}
			records.Next()
		}
		if records.Err != nil {
			return records.Err
		}
		known := records.More() && records.Row().URI == string(p.Key)
		if known && c.owns(records.Row()) {
			c.had++
			c.kept++
		}
		same := known && (len(p.Value) == 0 || records.Row().Token == string(p.Value))
		if known {
			records.Next()
		}
		if same || len(p.Value) == 0 {
			c.t.Unchanged.Add(1)
			continue
		}
		_, uri, _ := parseToken(string(p.Value))
		c.due[uri] = touch{isNew: !known}
		if len(c.due) == batchRows {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := records.Rest(func(string) error { return c.left(ctx, records.Row()) }); err != nil {
		return err
	}
	if records.Err != nil {
		return records.Err
	}
	if err := c.decide(ctx); err != nil {
		return err
	}
	return c.flush(ctx)
}

// extent returns the range of the records that may be those of the upstream.
func (u *Upstream) extent() catalog.Range {
	if u.o.InPlace || !u.o.shared {
		return catalog.Range{}
	}
	return catalog.Range{From: u.o.URI, To: after(u.o.URI)}
}

// owns reports whether a record is that of a resource of the upstream: in a set of its own
// all are, also those that another origin has put there before.
func (c *comparison) owns(r *intake.Row) bool {
	name, _, ok := strings.Cut(r.Token, " ")
	return !c.u.o.shared || ok && name == c.u.o.Name
}

// left takes a record for which there is no row.
func (c *comparison) left(ctx context.Context, r *intake.Row) error {
	if !c.owns(r) {
		return nil
	}
	c.had++
	if c.inStep {
		return c.gone.Add([]byte(r.URI), nil)
	}
	if c.unsure == nil {
		c.unsure = make(map[string][]string)
	}
	_, uri, _ := parseToken(r.Token)
	c.unsure[uri] = append(c.unsure[uri], r.URI)
	if c.waiting++; c.waiting < batchRows {
		return nil
	}
	return c.decide(ctx)
}

// decide takes the records of which it is not known whether the upstream has the
// resources. Those that the mirror holds are not republished at these addresses; the
// others stay until the mirror has been in step.
func (c *comparison) decide(ctx context.Context) error {
	uris := slices.Sorted(maps.Keys(c.unsure))
	if len(uris) == 0 {
		return nil
	}
	rows, err := c.u.mirror.Journal.Lookup(ctx, uris)
	if err != nil {
		return err
	}
	for i, uri := range uris {
		own := c.unsure[uri]
		if rows[i].URI == "" {
			c.spared += int64(len(own))
			continue
		}
		for _, uri := range own {
			if err := c.gone.Add([]byte(uri), nil); err != nil {
				return err
			}
		}
	}
	c.waiting = 0
	clear(c.unsure)
	return nil
}

func (c *comparison) flush(ctx context.Context) error {
	if len(c.due) == 0 {
		return nil
	}
	err := c.u.apply(ctx, c.due, false, c.t)
	c.due = make(map[string]touch)
	return err
}

// minShrink is how many resources a comparison may delete without AllowEmpty, however
// few there were.
const minShrink = 100

// drop deletes the records for which there are no rows. The Destination has guarded the
// deletions of the upstream and delivers them; what a comparison finds missing was
// refused since, or was not selected, or the mirror is another one: so it refuses to
// delete everything, or most of it.
func (c *comparison) drop(ctx context.Context) error {
	spared := c.spared > 0
	if c.u.spared.Store(spared); spared && c.u.inStep.Load() { // since the comparison began
		c.u.stale.mark()
	}
	gone := c.had - c.kept - c.spared
	switch {
	case gone == 0:
		return nil
	case c.u.o.AllowEmpty:
	case c.kept == 0 && c.t.Files.Load() == 0 || gone > minShrink && gone > c.had/2:
		e := &intake.EmptyError{Root: "the mirror of " + c.u.o.Address, Resources: c.had, Listing: true}
		if c.kept > 0 || spared {
			e.Gone = gone
		}
		return e
	}
	var batch []catalog.Update
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		a, err := c.u.catalog.Apply(ctx, c.u.set, batch)
		batch = nil // the catalog may keep it
		if err == nil {
			c.t.Applied(a)
		}
		return err
	}
	for p, err := range c.gone.Sorted(ctx) {
		if err != nil {
			return err
		}
		batch = append(batch, catalog.Update{Record: catalog.Record{URI: string(bytes.Clone(p.Key))}, Deleted: true})
		if len(batch) == intake.BatchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
