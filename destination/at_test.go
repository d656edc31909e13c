package destination_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

var (
	pasts    = flag.Int("pasts", 12, "of how many Sources TestAt asks what they were")
	pastSeed = flag.Uint64("past-seed", 0, "the one TestAt asks; 0 for others each time")
)

// TestAt restores past states of Sources with random histories, which keep some of
// their past documents and versions and lose others. The mirror has the true state of
// that instant, or the Report states which instant it has and names exactly what is
// missing; the next run brings it to the present (RA-DST-01, RA-DST-02, RA-DST-03,
// RA-DST-07, RA-DST-08, RA-CHG-05, ME-RS-08, ME-RS-09, ME-HD-03, RS-REL-54).
func TestAt(t *testing.T) {
	t.Parallel()
	seeds := []uint64{*pastSeed}
	if *pastSeed == 0 {
		seeds = []uint64{
			4135631441136271432, 14565095373147952081, // a kill took files away, and the next run could not have them back
			8626892808083557872,                       // a version that was made after the requested instant, in the same second, is available
			4290731572303217746, 10196649366921319679, // a version that was made at the requested instant cannot be proven
		}
		for range *pasts {
			seeds = append(seeds, rand.Uint64())
		}
	}
	seen := make(chan string, 20*len(seeds))
	t.Run("lives", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				lookBack(t, seed, func(what string) { seen <- what })
			})
		}
	})
	close(seen)
	count := map[string]int{}
	for what := range seen {
		count[what]++
	}
	t.Log(count)
	if *pasts >= 60 && *pastSeed == 0 && !t.Failed() {
		for _, what := range []string{"exact", "as of the list", "none", "missing", "all had", "killed"} {
			if count[what] == 0 {
				t.Errorf("it never came to %q", what)
			}
		}
	}
}

// lookBack is one Source and one mirror.
func lookBack(t *testing.T, seed uint64, saw func(string)) {
	w := newAtWorld(t, rand.New(rand.NewPCG(seed, 11)))
	w.noHash, w.gate, w.header, w.mementos = w.one(4), w.one(3), w.one(2), w.one(2)
	m := &atMirror{T: t, w: w, seed: seed, journal: new(journal.Mem), dir: t.TempDir()}
	store, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m.store = store
	dumps, changeDumps := w.one(2), w.one(3)
	if !w.one(4) {
		w.take(dumps)
	}
	for range 2 + w.IntN(4) {
		w.happen(w.IntN(9))
		for range w.IntN(3) {
			w.take(dumps && w.one(2))
			w.happen(w.IntN(3))
		}
		if !w.one(3) {
			w.shut(changeDumps && w.one(2))
		}
		if w.one(4) {
			w.build()
			m.present()
		}
	}
	if w.one(3) && w.indexed > 0 { // what was closed is in the archive alone
		w.indexed = w.IntN(w.indexed)
	}
	w.retain()
	w.build()
	for range 1 + w.IntN(4) {
		at := w.start.Add(time.Duration(w.Int64N(int64(w.now.Sub(w.start) + time.Second)))).Truncate(time.Millisecond)
		switch k := w.IntN(6); {
		case k == 0 && len(w.log) > 0:
			at = w.log[w.IntN(len(w.log))].at
		case k == 1 && len(w.lists) > 0:
			at = w.lists[w.IntN(len(w.lists))].at
		}
		if w.one(3) { // a run before was killed on the way to another time
			m.fuse = &faultfs.Faults{At: 1 + w.IntN(25)}
			_, err := m.run(destination.Options{At: w.start.Add(time.Duration(w.Int64N(int64(w.now.Sub(w.start)))))})
			if m.fuse = nil; errors.Is(err, faultfs.ErrCrash) {
				saw("killed")
			}
			if w.one(2) {
				m.present()
			}
		}
		m.at(at, saw)
		if w.one(3) {
			m.present()
		}
	}
	w.happen(w.IntN(5))
	w.build()
	m.present()
}

// A atMirror is the mirror of a atWorld.
type atMirror struct {
	*testing.T
	w       *atWorld
	seed    uint64
	store   *blob.Dir
	journal journal.Journal
	dir     string
	fuse    *faultfs.Faults // of the next run; nil: none
}

func (m *atMirror) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("-past-seed %d: %s", m.seed, fmt.Sprintf(format, args...))
}

func (m *atMirror) run(o destination.Options) (destination.Report, error) {
	m.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.w.srv.URL), Retries: -1})
	if err != nil {
		m.Fatal(err)
	}
	defer c.Close()
	o.MaxDelete = 100
	store, journal := blob.Store(m.store), m.journal
	if m.fuse != nil {
		store, journal = &faultfs.Dir{Dir: m.store, Faults: m.fuse}, &journaltest.Faulty{Journal: m.journal, Faults: m.fuse}
	}
	d, err := destination.New(store, journal, c, o)
	if err != nil {
		m.Fatal(err)
	}
	return d.Sync(context.Background(), m.w.srv.URL)
}

// files returns the contents of the mirror, by path.
func (m *atMirror) files() map[string]string {
	files := map[string]string{}
	for path, data := range (&mirror{t: m.T, dir: m.dir}).files() {
		files["/"+path] = data
	}
	return files
}

// present brings the mirror to the present.
func (m *atMirror) present() {
	m.Helper()
	r, err := m.run(destination.Options{})
	if err != nil {
		m.fail("plain sync: %v\n%+v", err, r)
	}
	want := map[string]string{}
	for path, v := range m.w.state(m.w.now) {
		want[path] = v.data
	}
	if got := m.files(); !maps.Equal(got, want) {
		m.fail("after a plain sync\n got %v\nwant %v\n%+v", got, want, r)
	}
}

// at brings the mirror to a past state of the Source.
func (m *atMirror) at(at time.Time, saw func(string)) {
	m.Helper()
	before := m.files()
	r, err := m.run(destination.Options{At: at})
	asOf, earliest, ok := m.w.restorable(at)
	if !ok {
		var none *destination.NoPastError
		if !errors.As(err, &none) || !errors.Is(err, destination.ErrIncomplete) || !none.Earliest.Equal(earliest) && none.Err == nil {
			m.fail("at %s: %v, want that the earliest is %s", show(at), err, show(earliest))
		}
		if !maps.Equal(before, m.files()) {
			m.fail("at %s nothing is known, and the mirror was changed", show(at))
		}
		saw("none")
		return
	}
	if !r.AsOf.Equal(asOf) || !r.At.Equal(at) {
		m.fail("at %s: as of %s, want %s: %v %+v", show(at), show(r.AsOf), show(asOf), err, r)
	}
	missing := map[string]string{}
	for _, f := range r.Missing {
		missing[strings.TrimPrefix(f.URI, m.w.srv.URL)] = f.Cause
	}
	after := m.files()
	for path, v := range m.w.state(asOf) {
		cause, isMissing := missing[path]
		delete(missing, path)
		got, there := after[path]
		switch had := m.w.available(v, asOf, before[path] == v.data); {
		case !isMissing && got != v.data:
			m.fail("at %s: %s is %q, want %q, and it is not named as missing: %+v", show(at), path, got, v.data, r)
		case isMissing && had:
			m.fail("at %s: %s is available: %s; %v", show(at), path, cause, r.Warnings)
		case isMissing && there && got != before[path]:
			m.fail("at %s: %s is missing, and became %q", show(at), path, got)
		}
		delete(after, path)
	}
	if len(after) > 0 || len(missing) > 0 {
		m.fail("at %s: was not there: %v; not missing: %v", show(at), slices.Collect(maps.Keys(after)), missing)
	}
	whole := asOf.Equal(at) && len(r.Missing) == 0
	if whole != (err == nil) || err != nil && !errors.Is(err, destination.ErrIncomplete) || int(r.Failed) != len(r.Missing) {
		m.fail("at %s: %v, %d missing, as of %s: %+v", show(at), err, len(r.Missing), show(asOf), r)
	}
	if asOf.Equal(at) {
		saw("exact")
	} else {
		saw("as of the list")
	}
	if len(r.Missing) > 0 {
		saw("missing")
	} else {
		saw("all had")
	}
}

func show(t time.Time) string { return t.Format(time.RFC3339Nano) }

// restorable returns the instant of the state that a mirror can be restored to when
// at is requested; if there is none, the earliest possible instant.
func (w *atWorld) restorable(at time.Time) (asOf, earliest time.Time, ok bool) {
	lists := append(slices.Clone(w.lists), takenList{at: w.now, path: "/rs/resourcelist.xml"})
	var base time.Time
	for _, l := range lists {
		if !(w.dark[l.path] && w.gone[l.path]) && (earliest.IsZero() || l.at.Before(earliest)) {
			earliest = l.at
		}
		if !w.gone[l.path] && !l.at.After(at) && (!ok || l.at.After(base)) {
			base, ok = l.at, true
		}
	}
	if !ok {
		return asOf, earliest, false
	}
	until := base
	for range w.spans {
		for _, s := range w.spans {
			if !w.gone[s.path] && !s.from.After(until) && s.until.After(until) {
				until = s.until
			}
		}
	}
	if !w.head.After(until) || !until.Before(at) {
		return at, earliest, true
	}
	return base, earliest, true
}

// available reports whether a version can be fetched by any method, as of an instant.
// Without a hash, what a TimeGate returns is proven to be it only if it is asked for an
// instant after the second in which the version was made, which has not passed by then.
func (w *atWorld) available(v atVersion, asOf time.Time, held bool) bool {
	if held || w.alive[v.nth] {
		return true
	}
	if now := w.state(w.now)[v.path]; now.nth == v.nth && now.data != "" && !w.noHash {
		return true
	}
	if w.gate {
		proven := !v.at.Truncate(time.Second).Add(time.Second).After(asOf)
		for _, at := range []time.Time{v.at.Truncate(time.Second).Add(time.Second), asOf.Truncate(time.Second)} {
			if got, ok := w.negotiate(v.path, at); ok && got.nth == v.nth && (!w.noHash || !w.header && proven) {
				return true
			}
		}
		if _, there := w.state(w.now)[v.path]; there && w.header && w.noHash && !w.dropped[v.nth] && proven {
			return true
		}
	}
	for n, versions := range w.packed {
		path := fmt.Sprintf("/rs/package-%d.zip", n)
		if slices.Contains(versions, v.nth) && w.docs[path] != nil && w.named(path) {
			return true
		}
	}
	return false
}

// named reports whether a document that is there names a package.
func (w *atWorld) named(path string) bool {
	for _, l := range w.lists {
		if !w.gone[l.path] && strings.Contains(string(w.docs[l.path]), path) {
			return true
		}
	}
	for _, s := range w.spans {
		if !w.gone[s.path] && strings.Contains(string(w.docs[s.path]), path) {
			return true
		}
	}
	return false
}
