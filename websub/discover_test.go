package websub_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"

	"lockstep/websub"
)

// A respond answers one request of a discovery.
type respond func(w http.ResponseWriter, r *http.Request)

func page200(body string, fields ...string) respond {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = io.WriteString(w, body)
	}
}

func inUTF16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// The discovery results for http://h/d/page (WS-D-03, WS-D-07, WS-D-08,
// WS-D-10, WS-D-12, WS-D-13).
func TestDiscover(t *testing.T) {
	t.Parallel()
	const self = "http://h/self"
	one := []string{"http://hub/"}
	tests := []struct {
		name     string
		page     respond
		topic    string
		hubs     []string
		warnings int
	}{
		{"relative targets", page200("", "Link", `</hub>; rel="HUB", <?x>; rel="other Self"`), "http://h/d/page?x", []string{"http://h/hub"}, 0},
		{"HTTPS first", page200("", "Link", `<http://a/>; rel=hub, <https://b/>; rel=hub, <http://c/>; rel=hub, <https://d/>; rel=hub, <http://a/>; rel=hub, <`+self+`>; rel=self`), self, []string{"https://b/", "https://d/", "http://a/", "http://c/"}, 0},
		{"several self", page200("", "Link", `<http://hub/>; rel=hub, <`+self+`>; rel=self, </2>; rel=self`), self, one, 1},
		{"same self twice", page200("", "Link", `<http://hub/>; rel=hub, <`+self+`>; rel=self, </self>; rel=self`), self, one, 0},
		{"anchor elsewhere", page200("", "Link", `<http://x/>; rel=hub; anchor="/y", <http://hub/>; rel=hub, <`+self+`>; rel=self`), self, one, 0},
		{"no hub that can be asked", page200("", "Link", `<ftp://x/>; rel=hub, <http://hub/>; rel=hub, <`+self+`>; rel=self`), self, one, 0},
		{"self without its fragment", page200("", "Link", `<http://hub/>; rel=hub, <`+self+`#x>; rel=self`), self, one, 0},
		{"self from the body", page200(`<link rel=self href=/self><link rel=hub href=/wrong>`, "Link", `<http://hub/>; rel=hub`), self, one, 1},
		{"hub from the body", page200(`<link rel=hub href=http://hub/><link rel=self href=/wrong>`, "Link", `<`+self+`>; rel=self`), self, one, 1},
		{"no self", page200("", "Link", `<http://hub/>; rel=hub`), "http://h/d/page", one, 1},
		{"HTML", page200(`<!DOCTYPE html><html><head><meta charset=x><script>"<link rel=hub href=/w>"</script><link rel="x hub" href="//hub/"><link rel=self href="../self"></head>`), self, one, 0},
		{"HTML with base", page200(`<base href=http://hub/><link rel=hub href="/"><link rel=self href="http://h/self">`), self, one, 0},
		{"HTML: body is a visitor's", page200(`<head><link rel=hub href=http://hub/><link rel=self href=/self></head><body><link rel=hub href=/w><link rel=self href=/w>`), self, one, 0},
		{"HTML: body begins by itself", page200(`<link rel=hub href=http://hub/><link rel=self href=/self><p><link rel=hub href=/w>`), self, one, 0},
		{"HTML: body begins by text", page200(`<title>a</title> <link rel=hub href=http://hub/><link rel=self href=/self> text <link rel=hub href=/w>`), self, one, 0},
		{"HTML: template and comment", page200(`<template><p>x</p><link rel=hub href=/w></template><!-- <link rel=hub href=/w> --><link rel=hub href=http://hub/><link rel=self href=/self>`), self, one, 0},
		{"XHTML", page200(`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><link rel="hub" href="http://hub/"/><link rel="self" href="/self"/></head></html>`, "Content-Type", "application/xhtml+xml"), self, one, 0},
		{"Atom as HTML", page200(strings.NewReplacer("{hub}", "http://hub/", "{self}", self).Replace(atomFeed), "Content-Type", "text/html"), self, one, 0},
		{"Atom 0.3, prefix, base", page200("\ufeff<?xml version='1.0' encoding='ISO-8859-1'?><!-- c --><a:feed xmlns:a='http://purl.org/atom/ns#' xml:base='http://hub/x'><a:entry><a:link rel='hub' href='/w'/></a:entry><a:title>\xe9</a:title><a:link rel='hub' href='/'/><a:link xml:base='http://h/' rel='self' href='self'/></a:feed>"), self, one, 0},
		{"Atom in UTF-16", page200(inUTF16(`<?xml version="1.0" encoding="utf-16"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="http://hub/"/><link rel="self" href="/self"/></feed>`)), self, one, 0},
		{"Atom, cut off", page200(`<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="http://hub/"/><link rel="self" href="/self"/><entry><p>&nbsp;<`), self, one, 0},
		{"RSS", page200(strings.NewReplacer("{hub}", "http://hub/", "{self}", self).Replace(rssFeed), "Content-Type", "text/plain"), self, one, 0},
		{"RSS 1.0", page200(`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:atom="http://www.w3.org/2005/Atom"><atom:link rel="hub" href="/w"/><channel><link>http://w/</link><atom:link rel="hub" href="http://hub/"/><atom:link rel="self" href="/self"/></channel><item><atom:link rel="hub" href="/w"/></item></rdf:RDF>`), self, one, 0},
		{"a ResourceSync document", page200(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:ln rel="hub" href="http://hub/"/><rs:ln rel="self" href="/self"/><url><loc>/x</loc><rs:ln rel="hub" href="/w"/></url></urlset>`), self, one, 0},
	}
	for _, tt := range tests {
		d, err := websub.Discover(context.Background(), wire{"h": http.HandlerFunc(tt.page)}, "http://h/d/page#part")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if d.Topic != tt.topic || !slices.Equal(d.Hubs, tt.hubs) || len(d.Warnings) != tt.warnings || d.URL != "http://h/d/page" {
			t.Errorf("%s: %+v, want topic %s, hubs %s, %d warnings", tt.name, d, tt.topic, tt.hubs, tt.warnings)
		}
	}
}

// A HEAD that fails or returns no links is repeated with GET (WS-D-04,
// WS-D-05); headers take precedence over the body.
func TestDiscoverHead(t *testing.T) {
	t.Parallel()
	const good = `<http://hub/>; rel=hub, </self>; rel=self`
	get := func(status int, f respond) respond {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(status)
				return
			}
			f(w, r)
		}
	}
	tests := map[string]struct {
		page     respond
		requests int32
	}{
		"HEAD says all":  {page200("", "Link", good), 1},
		"405":            {get(405, page200("", "Link", good)), 2},
		"501":            {get(501, page200("", "Link", good)), 2},
		"404":            {get(404, page200("", "Link", good)), 2},
		"without links":  {get(200, page200("", "Link", good)), 2},
		"links in body":  {get(200, page200(`<link rel=hub href=http://hub/><link rel=self href=/self>`)), 2},
		"204 with links": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Link", good); w.WriteHeader(204) }, 1},
		"only HEAD works": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://hub/>; rel=hub`)
			if r.Method != http.MethodHead {
				w.WriteHeader(500)
			}
		}, 2},
	}
	for name, tt := range tests {
		var n atomic.Int32
		d, err := websub.Discover(context.Background(), wire{"h": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Add(1); tt.page(w, r) })}, "http://h/self")
		if err != nil || d.Topic != "http://h/self" || !slices.Equal(d.Hubs, []string{"http://hub/"}) || n.Load() != tt.requests {
			t.Errorf("%s: %+v, %v, %d requests, want %d", name, d, err, n.Load(), tt.requests)
		}
	}
}

func TestDiscoverInVain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, address string
		page          respond
		want          string
		none          bool // no hub is named, everything else is valid
	}{
		{"no links", "http://h/", page200("<p>hello"), "discover hub of http://h/: it names no hub", true},
		{"JSON", "http://h/", page200(`{"a": "<link rel=hub href=x>"`), "it names no hub", true},
		{"only self", "http://h/", page200("", "Link", "</>; rel=self"), "it names no hub", true},
		{"not found", "http://h/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "discover hub of http://h/: GET: status 404", false},
		{"links of an error", "http://h/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<http://hub/>; rel=hub")
			w.WriteHeader(404)
		}, "status 404", false},
		{"no server", "http://nobody/", nil, "discover hub of http://nobody/: connection refused", false},
		{"no URL", "x:y", nil, "not an http or https URL", false},
		{"password", "http://u:p@nobody/", nil, "discover hub of http://nobody/: connection refused", false},
		{"redirects for ever", "http://h/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "more than 10 redirects", false},
		{"body in HTML", "http://h/", page200("<body><link rel=hub href=/hub>"), "it names no hub", true},
	}
	for _, tt := range tests {
		d, err := websub.Discover(context.Background(), wire{"h": http.HandlerFunc(tt.page)}, tt.address)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, websub.ErrNoHub) != tt.none || (d != nil) != tt.none {
			t.Errorf("%s: %+v, %v, want %s", tt.name, d, err, tt.want)
		}
	}
}

// Options of a Discoverer: WS-D-08, WS-D-11, WS-D-12.
func TestDiscoverer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := &websub.Discoverer{Client: wire{"h": http.HandlerFunc(page200("<body><p><link rel=hub href=/hub><link rel=self href=/self>"))}, Body: true}
	if got, err := d.Discover(ctx, "http://h/"); err != nil || got.Topic != "http://h/self" {
		t.Errorf("links in the body element: %+v, %v", got, err)
	}
	d = &websub.Discoverer{Client: wire{"h": http.HandlerFunc(page200("", "Link", "</1>; rel=self, </2>; rel=self, </hub>; rel=hub"))}, Strict: true}
	if got, err := d.Discover(ctx, "http://h/"); err == nil || !strings.Contains(err.Error(), "2 topics") {
		t.Errorf("several topics: %+v, %v", got, err)
	}
	d = &websub.Discoverer{Client: wire{"h": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</"+r.Header.Get("Accept-Language")+">; rel=self, </hub>; rel=hub")
	})}, Header: http.Header{"Accept-Language": {"de"}}}
	if got, err := d.Discover(ctx, "http://h/"); err != nil || got.Topic != "http://h/de" {
		t.Errorf("by language: %+v, %v", got, err)
	}
}

// Credentials are sent only to their host.
func TestDiscoverKeepsCredentials(t *testing.T) {
	t.Parallel()
	var other http.Header
	w := wire{
		"h": http.RedirectHandler("http://other/", http.StatusTemporaryRedirect),
		"other": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			other = r.Header.Clone()
			w.Header().Set("Link", "</hub>; rel=hub")
		}),
	}
	d := &websub.Discoverer{Client: w, Header: http.Header{"Authorization": {"Bearer x"}, "Accept": {"text/html"}}}
	if _, err := d.Discover(context.Background(), "http://h/"); err != nil {
		t.Fatal(err)
	}
	if other.Get("Authorization") != "" || other.Get("Accept") != "text/html" {
		t.Errorf("sent to the other host: %v", other)
	}
}

// A topic that moved (WS-P-06): its old address redirects to the resource with
// the new self and hub.
func TestDiscoverMovedTopic(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Link", websub.LinkHeader("http://"+r.Host+"/new", []string{"http://new-hub/"}))
	}))
	t.Cleanup(srv.Close)
	d, err := websub.Discover(context.Background(), srv.Client(), srv.URL+"/old")
	if err != nil || d.Topic != srv.URL+"/new" || d.URL != d.Topic || d.Hubs[0] != "http://new-hub/" {
		t.Errorf("%+v, %v", d, err)
	}
}

// An endless page is read up to a limit.
func TestDiscoverEndless(t *testing.T) {
	t.Parallel()
	for _, begin := range []string{"<feed><title>", "<html><title>", "<feed>" + strings.Repeat("<a>", 1000), "<html a='", "<feed a='"} {
		var sent atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			_, _ = io.WriteString(w, begin)
			for chunk := bytes.Repeat([]byte("x"), 64<<10); r.Context().Err() == nil; {
				n, err := w.Write(chunk)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		}))
		_, err := websub.Discover(context.Background(), srv.Client(), srv.URL)
		if !errors.Is(err, websub.ErrNoHub) {
			t.Errorf("%s: %v", begin[:6], err)
		}
		srv.Close()
		if n := sent.Load(); n > 64<<20 {
			t.Errorf("%s: read %d bytes", begin[:6], n)
		}
	}
}

func FuzzDiscover(f *testing.F) {
	for _, s := range []string{htmlPage, atomFeed, rssFeed, inUTF16(atomFeed), `<!doctype x [<!ENTITY a "b">]><feed xml:base="//::"><link rel=hub href="//::"/>`, `<template><base href=a><noscript><link rel="hub self" href="?a&amp;b">`} {
		f.Add(s, "text/html")
	}
	f.Fuzz(func(t *testing.T, body, link string) {
		link = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, link)
		d, err := websub.Discover(context.Background(), wire{"h": http.HandlerFunc(page200(body, "Link", link))}, "http://h/d/page")
		if err != nil && !errors.Is(err, websub.ErrNoHub) {
			t.Fatalf("%q, %q: %v", link, body, err)
		}
		if len(d.Hubs) > 100 {
			t.Errorf("%d hubs", len(d.Hubs))
		}
		for _, a := range append(d.Hubs, d.Topic) {
			if u, err := url.Parse(a); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
				t.Errorf("%q, %q: found %q, %v", link, body, a, err)
			}
		}
	})
}
