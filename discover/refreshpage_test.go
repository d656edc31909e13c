package discover_test

import (
	"strings"
	"testing"

	"lockstep/discover"
)

// TestRefreshPage: where a page, or the headers of a resource, linked to the sets, Refresh
// notices links that are added or removed. If it cannot be read, the sets stay, and the
// result says so.
func TestRefreshPage(t *testing.T) {
	t.Parallel()
	list := func(name string) string {
		return doc(`capability="capabilitylist"`, nil, `HOST/`+name+`/list.xml capability="resourcelist"`)
	}
	links := func(names ...string) string {
		text := "<!DOCTYPE html><html><head>"
		for _, name := range names {
			text += `<link rel="resourcesync" href="/` + name + `/cl.xml">`
		}
		return text + "</head></html>"
	}
	const header = "Link: </a/cl.xml>; rel=resourcesync, </b/cl.xml>; rel=resourcesync"
	tests := []struct {
		name    string
		was, is string // the page
		how     string // it fails
		want    string // names of the sets afterwards
		changed bool
		err     string // part of the error of the page
	}{
		{name: "the same", was: links("a", "b"), is: links("a", "b"), want: "a b"},
		{name: "a new set", was: links("a", "b"), is: links("a", "b", "c"), want: "a b c", changed: true},
		{name: "a second set", was: links("a"), is: links("a", "b"), want: "a b", changed: true},
		{name: "one less", was: links("a", "b"), is: links("b"), want: "b", changed: true},
		{name: "in a header", was: header + "\n\nx", is: header + ", </c/cl.xml>; rel=resourcesync\n\nxy", want: "a b c", changed: true},
		{name: "no link", was: links("a", "b"), is: links(), want: "a b"},
		{name: "gone", was: links("a", "b"), is: "", want: "a b"},
		{name: "unavailable", was: links("a", "b"), is: links("a", "b", "c"), how: "503", want: "a b", err: "/page.html: status 503"},
		{name: "truncated", was: links("a", "b"), is: links("a", "b", "c"), how: "truncated", want: "a b", err: "/page.html"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := site{"/page.html": tt.was, "/a/cl.xml": list("a"), "/b/cl.xml": list("b"), "/c/cl.xml": list("c")}.serveFailing(t)
			found, err := discover.Find(t.Context(), f.once(t), f.URL+"/page.html")
			if err != nil {
				t.Fatal(err)
			}
			f.site["/page.html"] = tt.is
			if tt.how != "" {
				f.set("/page.html", tt.how)
			}
			for range 2 {
				now, changed, err := discover.Refresh(t.Context(), f.once(t), found)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, s := range now.Sets {
					names = append(names, strings.Trim(strings.TrimSuffix(strings.TrimPrefix(s.CapabilityList, f.URL), "cl.xml"), "/"))
				}
				if got := strings.Join(names, " "); got != tt.want || changed != tt.changed {
					t.Errorf("Refresh = %s, %v, want %s, %v", got, changed, tt.want, tt.changed)
				}
				if err := now.Page.Err; tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("Refresh: error of the page %v, want %q", err, tt.err)
				}
				found, tt.changed = now, false
			}
		})
	}
}
