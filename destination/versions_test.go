package destination_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/resourcesync"
)

// TestAllVersions applies each version of what changed more than once.
func TestAllVersions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		style style
		all   bool
		want  string // lengths of what was applied to /d/000, "x" for its removal
		lost  bool
	}{
		{"change dump", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, each: 2}}, true, "11 12 x 13 14", false},
		{"list and change dump", style{dumpStyle: dumpStyle{changeDump: true, each: 3, copies: true}}, true, "11 12 x 13 14", false},
		{"no dump", style{}, true, "x 14", true},
		{"last only", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}, false, "14", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.style)
			m := newMirror(t, s)
			m.opts.AllVersions = tt.all
			fill(s, 12)
			m.mustSync()
			for _, n := range []int{11, 12, 0, 13, 14} {
				s.put("/d/001", fmt.Sprintf("between %d", n))
				if n == 0 {
					s.del("/d/000")
					continue
				}
				s.put("/d/000", strings.Repeat("v", n))
			}
			r := m.mustSync()
			var got []string
			for _, e := range m.events {
				switch {
				case e.Kind != destination.EventApplied || !strings.HasSuffix(e.URI, "/d/000"):
				case e.Change == resourcesync.Deleted:
					got = append(got, "x")
				default:
					got = append(got, fmt.Sprint(e.Length))
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("applied %s, want %s", text, tt.want)
			}
			if lost := strings.Contains(fmt.Sprint(r.Warnings), "earlier versions not available"); lost != tt.lost {
				t.Errorf("warnings %q", r.Warnings)
			}
			if r := m.mustSync(); r.Mode != destination.ModeNone {
				t.Errorf("at rest: %s", counts(r))
			}
		})
	}
}

// TestMementos fetches earlier versions from the addresses that the entries link to.
func TestMementos(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.links = func(e siteEvent) string {
		if e.change == "" || e.file.data == nil {
			return ""
		}
		return fmt.Sprintf(`<rs:ln rel="memento" href="%s"/>`, s.url(fmt.Sprintf("/versions/%d", e.at.UnixNano())))
	}
	m := newMirror(t, s)
	m.opts.AllVersions = true
	fill(s, 5)
	m.mustSync()
	for n := range 4 {
		s.put("/d/000", strings.Repeat("v", n+1))
		s.mu.Lock()
		e := s.log[len(s.log)-1]
		if n != 1 { // that one is lost
			s.doc[fmt.Sprintf("/versions/%d", e.at.UnixNano())] = string(e.file.data)
		}
		s.mu.Unlock()
	}
	r := m.mustSync()
	if r.Updated != 3 || r.Failed != 0 || !strings.Contains(fmt.Sprint(r.Warnings), "1 earlier version not available") {
		t.Errorf("%s, warnings %q", counts(r), r.Warnings)
	}
}
