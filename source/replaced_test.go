package source_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/source"
)

// replacedLists returns what the state of the set has of replaced Resource Lists, and
// removes it if remove is set, as in a state of an earlier version.
func (w *world) replacedLists(remove bool) (lists []json.RawMessage) {
	w.Helper()
	const name = ".lockstep/main.json"
	data, err := reader(w.docs)(name)
	if err != nil {
		w.Fatal(err)
	}
	st := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &st); err != nil {
		w.Fatal(err)
	}
	if st["replaced"] != nil {
		if err := json.Unmarshal(st["replaced"], &lists); err != nil {
			w.Fatal(err)
		}
	}
	if remove {
		delete(st, "replaced")
		if data, err = json.Marshal(st); err != nil {
			w.Fatal(err)
		}
		w.write(name, string(data))
	}
	return lists
}

// TestChangesSinceAReplacedList: within Options.Grace the Change List reaches back to a
// Resource List that was replaced, whether it had parts or not, and Listed has its
// snapshot; also after a restart, and if it had parts, with a state of an earlier version.
func TestChangesSinceAReplacedList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		entries        int // Options.MaxEntries
		restart, older bool
	}{
		{name: "one document"},
		{name: "restart", restart: true},
		{name: "parts", entries: 50},
		{name: "earlier version", entries: 50, restart: true, older: true},
	} {
		w := newWorld(t, source.Options{SmallSet: 1, MaxEntries: tt.entries, Keep: 3 * time.Hour, Grace: 2 * time.Hour})
		w.fill("r%05d", 200)
		s := w.source()
		w.publish(s)
		for i := range 10 { // too few for a new list
			w.pass(time.Hour)
			w.put(fmt.Sprintf("r%05d=y", i))
			w.publish(s)
		}
		w.pass(15 * time.Hour)
		old := w.upToDate()
		step := func(pass time.Duration, reaches bool) {
			t.Helper()
			w.pass(pass)
			w.put("a=" + fmt.Sprint(pass))
			w.publish(s)
			if tt.restart {
				w.replacedLists(tt.older)
				s = w.source()
			}
			if c := w.upToDate(); c.from.After(old.at) == reaches {
				t.Errorf("%s: %s after the one before, the Change List begins at %s, the replaced list is of %s", tt.name, pass, c.from, old.at)
			}
			_, snapshots, err := s.Listed(t.Context(), source.DefaultSet)
			if err != nil || slices.ContainsFunc(snapshots, func(m catalog.Mark) bool { return m.At.Equal(old.at) }) != reaches {
				t.Errorf("%s: Listed = %v, %v; want %s among them: %v", tt.name, snapshots, err, old.at, reaches)
			}
		}
		step(0, true) // replaces the list
		step(2*time.Minute, true)
		step(117*time.Minute, true)
		if tt.entries == 0 { // parts are known until the state is written again
			step(time.Hour, false)
		}
	}
}

// TestManyReplacedLists: however often a Resource List is replaced, the Change List
// reaches back to those replaced within Options.Grace, and the state stays small.
func TestManyReplacedLists(t *testing.T) {
	t.Parallel()
	const grace = time.Hour
	w := newWorld(t, source.Options{Keep: grace, Grace: grace})
	s := w.source()
	var at, gone []time.Time // of each list
	for i := range 300 {
		w.put(fmt.Sprintf("r=%d", i))
		if r := w.publish(s); !r.Sets[0].List {
			t.Fatalf("Publish = %+v, want a list", r)
		}
		c := w.upToDate()
		for k := range gone {
			if w.now().Sub(gone[k]) < grace && c.from.After(at[k]) {
				t.Fatalf("at %s the Change List begins at %s; the list of %s was replaced at %s", w.now(), c.from, at[k], gone[k])
			}
		}
		if gone = append(gone, time.Time{}); i > 0 {
			gone[i-1] = w.now()
		}
		at = append(at, c.at)
		w.pass(time.Minute)
	}
	if n := len(w.replacedLists(false)); n < 2 || n > 18 {
		t.Errorf("the state has %d replaced lists, want some, and 18 at most", n)
	}
	if c := w.upToDate(); w.now().Sub(c.from) > 3*grace/2 {
		t.Errorf("the Change List reaches back %s", w.now().Sub(c.from))
	}
}
