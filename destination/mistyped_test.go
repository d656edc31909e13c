package destination_test

import (
	"strings"
	"testing"
)

// TestMistypedPath: a run that finds the documents of a site because there is nothing at the address warns that it does.
func TestMistypedPath(t *testing.T) {
	t.Parallel()
	for path, warns := range map[string]bool{"": false, "/": false, "/records": true, "/rs/capabilitylist.xml": false} {
		s := newSite(t, style{})
		s.put("/a", "one")
		m := newMirror(t, s)
		m.at = s.url(path)
		r := m.mustSync()
		if said := strings.Contains(strings.Join(r.Warnings, "\n"), "there is nothing at "+m.at); said != warns {
			t.Errorf("%q: %q", path, r.Warnings)
		}
	}
}
