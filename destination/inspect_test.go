package destination_test

import (
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
)

// TestInspect: the Journal says how each set was left: complete, with what is pending and
// why.
func TestInspect(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "a")
	s.put("/b", "b")
	m := newMirror(t, s)
	inspect := func() destination.MirrorState {
		t.Helper()
		state, err := destination.Inspect(t.Context(), m.journal)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if got := inspect(); got.Source != "" || len(got.Sets) != 0 {
		t.Errorf("before the first run: %+v", got)
	}
	m.mustSync()
	got := inspect()
	if got.Source != m.address() || got.Open || len(got.Sets) != 1 {
		t.Fatalf("after a run: %+v", got)
	}
	if set := got.Sets[0]; !set.Complete || set.Resources != 2 || set.Pending != 0 || set.Failing || set.SyncedUntil.IsZero() || set.URI == "" {
		t.Errorf("after a run: %+v", set)
	}
	s.put("/c", "c")
	s.breakAt("/c", "503")
	if _, err := m.sync(); err == nil {
		t.Fatal("the run has succeeded")
	}
	if set := inspect().Sets[0]; set.Pending != 1 || !set.Failing || !strings.Contains(set.Error, "503") || set.Resources != 2 {
		t.Errorf("after a resource failed: %+v", set)
	}
	s.setFault(nil)
	m.mustSync()
	for _, w := range []desired.Resource{{Gone: true, Unconfirmed: true}, {MainURI: s.url("/c"), Excused: true}} {
		w.Class = desired.Pending
		b := journal.Batch{Owe: []journal.Owed{{Set: 1, URI: s.url("/d"), Entry: w.Append(nil), Cause: "not yet"}}}
		if err := m.journal.Record(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if set := inspect().Sets[0]; set.Pending != 1 || set.Failing {
			t.Errorf("after a run that left something pending that has not failed: %+v", set)
		}
	}
}
