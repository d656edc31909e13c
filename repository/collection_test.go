package repository_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/repository"
	"lockstep/resourcesync"
)

func collection(uri string) resourcesync.Link {
	return resourcesync.Link{Rel: "collection", Href: uri}
}

func grouped(o *repository.Options) {
	o.Records, o.Headers = 2, 2
	o.Sets[0].Collections = true
}

// allSets returns the setSpecs by setName, and how many responses they took.
func (w *world) allSets() (specs map[string]string, parts int) {
	w.Helper()
	specs = make(map[string]string)
	for query := "verb=ListSets"; ; parts++ {
		body := w.do("GET", query, nil).Body.String()
		for _, s := range w.parse(body).Sets {
			if specs[s.Name] != "" {
				w.Errorf("set %s is listed twice", s.Name)
			}
			specs[s.Name] = s.Spec
		}
		_, token, _ := strings.Cut(body, "<resumptionToken")
		_, token, _ = strings.Cut(token, ">")
		token, _, _ = strings.Cut(token, "<")
		if token == "" {
			return specs, parts + 1
		}
		query = "verb=ListSets&resumptionToken=" + token
	}
}

func setsOf(rs []*response) map[string]string {
	got := make(map[string]string)
	for _, r := range rs {
		hs := r.Headers
		for _, rec := range r.Records {
			hs = append(hs, rec.Header)
		}
		for _, h := range hs {
			got[h.Identifier] = strings.TrimSpace(h.Status + " " + strings.Join(h.Sets, " "))
		}
	}
	return got
}

// RS-REL-60: with Collections, each URI that collection links name is a set within the
// set of its resources, by which records are listed; deleted records keep their sets.
func TestCollections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, grouped)
	const a, b = "https://example.org/theses/2026?x=1", "urn:example:b"
	for i := range 5 {
		w.put(fmt.Sprint("https://example.org/", i), "", "x", collection(a))
	}
	w.put("https://example.org/both", "", "x", collection(b), collection(a), collection(a))
	w.put("https://example.org/none", "", "x")
	specs, _ := w.allSets()
	if len(specs) != 3 || specs["main"] != "main" || !strings.HasPrefix(specs[a], "main:1-") || !strings.HasPrefix(specs[b], "main:b-") {
		t.Fatalf("sets %q", specs)
	}
	for _, verb := range []string{"ListRecords", "ListIdentifiers"} {
		list := "verb=" + verb + "&metadataPrefix=oai_dc&set="
		if got := setsOf(w.all(list + specs[a])); len(got) != 6 || got["https://example.org/0"] != "main "+specs[a] || got["https://example.org/both"] != "main "+specs[b]+" "+specs[a] {
			t.Errorf("%s: %q", verb, got)
		}
		if got := setsOf(w.all(list + specs[b])); len(got) != 1 {
			t.Errorf("%s: %q", verb, got)
		}
		if got := setsOf(w.all(list + "main")); len(got) != 7 || got["https://example.org/none"] != "main" {
			t.Errorf("%s: %q", verb, got)
		}
	}
	for _, unknown := range []string{"main:x", "other:" + strings.TrimPrefix(specs[a], "main:")} {
		if r := w.ask("verb=ListRecords&metadataPrefix=oai_dc&set=" + unknown); r.Error.Code != "noRecordsMatch" {
			t.Errorf("set %s: %+v", unknown, r.Error)
		}
	}

	w.pass(time.Hour)
	from := w.clock().UTC().Format("2006-01-02T15:04:05Z")
	w.remove("https://example.org/0")
	w.put("https://example.org/both", "", "x", collection(b)) // has left a
	w.pass(time.Minute)
	if got := setsOf(w.all("verb=ListRecords&metadataPrefix=oai_dc&from=" + from + "&set=" + specs[a])); len(got) != 2 ||
		got["https://example.org/0"] != "deleted main "+specs[a] || got["https://example.org/both"] != "deleted main "+specs[a] {
		t.Errorf("after a deletion: %q", got)
	}
	if got := setsOf(w.all("verb=ListRecords&metadataPrefix=oai_dc&from=" + from)); len(got) != 2 || got["https://example.org/both"] != "main "+specs[b] {
		t.Errorf("of all: %q", got)
	}
	if got := setsOf([]*response{{Records: w.ask("verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/0").Got}}); got["https://example.org/0"] != "deleted main "+specs[a] {
		t.Errorf("GetRecord: %q", got)
	}
	w.put("https://example.org/both", "", "x", collection(a), collection(b)) // is back
	w.pass(time.Minute)
	if got := setsOf(w.all("verb=ListRecords&metadataPrefix=oai_dc&from=" + from + "&set=" + specs[a])); got["https://example.org/both"] != "main "+specs[a]+" "+specs[b] {
		t.Errorf("after its return: %q", got)
	}
}

// Collections of an index that was built without them appear once they are asked for,
// and disappear; lists by format are those of the collection.
func TestCollectionsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	w.put("https://example.org/1", "text/xml", `<r xmlns="urn:example:r"/>`, collection("urn:a"))
	w.put("https://example.org/2", "text/xml", `<r xmlns="urn:example:r"/>`)
	w.apply("x:second", catalog.Update{Record: catalog.Record{URI: "https://example.org/1", Length: -1}})
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	if specs, _ := w.allSets(); len(specs) != 2 {
		t.Errorf("sets %q", specs)
	}
	w.opts.Sets[0].Collections = true
	w.restart()
	specs, _ := w.allSets()
	if len(specs) != 3 {
		t.Fatalf("sets %q", specs)
	}
	for _, p := range []string{prefix, "oai_dc"} {
		if got := setsOf(w.all("verb=ListRecords&metadataPrefix=" + p + "&set=" + specs["urn:a"])); len(got) != 1 || got["https://example.org/1"] != "main "+specs["urn:a"]+" second" {
			t.Errorf("%s: %q", p, got)
		}
	}
	w.opts.Sets[0].Collections = false
	w.restart()
	if r := w.ask("verb=ListRecords&metadataPrefix=oai_dc&set=" + specs["urn:a"]); r.Error.Code != "noRecordsMatch" {
		t.Errorf("without collections: %+v", r.Error)
	}
	if got := setsOf(w.all("verb=ListRecords&metadataPrefix=oai_dc&set=main")); got["https://example.org/1"] != "main second" {
		t.Errorf("without collections: %q", got)
	}
}

// ListSets has parts, so that memory does not grow with the number of collections.
func TestManyCollections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		grouped(o)
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second", Collections: true})
	})
	var updates []catalog.Update
	for i := range 1500 {
		updates = append(updates, catalog.Update{Record: catalog.Record{URI: fmt.Sprint("urn:", i), Length: -1,
			Links: []resourcesync.Link{collection(fmt.Sprint("https://example.org/c/", i))}}})
	}
	w.apply(listURI, updates[:1000]...)
	w.apply("x:second", updates[1000:]...)
	specs, parts := w.allSets()
	if len(specs) != 1502 || parts != 2 {
		t.Errorf("%d sets in %d responses", len(specs), parts)
	}
	if i := slices.Index([]string{"main", "second"}, specs["second"]); i != 1 {
		t.Errorf("sets %q", specs["second"])
	}
}
