package main

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// pagesDir is where pages about a process are, below its base URL: for people,
// monitors, and programs that manage it.
const pagesDir = "-/"

// pages serve what a process tells of itself. All but whether it lives and is
// ready is for those the guard lets in.
type pages struct {
	dir    string // the path they are below, from the root, with a slash at its end
	guard  *guard
	routes []pageRoute
}

// A pageRoute is one address, or all below one that ends in a slash.
type pageRoute struct {
	path    string // below dir
	handler http.Handler
}

// newPages returns the pages of what is served below base, a path with slashes
// at both ends: health, and figures. ready tells why the process is not ready
// yet; nil says it is.
func newPages(base string, g *guard, m *metrics, ready func() error) *pages {
	p := &pages{dir: base + pagesDir, guard: g}
	p.add("healthz", says(func() error { return nil }))
	p.add("readyz", says(ready))
	p.protect("metrics", m.handler())
	return p
}

// add serves h at path below the pages, to everybody.
func (p *pages) add(path string, h http.Handler) { p.routes = append(p.routes, pageRoute{path, h}) }

// protect serves h at path to those the guard lets in.
func (p *pages) protect(path string, h http.Handler) { p.add(path, p.guard.protect(h)) }

// mount serves h at an address and at all below it, to those the guard lets in. The
// path h sees begins after it.
func (p *pages) mount(at string, h http.Handler) {
	below := p.guard.protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.EscapedPath(), p.dir+at)
		if rest == "" {
			rest = "/"
		}
		inner, err := url.ParseRequestURI(rest)
		if err != nil || inner.Path != path.Clean(inner.Path) { // nothing of ours has such a name
			http.NotFound(w, r)
			return
		}
		inner.RawQuery = r.URL.RawQuery
		sub := *r
		sub.URL = inner
		h.ServeHTTP(w, &sub)
	}))
	p.routes = append(p.routes, pageRoute{at, below}, pageRoute{at + "/", below})
}

// serve answers a request for one of the pages, and reports whether it was.
func (p *pages) serve(w http.ResponseWriter, r *http.Request) bool {
	rel, ok := strings.CutPrefix(r.URL.EscapedPath(), p.dir)
	if !ok {
		return false
	}
	for _, route := range p.routes {
		if rel == route.path || strings.HasSuffix(route.path, "/") && strings.HasPrefix(rel, route.path) {
			route.handler.ServeHTTP(w, r)
			return true
		}
	}
	return false
}

// says answers "ok", or why not.
func says(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		if err := check(); err != nil {
			header.Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // a client that has gone needs no answer
	})
}
