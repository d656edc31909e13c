package sets_test

import (
	"errors"
	"slices"
	"testing"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/sets"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/discover"
)

const address = "http://a.example/"

// newMirror returns a mirror that has resources of the sets with URIs.
func newMirror(t *testing.T, known ...string) *sets.Mirror {
	t.Helper()
	m := &sets.Mirror{Journal: &journal.Mem{}, State: &saved.Mirror{Numbers: map[string]int{}}, Counts: saved.Counts{}, Report: &counting.Report{},
		Emit: func(report.Event) {}}
	m.Warn = func(_, text string) { m.Report.Warn(text) }
	m.Fail = m.Report.FailDocument
	for i, uri := range known {
		m.State.Numbers[uri], m.Counts[i+1] = i+1, 10
	}
	return m
}

// offers returns what is found at a Source that offers sets, named by their URIs.
func offers(uris ...string) *discover.Found {
	found := &discover.Found{Address: address, All: true}
	for _, uri := range uris {
		found.Sets = append(found.Sets, discover.Set{Name: uri, CapabilityList: uri})
	}
	return found
}

// names returns the URIs of sets.
func names(all []*sets.State) (uris []string) {
	for _, st := range all {
		uris = append(uris, st.URI)
	}
	return uris
}

// TestTakeNumbersNewSetsAndSavesThem follows all sets of a new Source.
func TestTakeNumbersNewSetsAndSavesThem(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	taken, err := m.Take(t.Context(), address, offers("a", "b", "a"), true)
	if err != nil || taken.Known || !slices.Equal(names(taken.Sets), []string{"a", "b"}) {
		t.Fatalf("Take = %v, %t, %v", names(taken.Sets), taken.Known, err)
	}
	var was saved.Mirror
	if _, err := saved.Load(t.Context(), m.Journal, saved.DocMirror, &was); err != nil || was.Numbers["a"] != 1 || was.Numbers["b"] != 2 || was.Found == nil {
		t.Errorf("saved: %+v, %v", was, err)
	}
}

// TestTakeRefusesAnotherSource unless a baseline is requested.
func TestTakeRefusesAnotherSource(t *testing.T) {
	t.Parallel()
	m := newMirror(t, "a")
	if _, err := m.Take(t.Context(), address, offers("x"), true); !errors.Is(err, report.ErrRefused) {
		t.Fatalf("Take of another Source: %v", err)
	}
	m.Baseline = true
	taken, err := m.Take(t.Context(), address, offers("x"), true)
	if err != nil || !slices.Equal(names(taken.Sets), []string{"x", "a"}) {
		t.Fatalf("Take with a baseline = %v, %v; want the new set, and the old one to be removed", names(taken.Sets), err)
	}
}

// TestTakeNamesAnotherSourceAtTheSameAddress by the Capability Lists, not by the address,
// which is that of the mirror.
func TestTakeNamesAnotherSourceAtTheSameAddress(t *testing.T) {
	t.Parallel()
	m := newMirror(t, "http://a.example/1")
	m.State.Found = offers("http://a.example/1")
	_, err := m.Take(t.Context(), address, offers("http://b.example/1"), true)
	if want := address + " is another Source than the one mirrored here: its Capability List has changed from http://a.example/1 to http://b.example/1"; err == nil || err.Error() != want {
		t.Errorf("Take of another Source: %v, want %s", err, want)
	}
	_, err = m.Take(t.Context(), "http://c.example/", offers("http://c.example/1"), true)
	if want := "http://c.example/ is another Source than the one mirrored here (http://a.example/)"; err == nil || err.Error() != want {
		t.Errorf("Take of a Source at another address: %v, want %s", err, want)
	}
}

// TestTakeReportsWithdrawnSets whose files stay, but not while a document that may list
// them is unreadable.
func TestTakeReportsWithdrawnSets(t *testing.T) {
	t.Parallel()
	m := newMirror(t, "a", "b")
	taken, err := m.Take(t.Context(), address, offers("a"), false)
	if err != nil || !taken.Known || !taken.Withdrawn[2] || len(taken.Sets) != 1 || len(m.Report.Withdrawn) != 1 || m.Report.Withdrawn[0].Resources != 10 {
		t.Fatalf("Take = %v, withdrawn %v and %+v, %v", names(taken.Sets), taken.Withdrawn, m.Report.Withdrawn, err)
	}
	m = newMirror(t, "a", "b")
	found := offers("a", "new")
	found.Sets[1].Err = errors.New("it does not answer")
	taken, err = m.Take(t.Context(), address, found, false)
	if err != nil || len(taken.Withdrawn) != 0 || len(taken.Sets) != 1 || !m.Report.HasFailures() || len(m.Report.BySet) != 1 {
		t.Fatalf("Take with an unreadable document = %v, withdrawn %v, %+v, %v", names(taken.Sets), taken.Withdrawn, m.Report.BySet, err)
	}
}

// TestTakeNeedsOneReadableSet ends with the error of the first set otherwise.
func TestTakeNeedsOneReadableSet(t *testing.T) {
	t.Parallel()
	found, fails := offers("a"), errors.New("it does not answer")
	found.Sets[0].Err = fails
	if _, err := newMirror(t).Take(t.Context(), address, found, true); !errors.Is(err, report.ErrIncomplete) || !errors.Is(err, fails) {
		t.Errorf("Take = %v", err)
	}
}

// TestSelectedSetsAreChosen by name or URI; sets that are held and no longer selected
// are left.
func TestSelectedSetsAreChosen(t *testing.T) {
	t.Parallel()
	m := newMirror(t, "a", "b", "c")
	m.Counts[3] = 0 // nothing is left of it
	m.Follow = []string{"a"}
	taken, err := m.Take(t.Context(), address, offers("a", "b", "c"), false)
	if err != nil || !slices.Equal(names(taken.Sets), []string{"a"}) || len(taken.Withdrawn) != 0 {
		t.Fatalf("Take = %v, %v", names(taken.Sets), err)
	}
	left, err := m.Unselected(t.Context(), taken.Sets)
	if err != nil || !slices.Equal(names(left), []string{"b"}) || !left[0].Unselected {
		t.Errorf("Unselected = %v, %v", names(left), err)
	}
	m.Follow = []string{"a", "z"}
	_, err = m.Choose(offers("a", "b"))
	if unknown, ok := errors.AsType[*report.SetError](err); !ok || unknown.Name != "z" || !slices.Equal(unknown.Offered, []string{"a", "b"}) {
		t.Errorf("Choose of an unknown set: %v", err)
	}
}

// TestNothingSelected is an error if the sets list resources, and none is selected.
func TestNothingSelected(t *testing.T) {
	t.Parallel()
	state := func(number int, listed, matched int64, planned bool) *sets.State {
		return &sets.State{Set: saved.Set{Number: number, Listed: listed, Matched: matched, Planned: planned}}
	}
	held := saved.Counts{2: 3}
	for _, tt := range []struct {
		name string
		sets []*sets.State
		want bool
	}{
		{"none matches", []*sets.State{state(1, 5, 0, true)}, true},
		{"some match", []*sets.State{state(1, 5, 1, true), state(3, 5, 0, true)}, false},
		{"nothing is listed", []*sets.State{state(1, 0, 0, true)}, false},
		{"a set that was not compared holds some", []*sets.State{state(1, 5, 0, true), state(2, 5, 0, false)}, false},
	} {
		if err := sets.NothingSelected(tt.sets, held); errors.Is(err, report.ErrIncomplete) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
