package destination_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAwkwardNames syncs resources whose names contend for places, in batches
// of a thousand and more: below one another, alike but for case, of thousands
// of bytes. Each has its file, with the time the Source states, and keeps it.
func TestAwkwardNames(t *testing.T) {
	t.Parallel()
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%v", portable), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			m := newMirror(t, s)
			m.opts.Portable = portable
			put := func(version int) {
				for i := range 220 {
					name := fmt.Sprintf("/d/r%03d", i)
					for _, path := range []string{name, name + "/", name + "/below", strings.ToUpper(name), name + "?q=" + fmt.Sprint(i)} {
						s.put(path, fmt.Sprintf("%s, version %d", path, version))
					}
				}
				for i := range 10 {
					path := "/" + strings.Repeat("a", 10+i) + strings.Repeat("/deep", 100) + "/" + strings.Repeat("long", 800)
					s.put(path, fmt.Sprintf("%.20s, version %d", path, version))
				}
			}
			put(1)
			m.mustSync()
			m.awkwardTimes()
			if m.mustSync(); s.resourceGets() > 0 {
				t.Errorf("the second run asked for %d resources", s.resourceGets())
			}
			put(2)
			m.mustSync()
			m.awkwardTimes()
		})
	}
}

// awkwardTimes checks the times of all files, and that there are no others.
func (m *mirror) awkwardTimes() {
	m.t.Helper()
	left := len(m.files())
	for h, err := range m.journal.Held(m.t.Context(), "", "") {
		if err != nil {
			m.t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(m.dir, filepath.FromSlash(h.Path)))
		if err != nil {
			m.t.Fatal(err)
		}
		if want := m.site.file(strings.TrimPrefix(h.URI, m.site.srv.URL)).mod; !info.ModTime().Equal(want) {
			m.t.Fatalf("%.80s: time %v, want %v", h.URI, info.ModTime(), want)
		}
		left--
	}
	if left != 0 {
		m.t.Errorf("%d files that belong to no resource", left)
	}
}
