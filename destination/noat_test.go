package destination_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestListDeployedLater: a Resource List without at was made before it was put on the server.
// Changes between the two are applied, and those from before the list are not.
func TestListDeployedLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.replace("/old", "old")
	s.replace("/back", "back")
	s.replace("/new", "new")
	list := func(head string) {
		s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist"`+head+`/>`, fmt.Sprintf(
			`<url><loc>%s</loc><lastmod>2024-05-01T09:00:00Z</lastmod></url><url><loc>%s</loc><lastmod>2024-05-01T10:00:00Z</lastmod></url>`, s.url("/old"), s.url("/back"))))
	}
	list("")
	s.replace("/rs/changelist.xml", doc("urlset", `<rs:md capability="changelist" from="2024-05-01T08:00:00Z"/>`, fmt.Sprintf(
		`<url><loc>%s</loc><rs:md change="deleted" datetime="2024-05-01T08:30:00Z"/></url>`+
			`<url><loc>%s</loc><lastmod>2024-05-01T11:00:00Z</lastmod><rs:md change="created" datetime="2024-05-01T11:00:00Z"/></url>`+
			`<url><loc>%s</loc><rs:md change="deleted" datetime="2024-05-01T11:30:00Z"/></url>`, s.url("/back"), s.url("/new"), s.url("/old"))))
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/rs/resourcelist.xml" {
			w.Header().Set("Last-Modified", time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC).Format(http.TimeFormat))
		}
		return false
	})
	m := newMirror(t, s)
	m.opts.MaxDelete = 100
	r, err := m.sync()
	if err != nil || !r.Complete {
		t.Errorf("Sync = %+v, %v", r, err)
	}
	if f := m.files(); f["new"] != "new" || f["back"] != "back" || f["old"] != "" {
		t.Errorf("the mirror has %v", f)
	}
	if r, err := m.sync(); err != nil || r.Created+r.Updated+r.Deleted != 0 {
		t.Errorf("Sync once more = %+v, %v", r, err)
	}
	if r := m.audit(); len(r.Findings) > 0 {
		t.Errorf("Audit = %+v", r)
	}
}
