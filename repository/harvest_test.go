package repository_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

var histories = flag.Int("histories", 30, "random histories that are harvested")

// A harvester maintains a copy like real harvesters: first everything, then
// what has changed since the date of the first response of the previous
// harvest.
type harvester struct {
	w      *world
	format string
	set    string            // only this set
	since  string            // of the next harvest
	token  string            // of the current harvest; empty: none
	began  string            // its first responseDate
	held   map[string]string // current records, by identifier
}

// step requests one response.
func (h *harvester) step() {
	query := "verb=ListRecords&resumptionToken=" + url.QueryEscape(h.token)
	if h.token == "" {
		if query = "verb=ListRecords&metadataPrefix=" + h.format; h.since != "" {
			query += "&from=" + h.since
		}
		if h.set != "" {
			query += "&set=" + h.set
		}
	}
	r := h.w.ask(query)
	if h.token == "" {
		h.began = r.ResponseDate
	}
	switch r.Error.Code {
	case "", "noRecordsMatch":
	case "badResumptionToken": // its set is not offered any more
		h.token = ""
		return
	case "cannotDisseminateFormat": // the set is still empty
		return
	default:
		h.w.Fatalf("%s: %+v", query, r.Error)
	}
	for _, rec := range r.Records {
		if rec.Header.Status == "deleted" {
			delete(h.held, rec.Header.Identifier)
		} else {
			h.held[rec.Header.Identifier] = strings.TrimSpace(rec.Metadata.Inner)
		}
	}
	if h.token = ""; r.Token != nil {
		h.token = r.Token.Value
	}
	if h.token == "" {
		h.since = h.began
	}
}

// TestConvergence harvests random histories while they happen: in the end a
// harvester has every current record, in every format. At any point the index is
// begun, stopped or restarted, or the catalog forgets changes before the index
// has seen them. Of two sets, which share resources, one is also harvested
// separately, and not offered for a while.
func TestConvergence(t *testing.T) {
	t.Parallel()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > *histories {
			return
		}
		converge(t, rt, nil)
	})
}

// TestConvergenceSQLite does so with the catalog that the serve command uses.
func TestConvergenceSQLite(t *testing.T) {
	t.Parallel()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > *histories/10 {
			return
		}
		dir := filepath.Join(t.TempDir(), fmt.Sprint(n))
		converge(t, rt, func(w *world) func() {
			db, err := sqlite.Options{Clock: w.clock}.Open(dir + ".db")
			if err != nil {
				t.Fatal(err)
			}
			w.catalog = db.Catalog()
			return func() { _ = db.Close() }
		})
	})
}

// TestConvergencePostgres does so with the other catalog that the serve command uses.
func TestConvergencePostgres(t *testing.T) {
	t.Parallel()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > *histories/10 {
			return
		}
		converge(t, rt, func(w *world) func() {
			db, err := postgres.Options{Clock: w.clock}.Open(t.Context(), postgrestest.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			w.catalog = db.Catalog()
			return func() { _ = db.Close() }
		})
	})
}

func converge(t *testing.T, rt *rapid.T, open func(*world) func()) {
	const second = "x:second"
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 3
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: second, Open: o.Sets[0].Open})
	})
	if open != nil {
		defer open(w)()
		w.mark(listURI)
		w.mark(second)
		w.restart()
	}
	hs := []*harvester{{w: w, format: "oai_dc"}, {w: w}, {w: w, format: "oai_dc", set: "second"}}
	const first = `<r xmlns="urn:example:format"/>`
	w.put("x:first", "text/xml", first)
	hs[1].format = w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	for _, h := range hs {
		h.held = make(map[string]string)
	}
	lists := []string{listURI, second}
	contents := map[string]string{"x:first": first}
	present := []map[string]bool{{"x:first": true}, {}}
	put := func(i int, uri, mediaType, text string) {
		contents[uri], present[i][uri] = text, true
		for i, set := range lists {
			if present[i][uri] {
				w.putIn(set, uri, mediaType, text)
			}
		}
	}
	version, offered := 0, w.opts.Sets
	for range rapid.IntRange(0, 60).Draw(rt, "steps") {
		uri := fmt.Sprint("x:", rapid.IntRange(0, 12).Draw(rt, "uri"))
		i := rapid.IntRange(0, 1).Draw(rt, "set")
		switch version++; rapid.IntRange(0, 12).Draw(rt, "step") {
		case 0, 1, 2:
			put(i, uri, "text/xml", fmt.Sprintf(`<r xmlns="urn:example:format">%d</r>`, version))
		case 3:
			put(i, uri, "text/plain", fmt.Sprint("text ", version))
		case 4, 5:
			delete(present[i], uri)
			w.apply(lists[i], catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		case 6:
			w.pass(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
		case 7:
			w.restart()
		case 8:
			if err := w.catalog.Forget(w.Context(), lists[i], w.mark(lists[i])); err != nil {
				t.Fatal(err)
			}
		case 9:
			ctx, cancel := context.WithCancelCause(w.Context())
			cancel(errors.New("stopped"))
			_ = w.repo.Refresh(ctx) // it may stop anywhere
		case 10:
			w.opts.Sets = offered[:3-len(w.opts.Sets)]
			w.restart()
		default:
			hs[rapid.IntRange(0, 2).Draw(rt, "harvester")].step()
		}
	}
	w.opts.Sets = offered
	w.restart()
	for i, h := range hs {
		for done := false; !done; done = h.token == "" {
			h.step()
		}
		h.step() // harvest changes made meanwhile
		for h.token != "" {
			h.step()
		}
		var want []string
		for uri, text := range contents {
			in := present[1][uri] || h.set == "" && present[0][uri]
			if in && (h.format == "oai_dc" || strings.HasPrefix(text, "<")) {
				want = append(want, uri)
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(h.held)); !slices.Equal(got, want) {
			rt.Fatalf("as %s, of set %q, a harvester holds\n%q, there is\n%q", h.format, h.set, got, want)
		}
		for uri, text := range h.held {
			if i == 1 && text != contents[uri] {
				rt.Fatalf("%s is held as %s, and is %s", uri, text, contents[uri])
			}
		}
	}
}

// An index that is stopped while it is built continues at its position.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var updates []catalog.Update
	for i := range 3000 {
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("x:%04d", i), Length: -1, Type: "text/xml"}})
	}
	w.apply(listURI, updates...)
	opened := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.opts.Sets[0].Open = func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		if opened++; opened == 1700 {
			cancel()
		}
		return nil, errors.New("none")
	}
	w.restart()
	if err := w.repo.Refresh(ctx); err == nil {
		t.Fatal("it was not stopped")
	}
	w.restart()
	if err := w.repo.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if opened > 3000+500 {
		t.Errorf("%d were opened, of 3000", opened)
	}
	if got := ids(w.all("verb=ListIdentifiers&metadataPrefix=oai_dc")); len(got) != 3000 || got[0] != "x:0000" || got[2999] != "x:2999" {
		t.Errorf("%d identifiers", len(got))
	}
}

// The cost of a harvest depends on its result, not on the size of the set: no
// unchanged resource of the catalog is read.
func TestCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var updates []catalog.Update
	for i := range 2000 {
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("x:%04d", i), Length: -1}})
	}
	w.apply(listURI, updates...)
	since := w.ask("verb=ListIdentifiers&metadataPrefix=oai_dc").ResponseDate
	counted := &counting{Catalog: w.catalog}
	w.catalog = counted
	w.restart()
	w.pass(time.Minute)
	w.apply(listURI, updates[7], catalog.Update{Record: catalog.Record{URI: "x:0007", Length: 5}})
	r := w.ask("verb=ListRecords&metadataPrefix=oai_dc&from=" + w.clock().UTC().Format(time.RFC3339))
	wantIDs(t, []*response{r}, "x:0007")
	if counted.read > 20 {
		t.Errorf("%d records were read for one that changed since %s", counted.read, since)
	}
	rec := httptest.NewRecorder()
	w.repo.ServeHTTP(rec, httptest.NewRequest("GET", baseURL+"?verb=Identify", nil))
	if counted.read > 25 {
		t.Errorf("%d records were read in all", counted.read)
	}
}

// The cost of a part of a list depends on its content, not on its position or
// the number of sets.
func TestCostOfPart(t *testing.T) {
	t.Parallel()
	const most = 10
	w := newWorld(t, func(o *repository.Options) {
		o.Records = most
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"}, repository.Set{Name: "third", Catalog: "x:third"})
	})
	for _, set := range []string{listURI, "x:second", "x:third"} {
		var updates []catalog.Update
		for i := range 1000 {
			updates = append(updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("x:%s:%04d", set, i), Length: -1}})
		}
		w.apply(set, updates...)
	}
	counted := &counting{Catalog: w.catalog}
	w.catalog = counted
	w.restart()
	r := w.ask("verb=ListRecords&metadataPrefix=oai_dc")
	parts := 1
	for ; r.Token.Value != ""; parts++ {
		counted.read = 0
		r = w.ask("verb=ListRecords&resumptionToken=" + url.QueryEscape(r.Token.Value))
		if len(r.Records) != most {
			t.Fatalf("part %d has %d records", parts, len(r.Records))
		}
		if counted.read > 8*most {
			t.Fatalf("%d records were read for part %d", counted.read, parts)
		}
	}
	if parts != 300 {
		t.Errorf("%d parts", parts)
	}
}

// A counting catalog counts the resources that are read.
type counting struct {
	catalog.Catalog
	read int
}

func (c *counting) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		for rec, err := range c.Catalog.Resources(ctx, set, r) {
			if c.read++; !yield(rec, err) {
				return
			}
		}
	}
}
