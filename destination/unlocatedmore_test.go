package destination_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// TestNotificationWithUnreadableEntry: after a notification of which one entry cannot
// be read the Source's documents are read. What its other entries say was deleted
// stays until the Source confirms it.
func TestNotificationWithUnreadableEntry(t *testing.T) {
	t.Parallel()
	for _, how := range waysToSpoil("notification") {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, p, g := followHub(t, style{})
			pulls := g.status().Pulls
			s.put("/b", "two")
			entry := func(path string) string {
				return fmt.Sprintf(`<url><loc>%s</loc><rs:md change="deleted" datetime="%s"/></url>`, s.url(path), s.time(s.now))
			}
			spoiled := spoiled[how](entry("/c"), s.url("/c"))
			p.deliver(p.notification(p.until, p.until.Add(time.Second), entry("/a")+spoiled))
			g.becomes("/b", "two") // from the Change List
			g.settled()
			if st := g.status(); st.Pulls == pulls || !g.has("/a", "one") || st.Pending != 1 || st.Quarantined != 0 {
				t.Errorf("/a is there: %v; %+v", g.has("/a", "one"), st)
			}
			g.end()
			g.same()
		})
	}
}

// TestNotificationWithUnknownChange: of a change of unknown kind that is notified
// the resource itself is requested.
func TestNotificationWithUnknownChange(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.lag() // the Change List does not name it
	for _, kind := range []string{"moved", "Updated", ""} {
		s.put("/a", "changed: "+kind)
		payload := p.payload()
		if !strings.Contains(payload, `change="updated"`) {
			t.Fatalf("payload: %s", payload)
		}
		p.deliver(strings.Replace(payload, `change="updated"`, `change="`+kind+`"`, 1))
		g.becomes("/a", "changed: "+kind)
	}
	if st := g.status(); st.Quarantined != 0 {
		t.Errorf("%d were quarantined, want none", st.Quarantined)
	}
}

// TestChangeListIndexWithoutLoc: an index of Change Lists one of whose entries
// cannot be read is an incomplete reading: nothing is deleted for it, and once it is
// mended no change is missing.
func TestChangeListIndexWithoutLoc(t *testing.T) {
	t.Parallel()
	for _, how := range waysToSpoil("change list index") {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, m := spoiledSite(t, style{parts: 4})
			m.mustSync()
			for i := range 9 {
				s.put(fmt.Sprint("/new", i), "new")
			}
			s.put("/c", "changed")
			s.del("/d")
			s.setRewrite("/rs/changelist.xml", "", spoiled[how])
			before := m.files()
			for range 2 {
				r, err := m.sync()
				wantIncomplete(t, r, err)
			}
			for path := range before {
				if _, ok := m.files()[path]; !ok && path != "d" {
					t.Errorf("%s was deleted", path)
				}
			}
			s.setRewrite("", "", nil)
			m.mustSync()
			m.same()
		})
	}
}

// TestArchiveWithUnreadableEntry: an archive one of whose entries cannot be read does
// not show the whole past state: nothing is deleted because it is not listed, and
// neither sync --at nor diff succeeds without a report.
func TestArchiveWithUnreadableEntry(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{archivePath, "/rs/closed-"} {
		for _, how := range waysToSpoil("archive") {
			t.Run(doc+"/"+how, func(t *testing.T) {
				t.Parallel()
				p := newPastSite(t, style{}, pastStyle{})
				p.live(0)
				first := p.rotate()
				for round := 1; round < 5; round++ {
					p.live(round)
					p.rotate()
				}
				p.publish()
				m := newMirror(t, p.site)
				m.mustSync()
				before := m.files()
				path := doc
				if path != archivePath {
					path = p.closed[2].path
				}
				p.setRewrite(path, "", spoiled[how])
				d := m.destination()
				report, err := d.Diff(t.Context(), m.address(), first.until, p.now, func(destination.Difference) error { return nil })
				if err == nil {
					t.Errorf("diff: %+v", report)
				}
				m.opts.At, m.opts.MaxDelete = p.closed[3].until, 100
				r, err := m.sync()
				if err == nil {
					t.Errorf("sync --at: %+v", r)
				}
				for path := range before {
					if _, ok := m.files()[path]; !ok {
						t.Errorf("%s was deleted: %v\n%+v", path, err, r)
					}
				}
			})
		}
	}
}
