package site

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/browse"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/memento"
)

// exploreName is where the sets are browsed, below the base URL.
const exploreName = admin.PagesDir + "explore"

// exploreURI returns the address of the pages; "" if there are none.
func (o *Options) exploreURI() string {
	if o.Embedding == nil || !o.Content {
		return ""
	}
	return strings.TrimSuffix(o.BaseURL, "/") + "/" + exploreName + "/"
}

// explore returns the pages on which the sets of a setup are browsed.
func (b *setupBuilder) explore(sets []*siteSet, configs []config.Set) http.Handler {
	home := strings.TrimSuffix(b.pages.Dir, admin.PagesDir)
	o := browse.Options{Title: cmp.Or(b.source.Title, "Source"), Home: home, Catalog: b.catalog, Logger: b.opts.Log}
	for i, set := range sets {
		own := browse.Set{Name: set.name, Title: set.source.Title, Summary: set.source.Summary, List: set.list, Prefix: set.uri, Private: configs[i].Private()}
		if set.versions != nil {
			own.Versions = memento.Base(strings.TrimSuffix(b.opts.BaseURL, "/") + "/")
		}
		o.Sets = append(o.Sets, own)
	}
	return browse.New(o)
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
