package discover_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"lockstep/discover"
)

// A Capability List that was read on the way up and could not be read again on
// the way down is one usable set.
func TestFindOnceUnreadable(t *testing.T) {
	t.Parallel()
	read := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const ns = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`
		switch base := "http://" + r.Host; r.URL.Path {
		case "/":
			w.Header().Set("Link", `</capabilitylist.xml>; rel="resourcesync"`)
		case "/capabilitylist.xml":
			if read++; read > 1 {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			fmt.Fprintf(w, `<urlset %s><rs:ln rel="up" href="%s/description.xml"/><rs:md capability="capabilitylist"/>
				<url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url></urlset>`, ns, base, base)
		case "/description.xml":
			fmt.Fprintf(w, `<urlset %s><rs:md capability="description"/>
				<url><loc>%s/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`, ns, base)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	found, err := discover.Find(t.Context(), newClient(t, srv.URL), srv.URL+"/")
	if err != nil || len(found.Sets) != 1 || found.Sets[0].Err != nil || found.Sets[0].URI("resourcelist") == "" {
		t.Errorf("Find: %+v, %v", found, err)
	}
}
