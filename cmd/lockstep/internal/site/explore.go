package site

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
)

// exploreName is where the sets are browsed, below the base URL.
const exploreName = admin.PagesDir + "explore"

// An Explorer returns pages on which people browse what a Source publishes at a base URL. The
// path of their requests begins after the address that they are at. own answers requests for the
// documents and resources of the Source, and nothing else: the pages fetch from no other address. A
// request to own needs the context of the one that a page is for: it says which private sets the
// client may read.
type Explorer func(baseURL string, own http.Handler) http.Handler

// exploreURI returns the address of the pages; "" if there are none.
func (o *Options) exploreURI() string {
	if o.Explorer == nil || o.Embedding == nil {
		return ""
	}
	return strings.TrimSuffix(o.BaseURL, "/") + "/" + exploreName + "/"
}

// explore returns the pages on which the documents of a setup are browsed; nil if there are
// none.
func (o *Options) explore(documents http.Handler) http.Handler {
	if o.exploreURI() == "" {
		return nil
	}
	return o.Explorer(o.BaseURL, documents)
}

// serveExplorer answers a request for one of the pages, and reports whether r is one.
func (f *front) serveExplorer(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), strings.TrimSuffix(f.exploreDir, "/"))
	if f.explorer == nil || !ok || rest != "" && rest[0] != '/' {
		return false
	}
	if rest == "" {
		http.Redirect(w, r, f.exploreDir, http.StatusMovedPermanently)
		return true
	}
	inner, err := url.ParseRequestURI(rest)
	if err != nil || inner.Path != path.Clean(inner.Path) && inner.Path != path.Clean(inner.Path)+"/" { // nothing of ours has such a name
		http.NotFound(w, r)
		return true
	}
	inner.RawQuery = r.URL.RawQuery
	sub := *r
	sub.URL = inner
	f.explorer.ServeHTTP(w, &sub)
	return true
}
