package repository_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

// A list of all sets has one set after the other; a list of one set has only
// that.
func TestSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "empty", Catalog: "x:empty"}, repository.Set{Name: "second", Title: "The second", Catalog: "x:second"})
	})
	for i := range 3 {
		uri := fmt.Sprint("https://example.org/", i)
		w.put(uri, "", uri)
		w.apply("x:second", catalog.Update{Record: catalog.Record{URI: fmt.Sprint("x:", i), Length: -1}})
	}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"),
		"https://example.org/0", "https://example.org/1", "https://example.org/2", "x:0", "x:1", "x:2")
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc&set=second"), "x:0", "x:1", "x:2")
	if r := w.ask("verb=ListRecords&metadataPrefix=oai_dc&set=empty"); r.Error.Code != "noRecordsMatch" {
		t.Errorf("an empty set: %+v", r)
	}
	if r := w.ask("verb=ListSets"); len(r.Sets) != 3 || r.Sets[2].Name != "The second" {
		t.Errorf("sets %+v", r.Sets)
	}
	wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=x:1")}, "x:1")
}

// An item in several sets is one record that names them all; it is deleted when
// it has left the last (OAI-PMH 2.0, 2.6).
func TestShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second", Open: o.Sets[0].Open})
	})
	const r = `<r xmlns="urn:example:r"/>`
	id := resourcesync.Link{Rel: catalog.RelRecord, Href: "oai:example.org:1"}
	w.putIn(listURI, "https://example.org/1", "text/xml", r, id)
	w.putIn(listURI, "https://example.org/2", "text/xml", r)
	w.putIn("x:second", "https://example.org/other", "text/xml", r, id)
	w.putIn("x:second", "https://example.org/2", "text/xml", r)
	w.putIn("x:second", "https://example.org/3", "text/xml", r)
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	lists := []string{"verb=ListRecords&metadataPrefix=oai_dc", "verb=ListRecords&metadataPrefix=" + prefix, "verb=ListIdentifiers&metadataPrefix=oai_dc"}
	want := func(specs map[string]string, ids ...string) {
		t.Helper()
		for _, list := range lists {
			rs := w.all(list)
			wantIDs(t, rs, ids...)
			for _, r := range rs {
				for _, h := range r.headers() {
					if got := strings.Join(h.Sets, " "); got != specs[h.Identifier] {
						t.Errorf("%s: %s is in %q, want %q", list, h.Identifier, got, specs[h.Identifier])
					}
					one := w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=" + h.Identifier)
					if len(one.Got) != 1 || !slices.Equal(one.Got[0].Header.Sets, h.Sets) || one.Got[0].Header.Status != h.Status || one.Got[0].Header.Datestamp != h.Datestamp {
						t.Errorf("GetRecord of %s: %+v, in the list %+v", h.Identifier, one.Got, h)
					}
				}
			}
		}
	}
	want(map[string]string{"oai:example.org:1": "main second", "https://example.org/2": "main second", "https://example.org/3": "second"},
		"oai:example.org:1", "https://example.org/2", "https://example.org/3")
	wantIDs(t, w.all(lists[0]+"&set=second"), "oai:example.org:1", "https://example.org/2", "https://example.org/3")
	w.pass(time.Minute)
	since := w.ask(lists[0]).ResponseDate
	w.remove("https://example.org/1")
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/2"}, Deleted: true})
	w.pass(time.Minute)
	want(map[string]string{"oai:example.org:1": "second", "https://example.org/2": "main", "https://example.org/3": "second"},
		"https://example.org/2", "oai:example.org:1", "https://example.org/3")
	wantIDs(t, w.all(lists[0]+"&from="+since), "oai:example.org:1", "https://example.org/2")
	wantIDs(t, w.all(lists[0]+"&set=main&from="+since), "-oai:example.org:1")
	wantIDs(t, w.all(lists[0]+"&set=second&from="+since), "-https://example.org/2")
	w.remove("https://example.org/2")
	w.pass(time.Minute)
	wantIDs(t, w.all(lists[1]+"&from="+since), "oai:example.org:1", "-https://example.org/2")
}

// A set that is a subset of another causes no empty parts.
func TestSharedWholly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records = 2
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	var updates []catalog.Update
	var want []string
	for i := range 301 {
		want = append(want, fmt.Sprintf("x:%03d", i))
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: want[i], Length: -1}})
	}
	w.apply(listURI, updates...)
	w.apply("x:second", updates[:300]...)
	rs := w.all("verb=ListRecords&metadataPrefix=oai_dc")
	wantIDs(t, rs, want...)
	if len(rs) != 151 {
		t.Errorf("%d parts", len(rs))
	}
}

// unpublished returns a world in which the set main is published, and second is not.
func unpublished(t *testing.T) *world {
	w := newWorld(t, func(o *repository.Options) { o.Records = 2 })
	w.opts.Sets = append(w.opts.Sets, repository.Set{Name: "second", Catalog: "x:second", Open: w.opts.Sets[0].Open})
	w.restart()
	return w
}

// A set that has not been published yet does not keep harvesters from the others; only
// requests for it wait.
func TestOneNotPublished(t *testing.T) {
	t.Parallel()
	w := unpublished(t)
	w.put("https://example.org/1", "", "1")
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/2", Length: -1}})
	if err := w.repo.Refresh(t.Context()); !errors.Is(err, repository.ErrNotPublished) {
		t.Errorf("Refresh: %v", err)
	}
	const list = "verb=ListRecords&metadataPrefix=oai_dc"
	for range 2 {
		wantIDs(t, w.all(list), "https://example.org/1")
		wantIDs(t, w.all(list+"&set=main"), "https://example.org/1")
		wantIDs(t, []*response{w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/1")}, "https://example.org/1")
		if r := w.ask("verb=Identify"); r.Identify.Version != "2.0" {
			t.Errorf("Identify: %+v", r)
		}
		if r := w.ask("verb=ListMetadataFormats"); len(r.Formats) != 1 {
			t.Errorf("formats %+v", r.Formats)
		}
		if r := w.ask("verb=ListSets"); len(r.Sets) != 2 {
			t.Errorf("sets %+v", r.Sets)
		}
		if got := w.do(http.MethodGet, list+"&set=second", nil); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
			t.Errorf("a list of the other set: %d, %v", got.Code, got.Header())
		}
		w.restart()
		w.opts.Sets[0].Collections = true // ListSets needs the indexes
	}
	if s, err := w.catalog.Status(t.Context(), "x:second"); err != nil || !s.Kept.At.IsZero() {
		t.Errorf("the set was marked before it was published: %+v, %v", s, err)
	}
	w.mark("x:second")
	wantIDs(t, w.all(list), "https://example.org/1", "https://example.org/2")
	wantIDs(t, w.all(list+"&set=second"), "https://example.org/2")
}

// A set that has not been published does not keep the others from being indexed in advance.
func TestRefreshOthers(t *testing.T) {
	t.Parallel()
	w := unpublished(t)
	slices.Reverse(w.opts.Sets)
	w.restart()
	w.put("https://example.org/1", "", "1")
	if err := w.repo.Refresh(t.Context()); !errors.Is(err, repository.ErrNotPublished) {
		t.Errorf("Refresh: %v", err)
	}
	if _, ok, err := catalog.Find(t.Context(), w.catalog, "urn:x-lockstep:oai-pmh:"+listURI, "uhttps://example.org/1"); err != nil || !ok {
		t.Errorf("it was not indexed: %v", err)
	}
}
