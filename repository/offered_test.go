package repository_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/internal/reader"
	"lockstep/repository"
)

// offer returns a world in which harvesters have read the set main, and in which the set
// second, with older resources, is in the catalog only.
func offer(t *testing.T) (w *world, since string) {
	w = newWorld(t, nil)
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r">1</r>`)
	w.mark("x:second")
	for _, uri := range []string{"https://example.org/2", "https://example.org/3"} {
		w.putIn("x:second", uri, "text/xml", `<r xmlns="urn:example:r">2</r>`)
	}
	w.pass(time.Hour)
	return w, w.ask("verb=ListRecords&metadataPrefix=oai_dc").ResponseDate
}

func second(w *world) repository.Set {
	return repository.Set{Name: "second", Catalog: "x:second", Open: w.opts.Sets[0].Open}
}

// offerSets restarts the repository with other sets.
func (w *world) offerSets(sets ...repository.Set) {
	w.Helper()
	w.pass(time.Hour)
	w.opts.Sets = sets
	w.restart()
}

const listDC = "verb=ListRecords&metadataPrefix=oai_dc"

// The records of a set that is offered later have the time of that as their datestamp,
// however old they are: harvesters return with the date of their last harvest.
func TestOfferedLater(t *testing.T) {
	t.Parallel()
	w, since := offer(t)
	main := w.opts.Sets[0]
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	w.offerSets(main, second(w))
	both := []string{"https://example.org/2", "https://example.org/3"}
	wantIDs(t, w.all(listDC+"&from="+since), both...)
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix+"&from="+since), both...)
	wantIDs(t, w.all(listDC+"&set=second&from="+since), both...)
	w.pass(time.Hour)
	since = w.ask(listDC).ResponseDate
	wantIDs(t, w.all(listDC), "https://example.org/1", both[0], both[1])

	// It is withdrawn, and offered again; what happened meanwhile, and shortly before, is not missed.
	w.putIn("x:second", "https://example.org/0", "text/plain", "0")
	w.ask(listDC)
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/0"}, Deleted: true})
	w.ask(listDC)
	w.offerSets(main)
	w.pass(time.Hour)
	between := w.ask(listDC).ResponseDate
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/3"}, Deleted: true})
	w.putIn("x:second", "https://example.org/4", "text/plain", "4")
	w.pass(time.Hour)
	between2 := w.ask(listDC).ResponseDate
	w.offerSets(main, second(w))
	for _, from := range []string{since, between, between2} {
		wantSorted(t, w.all(listDC+"&from="+from), "-https://example.org/0", "-https://example.org/3", "https://example.org/2", "https://example.org/4")
	}
	w.pass(time.Hour)
	now := w.ask(listDC).ResponseDate
	w.offerSets(main, second(w)) // a restart alone is no change
	if r := w.ask(listDC + "&from=" + now); r.Error.Code != "noRecordsMatch" {
		t.Errorf("after a restart: %q", ids([]*response{r}))
	}
	// Everything is compared: the datestamps remain.
	if err := w.catalog.Forget(t.Context(), "x:second", w.mark("x:second")); err != nil {
		t.Fatal(err)
	}
	w.offerSets(main, second(w))
	wantSorted(t, w.all(listDC+"&from="+between2), "-https://example.org/0", "-https://example.org/3", "https://example.org/2", "https://example.org/4")
	if r := w.ask(listDC + "&from=" + now); r.Error.Code != "noRecordsMatch" {
		t.Errorf("after a comparison: %q", ids([]*response{r}))
	}
}

func wantSorted(t *testing.T, rs []*response, want ...string) {
	t.Helper()
	got := ids(rs)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("identifiers %q, want %q", got, want)
	}
}

// A set with another name is another set for harvesters.
func TestRenamedSet(t *testing.T) {
	t.Parallel()
	w, since := offer(t)
	main := w.opts.Sets[0]
	main.Name = "principal"
	w.offerSets(main)
	rs := w.all(listDC + "&from=" + since)
	wantIDs(t, rs, "https://example.org/1")
}

// A private set that becomes public is new to the harvesters without a credential.
func TestPublicLater(t *testing.T) {
	t.Parallel()
	w, _ := offer(t)
	main, private := w.opts.Sets[0], second(w)
	private.Private = true
	w.offerSets(main, private)
	r := httptest.NewRequest(http.MethodGet, baseURL+"?"+listDC, nil)
	r = r.WithContext(reader.With(r.Context(), func() reader.Grant { return reader.Grant{Sets: []string{"second"}} }))
	got := httptest.NewRecorder()
	w.repo.ServeHTTP(got, r)
	wantIDs(t, []*response{w.parse(got.Body.String())}, "https://example.org/1", "https://example.org/2", "https://example.org/3")
	w.pass(time.Hour)
	since := w.ask(listDC).ResponseDate
	w.offerSets(main, second(w))
	wantIDs(t, w.all(listDC+"&from="+since), "https://example.org/2", "https://example.org/3")
}

// The records of a set that is published after harvesters were answered without it have
// the time of that as their datestamp.
func TestPublishedLater(t *testing.T) {
	t.Parallel()
	w := unpublished(t)
	w.put("https://example.org/1", "", "1")
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/2", Length: -1}})
	w.pass(time.Hour)
	since := w.all(listDC)[0].ResponseDate
	w.pass(time.Hour)
	w.restart()
	w.mark("x:second")
	w.pass(time.Hour)
	wantIDs(t, w.all(listDC+"&from="+since), "https://example.org/2")
}

// The datestamps of a new repository are those of the changes, also if its sets are
// requested one after the other.
func TestOfferedFromTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	w.put("https://example.org/1", "", "1")
	w.putIn("x:second", "https://example.org/2", "", "2")
	w.pass(time.Hour)
	w.all(listDC + "&set=main")
	w.restart()
	w.pass(time.Hour)
	for _, r := range w.all(listDC) {
		for _, h := range r.headers() {
			if h.Datestamp != "2026-03-01T12:00:00Z" {
				t.Errorf("%s: datestamp %s", h.Identifier, h.Datestamp)
			}
		}
	}
}

// A repository that an earlier version has served has no record of the sets that it
// offered: those with an index were.
func TestOfferedByEarlierVersion(t *testing.T) {
	t.Parallel()
	w, since := offer(t)
	const notes = "urn:x-lockstep:oai-pmh"
	for r, err := range w.catalog.Resources(t.Context(), notes, catalog.Range{From: "s", To: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		w.apply(notes, catalog.Update{Record: r, Deleted: true})
	}
	w.offerSets(w.opts.Sets[0], second(w))
	wantIDs(t, w.all(listDC+"&from="+since), "https://example.org/2", "https://example.org/3")
	wantIDs(t, w.all(listDC), "https://example.org/1", "https://example.org/2", "https://example.org/3")
}

// Records that become available in a format of their own, or members of a collection,
// because the configuration changes, have the time of that as their datestamp.
func TestFormatsAndCollectionsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	open := w.opts.Sets[0].Open
	w.opts.Sets[0].Open = nil
	w.restart()
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r"/>`, collection("urn:a"))
	w.put("https://example.org/2", "", "2")
	w.pass(time.Hour)
	since := w.ask(listDC).ResponseDate
	set := w.opts.Sets[0]
	set.Open = open
	w.offerSets(set)
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix="+prefix+"&from="+since), "https://example.org/1")
	w.pass(time.Hour)
	since = w.ask(listDC).ResponseDate
	set.Collections = true
	w.offerSets(set)
	specs, _ := w.allSets()
	wantIDs(t, w.all(listDC+"&set="+specs["urn:a"]+"&from="+since), "https://example.org/1")
	wantIDs(t, w.all(listDC+"&from="+since), "https://example.org/1")
}
