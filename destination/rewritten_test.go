package destination_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// TestRewrittenChanges: a Source that always drops changes from its Change List adds one
// before those that were read. It is found within a day, also if the list is not written
// again until then, and everything is compared once a day only.
func TestRewrittenChanges(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("written again %v", again), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			for _, name := range []string{"a", "b", "c", "late"} {
				s.replace("/"+name, name)
			}
			s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<url><loc>`+s.url("/a")+`</loc></url>`))
			written := 0
			write := func(late string) {
				written++
				names := [2]string{"b", "c"}
				var b strings.Builder
				b.WriteString(late)
				for i := written; i < written+2; i++ {
					fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md change="updated" datetime="2024-05-%02dT00:00:00Z"/></url>`, s.url("/"+names[i%2]), i+1)
				}
				s.replace("/rs/changelist.xml", doc("urlset", `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`, b.String()))
			}
			m := newMirror(t, s)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			sync := func(mode string) {
				t.Helper()
				s.reset()
				d := m.destination()
				d.SetClock(func() time.Time { return now })
				if r, err := d.Sync(t.Context(), m.address()); err != nil || r.Mode != mode {
					t.Fatalf("Sync %d: mode %s, want %s, %v, %q", written, r.Mode, mode, err, r.Warnings)
				}
				now = now.Add(time.Hour)
			}
			for i := range 6 {
				write("")
				sync(map[bool]string{true: destination.ModeBaseline, false: destination.ModeIncremental}[i < 4])
			}
			late := fmt.Sprintf(`<url><loc>%s</loc><rs:md change="created" datetime="2024-05-02T00:00:00Z"/></url>`, s.url("/late"))
			write(late)
			sync(destination.ModeIncremental)
			now = now.Add(24 * time.Hour)
			if again {
				write(late)
			}
			sync(destination.ModeBaseline)
			if m.files()["late"] != "late" {
				t.Errorf("the mirror has %v", m.files())
			}
			write(late)
			sync(destination.ModeIncremental)
		})
	}
}
