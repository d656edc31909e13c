package destination_test

import (
	"slices"
	"strings"
	"testing"

	"lockstep/destination"
)

// TestSelected: of what a mirror holds, a Destination yields what its options select,
// whatever the mirror was made with.
func TestSelected(t *testing.T) {
	t.Parallel()
	s, kind, links := describedSite(t, style{noChanges: true})
	kind["/a.x"], kind["/c.xml"] = "image/x", "application/xml"
	links["/a.x"], links["/c.xml"] = ln("describedby", s.url("/c.xml"), ""), ln("describes", s.url("/a.x"), "")
	for _, path := range []string{"/a.x", "/b.txt", "/c.xml"} {
		s.put(path, "content of "+path)
	}
	s.twoSets()
	s.put("/d.txt", "in the first set")
	m := newMirror(t, s)
	m.mustSync()
	for _, tt := range []struct {
		name string
		o    destination.Options
		want string
	}{
		{"all", destination.Options{}, "/a.x /b.txt /c.xml /d.txt"},
		{"include", destination.Options{Include: []string{"*.txt"}}, "/b.txt /d.txt"},
		{"exclude", destination.Options{Exclude: []string{"*.txt"}}, "/a.x /c.xml"},
		{"type", destination.Options{Types: []string{"image/*"}}, "/a.x"},
		{"type, and what describes it", destination.Options{Types: []string{"image/*"}, With: []string{"describedby"}}, "/a.x /c.xml"},
		{"a set", destination.Options{Sets: []string{s.url("/two/capabilitylist.xml")}}, "/a.x /b.txt /c.xml"},
		{"both", destination.Options{Sets: []string{s.url("/two/capabilitylist.xml")}, Include: []string{"*.txt"}}, "/b.txt"},
		{"a set that the mirror does not know", destination.Options{Sets: []string{"none"}}, ""},
	} {
		m.opts.Sets, m.opts.Include, m.opts.Exclude, m.opts.Types, m.opts.With = tt.o.Sets, tt.o.Include, tt.o.Exclude, tt.o.Types, tt.o.With
		var got []string
		for h, err := range m.destination().Selected(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(h.URI, s.url("")))
		}
		if is := strings.Join(got, " "); is != tt.want || !slices.IsSorted(got) {
			t.Errorf("%s: %s, want %s", tt.name, is, tt.want)
		}
	}
}
