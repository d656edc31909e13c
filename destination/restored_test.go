package destination_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
)

// backAndForth restores a mirror to an instant, and checks that the next run brings it into
// step.
func backAndForth(k *keeping, then time.Time) {
	k.t.Helper()
	d := k.destination()
	if r, err := d.SyncPast(k.t.Context(), d, then); err != nil {
		k.t.Fatalf("%v: %+v", err, r)
	}
	if r, err := k.at(); err != nil {
		k.t.Errorf("%v: %+v", err, r)
	}
	k.same()
}

// TestRestoredWhatWasPending: a resource that was still to be fetched at the instant to which a
// mirror is restored is fetched by the next run.
func TestRestoredWhatWasPending(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/x", "x1")
	s.put("/y", "y1")
	k.run()
	s.put("/x", "x2")
	s.put("/y", "y2")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/x" {
			w.WriteHeader(http.StatusForbidden)
		}
		return r.URL.Path == "/x"
	})
	if r, err := k.at(); !errors.Is(err, destination.ErrIncomplete) {
		t.Fatalf("%v: %+v", err, r)
	}
	then := time.Now()
	s.setFault(nil)
	k.run() // brings x2
	backAndForth(k, then)
}

// TestRestoredSelection: a mirror that is restored to an instant at which it selected less has
// everything that is selected after the next run.
func TestRestoredSelection(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	s.put("/b/1", "b1")
	s.put("/a/1", "a1")
	k.opts.Include = []string{"*/a/*"}
	if r, err := k.at(); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	then := time.Now()
	k.opts.Include = nil
	s.put("/a/2", "a2")
	k.run() // brings b1
	backAndForth(k, then)
}

// copyJournal returns a copy of the Journal of a mirror with one set.
func copyJournal(t *testing.T, from journal.Journal) *journal.Mem {
	t.Helper()
	b := journal.Batch{Save: map[string][]byte{}}
	for _, name := range []string{"mirror", "counts", "set/1", "local"} {
		text, err := from.Load(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		b.Save[name] = text
	}
	for h, err := range from.Held(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		b.Put = append(b.Put, h)
	}
	for o, err := range from.Owed(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		b.Owe = append(b.Owe, o)
	}
	to := new(journal.Mem)
	if err := to.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return to
}

// warnings returns the warnings of a run.
func warnings(r *destination.Report, of string) (n int) {
	for _, text := range r.Warnings {
		if strings.Contains(text, of) {
			n++
		}
	}
	return n
}

// TestRestoredJournal: after the Journal of a mirror was restored from a copy, the next run compares everything. Files
// that the copy does not know are taken over if they are right, and replaced if not; those that the Source has deleted
// since are reported, once. What was in the way of a resource before stays.
func TestRestoredJournal(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noHash: true}, {noChanges: true}, {listParts: 2, noChanges: true}} {
		s := newSite(t, st)
		s.put("/same", "same")
		s.put("/old", "old 1")
		s.put("/user", "the Source's")
		m := newMirror(t, s)
		writeFile(t, m.path("user"), "the user's")
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 {
			t.Fatalf("%+v: %v, %+v", st, err, r)
		}
		backup := copyJournal(t, m.journal)
		s.later()
		s.put("/old", "old 2")
		s.put("/new", "new")
		s.put("/changed", "changed 1")
		s.put("/gone", "gone")
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Created != 3 || r.Updated != 1 {
			t.Fatalf("%+v: %v, %+v", st, err, r)
		}
		m.journal = backup
		if err := destination.MarkRestored(t.Context(), m.journal); err != nil {
			t.Fatal(err)
		}
		s.later()
		s.put("/changed", "changed 2")
		s.del("/gone")
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || r.Mode != destination.ModeBaseline || !r.Local.Checked || warnings(&r, "such as gone") != 1 {
			t.Errorf("%+v: %v, %+v", st, err, r)
		}
		if adopted := r.By.Adopted; !st.noHash && adopted != 2 { // new and old
			t.Errorf("%+v: %d files were taken over", st, adopted)
		}
		files := m.files()
		for name, want := range map[string]string{"same": "same", "old": "old 2", "new": "new", "changed": "changed 2", "gone": "gone", "user": "the user's"} {
			if files[name] != want {
				t.Errorf("%+v: %s is %q, want %q", st, name, files[name], want)
			}
		}
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Mode == destination.ModeBaseline || len(r.Warnings) > 0 {
			t.Errorf("%+v: the run after that: %v, %+v", st, err, r)
		}
	}
}

// TestRestoredHarvest: so it is with a mirror of what is harvested.
func TestRestoredHarvest(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "a 1")})
	m.mustSync("baseline created=1 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	backup := copyJournal(t, m.journal)
	p.brings([]catalog.Update{p.put("/b", "b 1"), p.put("/gone", "gone")})
	m.mustSync("incremental created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	p.brings([]catalog.Update{p.put("/b", "b 2"), p.del("/gone")})
	m.journal = backup
	if err := destination.MarkRestored(t.Context(), m.journal); err != nil {
		t.Fatal(err)
	}
	r, err := m.sync()
	if err != nil || r.Mode != destination.ModeBaseline || warnings(&r, "such as gone") != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	m.holds(map[string]string{"a": "a 1", "b": "b 2", "gone": "gone"})
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
}

// TestRestoredFollowed: and with one that is followed.
func TestRestoredFollowed(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "a 1")
	m := newMirror(t, s)
	m.mustSync()
	backup := copyJournal(t, m.journal)
	s.put("/b", "b 1")
	s.put("/gone", "gone")
	m.mustSync()
	s.put("/b", "b 2")
	s.del("/gone")
	m.journal = backup
	if err := destination.MarkRestored(t.Context(), m.journal); err != nil {
		t.Fatal(err)
	}
	warned := 0
	m.on = func(e destination.Event) {
		if e.Kind == destination.EventWarning && strings.Contains(e.Err.Error(), "such as gone") {
			warned++
		}
	}
	m.followedUntilSynced()
	if files := m.files(); files["a"] != "a 1" || files["b"] != "b 2" || warned != 1 {
		t.Errorf("the mirror has %q, warned %d times", files, warned)
	}
}

// TestRestoredToAClockThatWasAhead: a mirror is restored to an instant at which it had read changes with
// times in the future, by a clock of the Source that was corrected since. The next run applies the
// changes that were made after the correction, whose times are earlier.
func TestRestoredToAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, noList := range []bool{false, true} {
		s := newSite(t, style{dumpStyle: dumpStyle{noList: noList}})
		k := newKeeping(t, s, destination.Keep{All: true})
		s.setClock(time.Now().Add(-2 * time.Hour))
		s.from = s.now
		for _, path := range []string{"/1", "/2", "/3"} {
			s.put(path, "first")
		}
		k.run()
		s.setClock(time.Now().Add(30 * time.Second))
		s.put("/1", "ahead")
		then, _ := k.run()
		s.setClock(time.Now().Add(-time.Hour))
		s.put("/2", "corrected")
		s.del("/3")
		k.run()
		backAndForth(k, then)
	}
}
