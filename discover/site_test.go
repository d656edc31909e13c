package discover_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A site is the content of a test Source, by path. In a body, HOST is replaced
// by the site's base URI. A value "status N" is an answer with that status, "->
// URI" a redirect; "Link: value", an empty line and a body is that body with
// that header.
type site map[string]string

// A server serves a site.
type server struct {
	*httptest.Server
	site     site
	byQuery  bool // the query, if any, is a part of the path
	client   *fetch.Client
	requests atomic.Int64
	full     atomic.Int64 // answered with a body
}

func (s site) serve(t testing.TB) *server {
	t.Helper()
	srv := &server{site: s}
	srv.Server = httptest.NewServer(srv)
	t.Cleanup(srv.Close)
	srv.client = newClient(t, srv.URL)
	return srv
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	text, ok := s.site[r.URL.Path]
	if s.byQuery && r.URL.Query().Has("verb") {
		text, ok = s.site[r.URL.Path+"?"+r.URL.RawQuery]
	}
	text = s.fill(text)
	var code int
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case strings.HasPrefix(text, "-> "):
		http.Redirect(w, r, strings.TrimPrefix(text, "-> "), http.StatusFound)
		return
	case strings.HasPrefix(text, "status "):
		_, _ = fmt.Sscanf(text, "status %d", &code)
		w.WriteHeader(code)
		return
	}
	if link, rest, ok := strings.Cut(text, "\n\n"); ok && strings.HasPrefix(link, "Link: ") {
		w.Header().Set("Link", strings.TrimPrefix(link, "Link: "))
		text = rest
	}
	etag := fmt.Sprintf(`"%d"`, len(text))
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.full.Add(1)
	_, _ = w.Write([]byte(text))
}

// fill replaces HOST by the base URI, and NAME by host and port.
func (s *server) fill(text string) string {
	text = strings.ReplaceAll(text, "HOST", s.URL)
	return strings.ReplaceAll(text, "NAME", strings.TrimPrefix(s.URL, "http://"))
}

// strip is the inverse of fill.
func (s *server) strip(text string) string { return strings.ReplaceAll(text, s.URL, "HOST") }

func newClient(t testing.TB, home string) *fetch.Client {
	t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(home)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// doc formats a document: the attributes of its rs:md, its links as "rel href",
// its entries as "loc attributes".
func doc(md string, links []string, entries ...string) string {
	return document("urlset", "url", md, links, entries)
}

func index(md string, links []string, entries ...string) string {
	return document("sitemapindex", "sitemap", md, links, entries)
}

func document(root, child, md string, links, entries []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`, root)
	for _, l := range links {
		rel, href, _ := strings.Cut(l, " ")
		fmt.Fprintf(&b, `<rs:ln rel="%s" href="%s"/>`, rel, href)
	}
	if md != "" {
		fmt.Fprintf(&b, `<rs:md %s/>`, md)
	}
	for _, e := range entries {
		loc, attrs, _ := strings.Cut(e, " ")
		fmt.Fprintf(&b, `<%s><loc>%s</loc>`, child, loc)
		if attrs != "" {
			fmt.Fprintf(&b, `<rs:md %s/>`, attrs)
		}
		fmt.Fprintf(&b, `</%s>`, child)
	}
	fmt.Fprintf(&b, `</%s>`, root)
	return b.String()
}

const (
	at   = ` at="2024-05-01T02:00:00Z"`
	from = ` from="2024-05-01T02:00:00Z"`
)

// usual is a Source of two sets: main has a Resource List Index and a Change
// List, maps a Resource List.
func usual() site {
	up := []string{"up HOST/.well-known/resourcesync"}
	main, maps := []string{"up HOST/rs/main/capabilitylist.xml"}, []string{"up HOST/rs/maps/capabilitylist.xml"}
	return site{
		"/.well-known/resourcesync": doc(`capability="description"`, nil,
			`HOST/rs/main/capabilitylist.xml capability="capabilitylist"`, `HOST/rs/maps/capabilitylist.xml capability="capabilitylist"`),
		"/rs/main/capabilitylist.xml": doc(`capability="capabilitylist"`, up,
			`HOST/rs/main/resourcelist.xml capability="resourcelist"`, `HOST/rs/main/changelist.xml capability="changelist"`),
		"/rs/maps/capabilitylist.xml": doc(`capability="capabilitylist"`, up, `HOST/rs/maps/resourcelist.xml capability="resourcelist"`),
		"/rs/main/resourcelist.xml":   index(`capability="resourcelist"`+at, main, `HOST/rs/main/part1.xml`, `HOST/rs/main/part2.xml`),
		"/rs/main/part1.xml":          doc(`capability="resourcelist"`+at, append([]string{"index HOST/rs/main/resourcelist.xml"}, main...), `HOST/a`, `HOST/b`),
		"/rs/main/part2.xml":          doc(`capability="resourcelist"`+at, main, `HOST/c`),
		"/rs/main/changelist.xml":     doc(`capability="changelist"`+from, main, `HOST/a change="updated" datetime="2024-05-01T03:00:00Z"`),
		"/rs/maps/resourcelist.xml":   doc(`capability="resourcelist"`+at, maps, `HOST/m`),
		"/page.html":                  `<!DOCTYPE html><html><head><link rel="stylesheet" href="x.css"><link rel="ResourceSync" href="rs/maps/capabilitylist.xml"></head></html>`,
		"/image":                      "Link: <HOST/other>; rel=next, </rs/maps/capabilitylist.xml>; rel=\"resourcesync\"\n\nGIF89a",
		"/old":                        "-> HOST/rs/maps/capabilitylist.xml",
	}
}

// with returns a copy of s with changes: the value "" removes a path.
func (s site) with(changes site) site {
	for path, text := range changes {
		if text == "" {
			delete(s, path)
		} else {
			s[path] = text
		}
	}
	return s
}

func summary(sets []discover.Set) string {
	var texts []string
	for _, s := range sets {
		text := s.Name + ":"
		for _, c := range s.Capabilities {
			text += " " + string(c.Capability)
		}
		if s.CapabilityList == "" {
			text += " (alone)"
		}
		if s.Err != nil {
			text += " (error)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
