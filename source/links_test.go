package source_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// linked puts a resource with links.
func (w *world) linked(uri, content string, links ...resourcesync.Link) {
	w.Helper()
	r := record(uri, content)
	r.Links = links
	w.live[uri] = digest(r.Length, r.Hashes)
	w.apply(catalog.Update{Record: r})
	w.remember()
}

// links returns the links of every entry of a document, as "rel href".
func (w *world) links(document string, capability resourcesync.Capability) map[string][]string {
	w.Helper()
	c := &crawl{read: reader(w.docs)}
	_, entries, err := c.document(document, capability)
	if err != nil {
		w.Fatal(err)
	}
	all := make(map[string][]string)
	for _, e := range entries {
		links := []string{}
		for _, l := range e.Links {
			links = append(links, l.Rel+" "+l.Href)
		}
		all[e.Loc] = links
	}
	return all
}

const (
	listDocument   = "resourcesync/main/resourcelist.xml"
	changeDocument = "resourcesync/main/changelist.xml"
)

func TestLinksOfRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	s := w.source()
	w.publish(s)
	mirror := resourcesync.Link{Rel: "duplicate", Href: "https://m.example.org/a", Pri: 1}
	about := resourcesync.Link{Rel: "describedby", Href: "https://data.example.org/a.xml", Type: "application/xml"}
	license := resourcesync.Link{Rel: "license", Href: "https://example.org/cc0"}
	patch := resourcesync.Link{Rel: resourcesync.RelPatch, Href: "https://data.example.org/p", Type: "application/json-patch+json"}
	w.linked(baseURL+"a", "1", mirror, patch, about, license)
	w.publish(s)
	want := []string{"duplicate https://m.example.org/a", "describedby https://data.example.org/a.xml", "license https://example.org/cc0"}
	for document, capability := range map[string]resourcesync.Capability{listDocument: resourcesync.ResourceList, changeDocument: resourcesync.ChangeList} {
		if got := w.links(document, capability)[baseURL+"a"]; !slices.Equal(got, want) {
			t.Errorf("%s after the creation: links %q, want %q", document, got, want)
		}
	}
	w.pass(time.Minute)
	w.linked(baseURL+"a", "22", mirror, patch)
	w.publish(s)
	if got := w.links(listDocument, resourcesync.ResourceList)[baseURL+"a"]; !slices.Equal(got, want[:1]) {
		t.Errorf("Resource List: links %q, want %q: patches belong to changes", got, want[:1])
	}
	if got := w.links(changeDocument, resourcesync.ChangeList)[baseURL+"a"]; !slices.Equal(got, []string{want[0], resourcesync.RelPatch + " " + patch.Href}) {
		t.Errorf("Change List after the update: links %q, want the mirror and the patch", got)
	}
	w.put("a")
	w.publish(s)
	if got := w.links(changeDocument, resourcesync.ChangeList)[baseURL+"a"]; len(got) != 0 {
		t.Errorf("links of a deletion %q", got)
	}
	w.upToDate()
}

func TestLinksByRule(t *testing.T) {
	t.Parallel()
	rules := []source.LinkRule{
		{Href: "https://m1.example.org/x/{path}", Link: resourcesync.Link{Rel: "duplicate", Pri: 1}},
		{Href: "https://web.example.org/timegate/{uri}", Link: resourcesync.Link{Rel: "timegate"}},
		{Href: "https://q.example.org/?of={uri}&at={path}", Match: "**/*.pdf", Link: resourcesync.Link{Rel: "describedby"}},
		{Href: baseURL + "articles/{path}", Link: resourcesync.Link{Rel: "canonical"}},
		{Href: "https://c.example.org/", Match: "deep/**", Link: resourcesync.Link{Rel: "collection"}},
	}
	w := newWorld(t, source.Options{Sets: []source.Set{{Path: "articles/", Links: rules}}})
	w.linked(baseURL+"articles/a%20b.txt", "1")
	w.linked(baseURL+"articles/deep/x.pdf?v=1", "1", resourcesync.Link{Rel: "canonical", Href: "https://data.example.org/x"},
		resourcesync.Link{Rel: "duplicate", Href: "https://m1.example.org/x/deep/x.pdf?v=1", Pri: 7})
	w.linked("https://other.example/c.pdf", "1")
	s := w.source()
	w.publish(s)
	want := map[string][]string{
		baseURL + "articles/a%20b.txt": {
			"duplicate https://m1.example.org/x/a%20b.txt",
			"timegate https://web.example.org/timegate/https://data.example.org/articles/a%20b.txt",
		},
		baseURL + "articles/deep/x.pdf?v=1": {
			"canonical https://data.example.org/x",
			"duplicate https://m1.example.org/x/deep/x.pdf?v=1",
			"timegate https://web.example.org/timegate/https://data.example.org/articles/deep/x.pdf?v=1",
			"describedby https://q.example.org/?of=https%3A%2F%2Fdata.example.org%2Farticles%2Fdeep%2Fx.pdf%3Fv%3D1&at=deep%2Fx.pdf%3Fv%3D1",
			"collection https://c.example.org/",
		},
		"https://other.example/c.pdf": {"timegate https://web.example.org/timegate/https://other.example/c.pdf"},
	}
	got := w.links(listDocument, resourcesync.ResourceList)
	for uri, links := range want {
		if !slices.Equal(got[uri], links) {
			t.Errorf("%s: links\n%q, want\n%q", uri, got[uri], links)
		}
	}
	w.pass(time.Minute)
	w.linked(baseURL+"articles/a%20b.txt", "2")
	w.publish(s)
	if got := w.links(changeDocument, resourcesync.ChangeList)[baseURL+"articles/a%20b.txt"]; !slices.Equal(got, want[baseURL+"articles/a%20b.txt"]) {
		t.Errorf("Change List: links %q", got)
	}
}

// Where the resources lie elsewhere, URI says what {path} is below.
func TestLinksByRuleElsewhere(t *testing.T) {
	t.Parallel()
	rule := source.LinkRule{Href: "https://m1.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}}
	for uri, want := range map[string]int{"": 0, "https://store.example/articles/": 1, "https://store.example/other/": 0} {
		w := newWorld(t, source.Options{Sets: []source.Set{{Elsewhere: true, URI: uri, Links: []source.LinkRule{rule}}}})
		w.linked("https://store.example/articles/a", "1")
		w.publish(w.source())
		got := w.links(listDocument, resourcesync.ResourceList)["https://store.example/articles/a"]
		if len(got) != want || want == 1 && got[0] != "duplicate https://m1.example.org/a" {
			t.Errorf("URI %q: links %q, want %d", uri, got, want)
		}
	}
}

// A change of the rules is no change of the resources, but the Resource List
// says what holds now.
func TestRulesChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{SmallSet: 1})
	w.fill("r%d", 20)
	w.publish(w.source())
	w.pass(time.Minute)
	w.opts.Sets = []source.Set{{Links: []source.LinkRule{{Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}}}}}
	if r := w.publish(w.source()); !r.Sets[0].List || r.Sets[0].Changes != 0 {
		t.Errorf("Publish with other rules = %+v, want a new Resource List", r.Sets[0])
	}
	if r := w.publish(w.source()); r.Written {
		t.Errorf("Publish with the same rules = %+v, want nothing written", r.Sets[0])
	}
	if got := w.links(listDocument, resourcesync.ResourceList)[baseURL+"r3"]; len(got) != 1 {
		t.Errorf("links %q, want the mirror", got)
	}
	w.upToDate()
}

// What no document can state is left out, and as little of it as can be.
func TestBadLinksAreLeftOut(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := newWorld(t, source.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := w.source()
	w.publish(s)
	good := resourcesync.Link{Rel: "duplicate", Href: "https://m.example.org/a"}
	w.linked(baseURL+"a", "1", resourcesync.Link{Rel: "Not a relation", Href: "x"}, good, resourcesync.Link{Rel: "via", Href: "not a URI"},
		resourcesync.Link{Rel: "up", Href: "https://data.example.org/"})
	w.publish(s)
	for document, capability := range map[string]resourcesync.Capability{listDocument: resourcesync.ResourceList, changeDocument: resourcesync.ChangeList} {
		if got := w.links(document, capability)[baseURL+"a"]; !slices.Equal(got, []string{"duplicate https://m.example.org/a"}) {
			t.Errorf("%s: links %q, want the good one", document, got)
		}
	}
	w.upToDate() // length and hash are stated
	if !strings.Contains(log.String(), "cannot be published as it is catalogued") || !strings.Contains(log.String(), baseURL+"a") {
		t.Errorf("log is %q", log.String())
	}
}

func TestBadRulesAreRefused(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]source.LinkRule{
		"address is missing":    {Link: resourcesync.Link{Rel: "duplicate"}},
		"{host":                 {Href: "https://{host}/", Link: resourcesync.Link{Rel: "duplicate"}},
		"{path":                 {Href: "https://m.example.org/{path", Link: resourcesync.Link{Rel: "duplicate"}},
		"no glob":               {Match: "[", Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}},
		"belongs to one change": {Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: resourcesync.RelPatch, Type: "x/y"}},
		"RS-LN-03":              {Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "Duplicate"}},
		"RS-LN-01":              {Href: "m.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}},
		"RS-PRI-01":             {Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate", Pri: -1}},
		"link index":            {Href: "https://m.example.org/{path}", Link: resourcesync.Link{Rel: "index"}},
	} {
		_, err := source.New(nil, nil, source.Options{BaseURL: baseURL, Sets: []source.Set{{Links: []source.LinkRule{rule}}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `set "main", link rule 1`) {
			t.Errorf("New with rule %+v: %v, want %q", rule, err, want)
		}
	}
}

// FuzzLinkRule holds that a rule that is taken makes links documents can hold.
func FuzzLinkRule(f *testing.F) {
	f.Add("https://m.example.org/{path}", "**/*.txt", "duplicate", "https://data.example.org/a/b%20c.txt")
	f.Add("https://m.example.org/?{uri}{path}", "", "via", "https://data.example.org/?x#y")
	f.Add("urn:x:{uri}", "{a,b}/*", "collection", "urn:y")
	f.Fuzz(func(t *testing.T, href, match, rel, uri string) {
		cat := catalog.NewMem(nil)
		s, err := source.New(cat, new(blob.Mem), source.Options{BaseURL: baseURL,
			Sets: []source.Set{{Links: []source.LinkRule{{Href: href, Match: match, Link: resourcesync.Link{Rel: rel}}}}}})
		if err != nil {
			return
		}
		set, _ := source.CapabilityListURI(baseURL, "main") // it is one
		if _, err := cat.Apply(context.Background(), set, []catalog.Update{{Record: catalog.Record{URI: uri}}}); err != nil {
			return // no URI a catalog takes
		}
		if _, err := s.Publish(context.Background()); err != nil {
			t.Errorf("rule %q, %q, %q of %q: %v", href, match, rel, uri, err)
		}
	})
}

// Documents show no user names and passwords, which readers of them ignore; the resource
// is published.
func TestLinksShowNoPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	s := w.source()
	w.publish(s)
	w.linked(baseURL+"a", "1", resourcesync.Link{Rel: "describedby", Href: "https://user:secret@m.example.org/a@b"}, resourcesync.Link{Rel: "via", Href: "http://m.example.org@?a"})
	w.publish(s)
	want := []string{"describedby https://m.example.org/a@b", "via http://?a"}
	for document, capability := range map[string]resourcesync.Capability{listDocument: resourcesync.ResourceList, changeDocument: resourcesync.ChangeList} {
		if got := w.links(document, capability)[baseURL+"a"]; !slices.Equal(got, want) {
			t.Errorf("%s: links %q, want %q", document, got, want)
		}
	}
}
