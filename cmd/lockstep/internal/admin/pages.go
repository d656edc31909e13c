package admin

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"lockstep/internal/trust"
)

// PagesDir is where pages about a process are, below its base URL: for people,
// monitors, and programs that manage it.
const PagesDir = "-/"

// Pages serve the status of a process. All but health and readiness takes the
// admin token, or the admin socket.
type Pages struct {
	Detail func() string // what /-/readyz says behind "ok"; may be nil
	Dir    string        // the path they are below, from the root, with a slash at its end
	guard  *trust.Guard
	Routes []pageRoute

	dashboard http.Handler // on the admin listener only; nil: none
}

// A pageRoute is one address, or all below one that ends in a slash.
type pageRoute struct {
	Path    string // below dir
	handler http.Handler
}

// KindOf says what a request is for whose path, as it was sent, is below the root: a
// page, or else what the server is for.
func KindOf(other string) func(path string) string {
	return func(path string) string {
		if strings.HasPrefix(path, "/"+PagesDir) {
			return "page"
		}
		return other
	}
}

// NewPages returns the administrative pages, health and metrics, below base, a
// path with slashes at both ends. ready returns why the process is not ready
// yet, or nil if it is.
func NewPages(base string, g *trust.Guard, m *Metrics, ready func() error) *Pages {
	p := &Pages{Dir: base + PagesDir, guard: g}
	p.add("healthz", says(func() error { return nil }))
	p.add("readyz", saysWith(ready, func() string {
		if p.Detail == nil {
			return ""
		}
		return p.Detail()
	}))
	p.Protect("metrics", m.Handler())
	return p
}

// add serves h at path below the pages, to everybody.
func (p *Pages) add(path string, h http.Handler) { p.Routes = append(p.Routes, pageRoute{path, h}) }

// Protect serves h at path to requests that may administrate.
func (p *Pages) Protect(path string, h http.Handler) { p.add(path, p.guard.Protect(h)) }

// Mount serves h at an address and at all below it, to requests that may
// administrate. The path h sees begins after it.
func (p *Pages) Mount(at string, h http.Handler) {
	below := p.guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.EscapedPath(), p.Dir+at)
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
	p.Routes = append(p.Routes, pageRoute{at, below}, pageRoute{at + "/", below})
}

// Serve answers a request for one of the pages, and reports whether it was.
func (p *Pages) Serve(w http.ResponseWriter, r *http.Request) bool {
	rel, ok := strings.CutPrefix(r.URL.EscapedPath(), p.Dir)
	if !ok {
		return false
	}
	for _, route := range p.Routes {
		if rel == route.Path || strings.HasSuffix(route.Path, "/") && strings.HasPrefix(rel, route.Path) {
			route.handler.ServeHTTP(w, r)
			return true
		}
	}
	return false
}

// Admin returns a handler for the admin listener: the pages, and what else may
// be administrated. There they are at the root, too, wherever the public
// addresses are.
func (p *Pages) Admin(more func(http.ResponseWriter, *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/"+PagesDir); ok && !strings.HasPrefix(r.URL.EscapedPath(), p.Dir) {
			inner, err := url.ParseRequestURI(p.Dir + rest)
			if err != nil {
				http.NotFound(w, r)
				return
			}
			inner.RawQuery = r.URL.RawQuery
			sub := *r
			sub.URL, r = inner, &sub
		}
		if p.profile(w, r) || p.Serve(w, r) || more != nil && more(w, r) || p.show(w, r) {
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.Error(w, "there is nothing here; administration is below /"+PagesDir+", as /"+PagesDir+"metrics", http.StatusNotFound)
	})
}

// says answers "ok", or why not.
func says(check func() error) http.Handler { return saysWith(check, func() string { return "" }) }

// saysWith is says, with details behind the "ok".
func saysWith(check func() error, detail func() string) http.Handler {
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
		_, _ = w.Write([]byte("ok\n" + detail())) // a client that has gone needs no answer
	})
}
