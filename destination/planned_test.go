package destination_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lockstep/destination"
)

// TestPlansAreNamed: a dry run names each resource that it counts, and the run after it
// does that. Without NamePlans, it names none.
func TestPlansAreNamed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *site, m *mirror){
		"baseline":    func(_ *site, m *mirror) { m.opts.Baseline = true },
		"incremental": func(*site, *mirror) {},
		"repair":      func(_ *site, m *mirror) { m.opts.CheckLocal = destination.CheckAlways; mustRemove(m, "kept") },
		"repair of all": func(_ *site, m *mirror) {
			m.opts.CheckLocal, m.opts.Baseline = destination.CheckAlways, true
			mustRemove(m, "kept")
		},
		"kept": func(_ *site, m *mirror) { m.opts.Delete = destination.DeleteKeep },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			for _, path := range []string{"/kept", "/changed", "/deleted", "/other"} {
				s.put(path, "content of "+path)
			}
			m := newMirror(t, s)
			m.mustSync()
			s.put("/new", "new")
			s.put("/changed", "changed")
			s.del("/deleted")
			change(s, m)
			m.opts.DryRun = true
			if r, err := m.sync(); err != nil || len(named(m, destination.EventPlanned)) > 0 {
				t.Errorf("not asked for: %v, %v, %+v", named(m, destination.EventPlanned), err, r)
			}
			m.opts.NamePlans = true
			r, err := m.sync()
			planned := named(m, destination.EventPlanned)
			if n := r.Created + r.Updated + r.Deleted; err != nil || int64(len(planned)) != n {
				t.Errorf("named %v, %v, want %d", planned, err, n)
			}
			m.opts.DryRun, m.opts.NamePlans = false, false
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			if applied := named(m, destination.EventApplied); !slices.Equal(planned, applied) {
				t.Errorf("planned %v, applied %v", planned, applied)
			}
		})
	}
}

func mustRemove(m *mirror, name string) {
	if err := os.Remove(m.path(name)); err != nil {
		m.t.Fatal(err)
	}
}

// named returns the changes that events of a kind name, in order.
func named(m *mirror, kind destination.EventKind) (all []string) {
	for _, e := range m.events {
		if e.Kind == kind {
			all = append(all, fmt.Sprintf("%d %s %d", e.Change, strings.TrimPrefix(e.URI, m.site.srv.URL), e.Length))
		}
	}
	slices.Sort(all)
	return all
}
