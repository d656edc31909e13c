package discover_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/discover"
	"lockstep/internal/fetch"
)

// failures are the kinds of unreadable documents.
var failures = []string{"503", "404", "403", "429", "reset", "html", "truncated", "sitemap", "empty"}

// A failing site fails at one path in one manner.
type failing struct {
	*server
	mu        sync.Mutex // guards what follows
	path, how string
}

func (f *failing) set(path, how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.path, f.how = path, how
}

func (f *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	path, how := f.path, f.how
	f.mu.Unlock()
	if r.URL.Path != path {
		f.server.ServeHTTP(w, r)
		return
	}
	switch how {
	case "503", "404", "403", "429":
		var code int
		_, _ = fmt.Sscan(how, &code)
		w.WriteHeader(code)
	case "reset":
		panic(http.ErrAbortHandler)
	case "html":
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>We are moving</body></html>"))
	case "truncated":
		text := f.fill(f.site[path])
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write([]byte(text[:len(text)/2]))
	case "sitemap":
		_, _ = w.Write([]byte(doc("", nil, f.URL+"/pages/1.html")))
	}
}

// serveFailing serves s.
func (s site) serveFailing(t testing.TB) *failing {
	t.Helper()
	f := &failing{server: &server{site: s}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// once returns a client that does not retry requests, and is not rate-limited.
func (f *failing) once(t testing.TB) *fetch.Client {
	t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(f.URL), Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// withPages adds a document that must never replace an announced one: a Sitemap
// of the pages of the site.
func (s site) withPages() site {
	return s.with(site{"/sitemap.xml": doc("", nil, "HOST/pages/1.html", "HOST/pages/2.html")})
}

// TestAnnouncedDocumentHasNoSubstitute makes each document on the chain from an
// address to the Capability List fail, one at a time: the error names it, and no
// other document replaces it, whether the chain is followed for the first time
// or again.
func TestAnnouncedDocumentHasNoSubstitute(t *testing.T) {
	t.Parallel()
	bare := site{"/.well-known/resourcesync": ""}
	one := site{"/.well-known/resourcesync": doc(`capability="description"`, nil, `HOST/rs/main/capabilitylist.xml capability="capabilitylist"`)}
	tests := []struct {
		name    string
		changes site
		address string
		chain   []string // documents, all announced, except those whose absence means that nothing is announced
		customs []string // documents whose absence means that nothing is announced
	}{
		{name: "well-known", changes: one, address: "HOST/", chain: []string{"/.well-known/resourcesync", "/rs/main/capabilitylist.xml"}, customs: []string{"/.well-known/resourcesync"}},
		{name: "Link header", address: "HOST/x", changes: bare.with(site{"/x": "Link: </rs/maps/capabilitylist.xml>; rel=resourcesync\n\nx"}), chain: []string{"/rs/maps/capabilitylist.xml"}},
		{name: "Link header to a Source Description", address: "HOST/x", changes: site{"/.well-known/resourcesync": "", "/sd.xml": one["/.well-known/resourcesync"], "/x": "Link: </sd.xml>; rel=resourcesync\n\nx"},
			chain: []string{"/sd.xml", "/rs/main/capabilitylist.xml"}},
		{name: "HTML link", address: "HOST/page.html", changes: bare, chain: []string{"/page.html", "/rs/maps/capabilitylist.xml"}},
		{name: "robots", address: "HOST/", changes: site{"/.well-known/resourcesync": "", "/robots.txt": "User-agent: *\nSitemap: HOST/rs/maps/resourcelist.xml\n#" + strings.Repeat("x", 500)},
			chain: []string{"/robots.txt", "/rs/maps/resourcelist.xml", "/rs/maps/capabilitylist.xml"}, customs: []string{"/robots.txt"}},
		{name: "robots with a Sitemap beside", address: "HOST/", changes: site{"/.well-known/resourcesync": "", "/robots.txt": "Sitemap: HOST/sitemap.xml\nSitemap: HOST/rs/maps/resourcelist.xml\n"},
			chain: []string{"/rs/maps/resourcelist.xml", "/rs/maps/capabilitylist.xml"}},
		{name: "Resource List", address: "HOST/rs/maps/resourcelist.xml", changes: bare, chain: []string{"/rs/maps/capabilitylist.xml"}},
		{name: "part of an index", address: "HOST/rs/main/part1.xml", changes: bare, chain: []string{"/rs/main/capabilitylist.xml"}},
	}
	for _, tt := range tests {
		for _, path := range tt.chain {
			for _, how := range failures {
				absent := how == "404" && slices.Contains(tt.customs, path)
				if how == "empty" && path == "/robots.txt" {
					continue // it announces nothing
				}
				if how == "sitemap" && (path == "/robots.txt" || path == "/page.html" || path == "/rs/maps/resourcelist.xml") {
					continue // the failing document then announces nothing, or is valid
				}
				if path == "/page.html" && how != "reset" && how != "truncated" && how != "503" {
					continue // a missing or different page has no links
				}
				t.Run(fmt.Sprintf("%s %s %s", tt.name, strings.ReplaceAll(path, "/", "_"), how), func(t *testing.T) {
					t.Parallel()
					f := usual().with(tt.changes).withPages().serveFailing(t)
					found, err := discover.Find(t.Context(), f.once(t), f.fill(tt.address))
					if err != nil {
						t.Fatal(err)
					}
					f.set(path, how)
					fresh, err := discover.Find(t.Context(), f.once(t), f.fill(tt.address))
					switch {
					case absent && (err != nil || fresh.Sets[0].URI("resourcelist") != f.URL+"/sitemap.xml"):
						t.Errorf("first time: %+v, %v, want the Sitemap: nothing was announced", fresh, err)
					case !absent && (err == nil || !strings.Contains(err.Error(), path)):
						t.Errorf("first time: %+v, %v, want an error that names %s", fresh, err, path)
					}
					again, changed, err := discover.Refresh(t.Context(), f.once(t), found)
					if err == nil && again.Sets[0].Err == nil && (summary(again.Sets) != summary(found.Sets) || again.Sets[0].CapabilityList != found.Sets[0].CapabilityList) {
						t.Errorf("again: %s, changed %v, was %s", summary(again.Sets), changed, summary(found.Sets))
					}
					if last := tt.chain[len(tt.chain)-1]; path == last && err == nil && again.Sets[0].Err == nil {
						t.Errorf("again: %s and no error, although %s failed", summary(again.Sets), path)
					}
				})
			}
		}
	}
}

// TestUnknownIsNotAbsent: a site with nothing but a Sitemap is synchronized by
// it; if a location that could announce documents cannot be read, or has an
// HTML page, nothing is guessed.
func TestUnknownIsNotAbsent(t *testing.T) {
	t.Parallel()
	pages := func() site { return site{"/": "<html></html>"}.withPages() }
	const nowhere = "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200"
	for _, path := range []string{"/.well-known/resourcesync", "/robots.txt", "/resourcelist.xml"} {
		for _, how := range failures {
			absent := how == "404" || path == "/resourcelist.xml" && (how == "html" || how == "sitemap") || path == "/robots.txt" && (how == "sitemap" || how == "empty")
			if how == "truncated" {
				continue // there is nothing to cut
			}
			f := pages().serveFailing(t)
			f.set(path, how)
			found, err := discover.Find(t.Context(), f.once(t), f.URL+"/")
			if absent != (err == nil) {
				t.Errorf("%s %s: %+v, %v", path, how, found, err)
			}
		}
	}
	f := pages().with(site{nowhere: "<html>start</html>", "/.well-known/resourcesync": "<html>start</html>"}).serveFailing(t)
	if found, err := discover.Find(t.Context(), f.once(t), f.URL+"/"); err != nil || len(found.Sets) != 1 {
		t.Errorf("a site that answers everything with pages: %+v, %v, want its Sitemap", found, err)
	}
}

// TestRefreshKeepsKind replaces the followed document: one of another kind is
// refused, one of the same kind is accepted.
func TestRefreshKeepsKind(t *testing.T) {
	t.Parallel()
	sd := usual()["/.well-known/resourcesync"]
	tests := []struct {
		name    string
		changes site
		want    string // the sets afterwards; or a part of the error
		fails   bool
	}{
		{"an index", site{"/.well-known/resourcesync": index(`capability="description"`, nil, "HOST/sd.xml"), "/sd.xml": sd}, both, false},
		{"moved, and announced there", site{"/.well-known/resourcesync": "", "/sd.xml": sd, "/": "Link: </sd.xml>; rel=resourcesync\n\nx"}, both, false},
		{"Capability List", site{"/.well-known/resourcesync": usual()["/rs/main/capabilitylist.xml"]}, "leads to a Capability List now, not to a Source Description", true},
		{"Resource List", site{"/.well-known/resourcesync": usual()["/rs/main/part1.xml"]}, "leads to a Resource List now, not to a Source Description", true},
		{"plain Sitemap", site{"/.well-known/resourcesync": doc("", nil, "HOST/x")}, "leads to a plain Sitemap now, not to a Source Description", true},
		{"gone, a Sitemap is there", site{"/.well-known/resourcesync": ""}, "status 404 Not Found; HOST/ leads to a plain Sitemap now", true},
		{"gone, a page links to a Capability List", site{"/.well-known/resourcesync": "", "/": "Link: </rs/main/capabilitylist.xml>; rel=resourcesync\n\nx"}, "leads to a Capability List now", true},
		{"empty", site{"/.well-known/resourcesync": doc(`capability="description"`, nil)}, "lists no set", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := usual().withPages().serveFailing(t)
			found, err := discover.Find(t.Context(), f.once(t), f.URL+"/")
			if err != nil {
				t.Fatal(err)
			}
			f.site.with(tt.changes)
			now, _, err := discover.Refresh(t.Context(), f.once(t), found)
			if tt.fails {
				if err == nil || !strings.Contains(f.strip(err.Error()), tt.want) {
					t.Errorf("Refresh = %+v, %v, want %q", now, err, tt.want)
				}
				return
			}
			if err != nil || summary(now.Sets) != tt.want {
				t.Fatalf("Refresh = %+v, %v, want %s", now, err, tt.want)
			}
			if now, _, err = discover.Refresh(t.Context(), f.once(t), now); err != nil || summary(now.Sets) != tt.want {
				t.Errorf("Refresh once more = %+v, %v, want %s", now, err, tt.want)
			}
		})
	}
}

// TestRefreshRobots: where robots.txt named the sets, Refresh notices lines that are
// added to it or removed, and fails if it cannot be read.
func TestRefreshRobots(t *testing.T) {
	t.Parallel()
	const a, b, c = "Sitemap: HOST/a.xml\n", "Sitemap: HOST/b.xml\n", "Sitemap: HOST/c.xml\n"
	tests := []struct {
		name    string
		changes site
		path    string // fails
		how     string
		want    string // names of the sets afterwards; or a part of the error
		fails   bool
		changed bool
		old     bool // the state is one without what robots.txt named
	}{
		{name: "the same", want: "a b"},
		{name: "another line", changes: site{"/robots.txt": "Disallow: /x\n" + a + b}, want: "a b", changed: true},
		{name: "a new Sitemap", changes: site{"/robots.txt": a + b + c}, want: "a b c", changed: true},
		{name: "one less", changes: site{"/robots.txt": b}, want: "b", changed: true},
		{name: "an old state", changes: site{"/robots.txt": a + b + c}, want: "a b", old: true},
		{name: "a Resource List beside", changes: site{"/robots.txt": a + b + "Sitemap: HOST/r.xml\n", "/r.xml": doc(`capability="resourcelist"`+at, nil, "HOST/x")},
			want: "HOST/robots.txt leads to a Resource List that robots.txt names now, not to a plain Sitemap that robots.txt names as before", fails: true},
		{name: "none", changes: site{"/robots.txt": "#"}, want: "read HOST/robots.txt: it names no Sitemap", fails: true},
		{name: "gone", changes: site{"/robots.txt": ""}, want: "HOST/robots.txt: status 404 Not Found; HOST leads to a plain Sitemap now, not to a plain Sitemap that robots.txt names as before", fails: true},
		{name: "a page", path: "/robots.txt", how: "html", want: "read HOST/robots.txt: an HTML page", fails: true},
		{name: "unavailable", path: "/robots.txt", how: "503", want: "HOST/robots.txt: status 503", fails: true},
		{name: "truncated", path: "/robots.txt", how: "truncated", want: "HOST/robots.txt", fails: true},
		{name: "a new Sitemap is unavailable", changes: site{"/robots.txt": a + b + c}, path: "/c.xml", how: "503", want: "HOST/c.xml: status 503", fails: true},
		{name: "a known Sitemap is none any more", changes: site{"/robots.txt": a + b + c, "/b.xml": "text"}, want: "read HOST/b.xml", fails: true},
		{name: "a feed is added", changes: site{"/robots.txt": a + b + c, "/c.xml": "text"}, want: "a b", changed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list := doc("", nil, "HOST/page")
			f := site{"/robots.txt": a + b, "/a.xml": list, "/b.xml": list, "/c.xml": list}.withPages().serveFailing(t)
			found, err := discover.Find(t.Context(), f.once(t), f.URL)
			if err != nil || len(found.Sets) != 2 || found.Robots.URI != f.URL+"/robots.txt" {
				t.Fatalf("Find = %+v, %v", found, err)
			}
			if tt.old {
				found.Robots = discover.Robots{}
			}
			f.site.with(tt.changes)
			f.set(tt.path, tt.how)
			for range 2 {
				now, changed, err := discover.Refresh(t.Context(), f.once(t), found)
				if tt.fails {
					if err == nil || !strings.Contains(f.strip(err.Error()), tt.want) {
						t.Errorf("Refresh = %+v, %v, want %q", now, err, tt.want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, s := range now.Sets {
					names = append(names, s.Name)
				}
				if got := strings.Join(names, " "); got != tt.want || changed != tt.changed {
					t.Errorf("Refresh = %s, %v, want %s, %v", got, changed, tt.want, tt.changed)
				}
				found, tt.changed = now, false
			}
		})
	}
}

// TestRefreshNestedDescriptions: below an index of Source Descriptions, Refresh
// notices a change of one, and one that fails and comes back, though the index
// does not change.
func TestRefreshNestedDescriptions(t *testing.T) {
	t.Parallel()
	main := doc(`capability="description"`, nil, `HOST/rs/main/capabilitylist.xml capability="capabilitylist"`)
	f := usual().with(site{"/.well-known/resourcesync": index(`capability="description"`, nil, "HOST/a.xml", "HOST/b.xml"),
		"/a.xml": main, "/b.xml": doc(`capability="description"`, nil)}).serveFailing(t)
	f.set("/a.xml", "503")
	if found, err := discover.Find(t.Context(), f.once(t), f.URL+"/"); err == nil {
		t.Errorf("Find = %s, want the error of the Source Description below", summary(found.Sets))
	}
	f.set("", "")
	found, err := discover.Find(t.Context(), f.once(t), f.URL+"/")
	if err != nil || summary(found.Sets) != "main: resourcelist changelist" {
		t.Fatalf("Find = %+v, %v", found, err)
	}
	f.site["/b.xml"] = doc(`capability="description"`, nil, `HOST/rs/maps/capabilitylist.xml capability="capabilitylist"`)
	if found, _, err = discover.Refresh(t.Context(), f.once(t), found); err != nil || summary(found.Sets) != both {
		t.Fatalf("Refresh = %+v, %v, want the set that was added", found, err)
	}
	f.set("/b.xml", "503")
	broken, _, err := discover.Refresh(t.Context(), f.once(t), found)
	if err != nil || len(broken.Sets) != 2 || broken.Sets[1].Err == nil || !strings.Contains(broken.Sets[1].Err.Error(), "/b.xml") {
		t.Fatalf("Refresh = %+v, %v, want an error of one set", broken, err)
	}
	f.set("", "")
	if found, _, err = discover.Refresh(t.Context(), f.once(t), broken); err != nil || summary(found.Sets) != both {
		t.Errorf("Refresh = %+v, %v, want both sets again", found, err)
	}
}

// TestSetNamesDoNotDependOnOrder: sets with equal names get unique ones from
// their URIs, whatever their order, and keep names in use.
func TestSetNamesDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	const a, b, other = `HOST/a/rs/capabilitylist.xml capability="capabilitylist"`, `HOST/b/rs/capabilitylist.xml capability="capabilitylist"`, `HOST/rs/maps/capabilitylist.xml capability="capabilitylist"`
	list := usual()["/rs/maps/capabilitylist.xml"]
	srv := usual().with(site{"/a/rs/capabilitylist.xml": list, "/b/rs/capabilitylist.xml": list}).serve(t)
	names := func(f *discover.Found) map[string]string {
		byURI := map[string]string{}
		for _, s := range f.Sets {
			byURI[srv.strip(s.CapabilityList)] = s.Name
		}
		return byURI
	}
	var all []map[string]string
	var found *discover.Found
	for _, order := range [][]string{{a, b, other}, {b, other, a}, {other, b, a}} {
		srv.site["/.well-known/resourcesync"] = doc(`capability="description"`, nil, order...)
		var err error
		if found, err = discover.Find(t.Context(), srv.client, srv.URL); err != nil {
			t.Fatal(err)
		}
		all = append(all, names(found))
	}
	first := all[0]
	if first["HOST/rs/maps/capabilitylist.xml"] != "maps" || first["HOST/a/rs/capabilitylist.xml"] == first["HOST/b/rs/capabilitylist.xml"] {
		t.Errorf("names %v", first)
	}
	for uri, name := range first {
		if all[1][uri] != name || all[2][uri] != name {
			t.Errorf("%s is named %q, %q, %q", uri, name, all[1][uri], all[2][uri])
		}
	}
	found.Sets[0].Name, found.Sets[1].Name = "rs", "rs-2" // as earlier versions named them
	srv.site["/.well-known/resourcesync"] = doc(`capability="description"`, nil, a, b)
	now, _, err := discover.Refresh(t.Context(), srv.client, found)
	if err != nil || names(now)[srv.strip(found.Sets[1].CapabilityList)] != "rs-2" {
		t.Errorf("after Refresh: %v, %v, want the names in use kept", names(now), err)
	}
}

// TestRefreshAfterFailure: a Capability List that could not be read, and has not changed since,
// is one that can be read.
func TestRefreshAfterFailure(t *testing.T) {
	t.Parallel()
	f := usual().serveFailing(t)
	found, err := discover.Find(t.Context(), f.once(t), f.URL+"/")
	if err != nil || summary(found.Sets) != both {
		t.Fatalf("Find = %+v, %v", found, err)
	}
	f.set("/rs/maps/capabilitylist.xml", "503")
	broken, _, err := discover.Refresh(t.Context(), f.once(t), found)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range broken.Sets {
		if broken.Sets[i].Err != nil {
			failed++
		}
	}
	f.set("", "")
	healed, _, err := discover.Refresh(t.Context(), f.once(t), broken)
	if err != nil || failed != 1 {
		t.Fatalf("%d sets failed, then %v", failed, err)
	}
	for i := range healed.Sets {
		if err := healed.Sets[i].Err; err != nil {
			t.Errorf("the failure remains: %v", err)
		}
	}
}
