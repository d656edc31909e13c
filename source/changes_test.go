package source_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// A countingCatalog counts what is read from it.
type countingCatalog struct {
	catalog.Catalog
	rows atomic.Int64
}

func (c *countingCatalog) Changes(ctx context.Context, set string, after catalog.Seq) iter.Seq2[catalog.Change, error] {
	return counted(&c.rows, c.Catalog.Changes(ctx, set, after))
}

func (c *countingCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return counted(&c.rows, c.Catalog.Resources(ctx, set, r))
}

func counted[T any](n *atomic.Int64, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			n.Add(1)
			if !yield(row, err) {
				return
			}
		}
	}
}

// A recordingStore remembers what was committed.
type recordingStore struct {
	blob.Store
	names []string
}

func (s *recordingStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	for _, w := range ws {
		s.names = append(s.names, w.Name())
	}
	return s.Store.Commit(ctx, ws...)
}

func (s *recordingStore) take() []string {
	names := s.names
	s.names = nil
	slices.Sort(names)
	return names
}

// However long the Change List is, a publication of a few changes reads those,
// and writes that document and the end of the state.
func TestOpenListIsExtended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{SmallSet: 1})
	counting := &countingCatalog{Catalog: w.cat}
	recording := &recordingStore{Store: w.docs}
	w.cat, w.docs = counting, recording
	s := w.source()
	w.fill("r%05d", 3000)
	w.publish(s)
	w.pass(time.Minute)
	for i := range 20 {
		w.fill(fmt.Sprintf("s%d-%%05d", i), 10)
		w.publish(s)
	}
	for i := range 10 {
		if i%3 == 2 {
			s = w.source()
		}
		w.put(fmt.Sprintf("a=%d", i), "b=x", "b")
		counting.rows.Store(0)
		recording.take()
		if r := w.publish(s); r.Sets[0].Changes != 3 || !r.Written {
			t.Errorf("Publish = %+v, want 3 changes", r.Sets[0])
		}
		if n := counting.rows.Load(); n > 5 {
			t.Errorf("%d rows were read for 3 changes", n)
		}
		if got := recording.take(); !slices.Equal(got, []string{".lockstep/main.tail.json", "resourcesync/main/changelist.xml"}) {
			t.Errorf("%q were written for 3 changes", got)
		}
		w.upToDate()
	}
	extended, err := reader(w.docs)("resourcesync/main/changelist.xml")
	if err != nil {
		t.Fatal(err)
	}
	w.remove(".lockstep/main.json")
	w.publish(w.source())
	if anew, err := reader(w.docs)("resourcesync/main/changelist.xml"); err != nil || string(anew) != string(extended) {
		t.Errorf("the list that has grown differs from one written at once, %v", err)
	}
}

// What someone else did to the open list is noticed, also where size and time
// do not tell.
func TestForeignEditIsNoticed(t *testing.T) {
	t.Parallel()
	const name = "resourcesync/main/changelist.xml"
	for _, tt := range []struct {
		old, new string
		restart  bool // and no news
	}{
		{"/a<", "/z<", false},
		{"</urlset>", "         ", false},
		{"</urlset>", "", true},
		{"</urlset>", "</urlset><!-- seen -->", true},
	} {
		w := newWorld(t, source.Options{SmallSet: 1})
		w.fill("r%05d", 200)
		s := w.source()
		w.publish(s)
		w.pass(time.Second)
		w.put("a=1")
		w.publish(s)
		data, err := reader(w.docs)(name)
		if err != nil {
			t.Fatal(err)
		}
		w.write(name, strings.Replace(string(data), tt.old, tt.new, 1))
		if tt.restart {
			w.publish(w.source()) // without news
			w.upToDate()
			continue
		}
		w.pass(time.Second)
		w.put("b=1")
		w.publish(s)
		if c := w.upToDate(); len(c.events) != 2 {
			t.Errorf("events %q", c.events)
		}
	}
}

// A document that goes missing is noticed by a running Source, too.
func TestPublishLooksAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	s := w.source()
	w.put("a=1")
	w.publish(s)
	for _, name := range []string{"resourcesync/main/resourcelist.xml", "resourcesync/main/changelist.xml",
		"resourcesync/main/capabilitylist.xml", ".well-known/resourcesync", "robots.txt", "resourcesync/index.html"} {
		w.remove(name)
		w.pass(time.Minute)
		if r := w.publish(s); !r.Written {
			t.Errorf("Publish without %s = %+v", name, r)
		}
		if _, err := w.docs.Stat(context.Background(), name); err != nil {
			t.Error(err)
		}
		w.upToDate()
	}
}

func rotating(o source.Options, c source.ChangeList) source.Options {
	o.Sets = []source.Set{{ChangeList: c}}
	return o
}

func TestChangeListRotatesByAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rotating(source.Options{}, source.ChangeList{Rotate: time.Hour}))
	s := w.source()
	w.publish(s)
	w.pass(10 * time.Hour)
	w.put("a=1") // the first change, however long nothing happened before
	w.publish(s)
	if c := w.upToDate(); c.closed != 0 {
		t.Errorf("%d closed parts at once", c.closed)
	}
	w.pass(59 * time.Minute)
	w.put("b=1")
	w.publish(s)
	if c := w.upToDate(); c.closed != 0 {
		t.Errorf("%d closed parts after 59 minutes", c.closed)
	}
	w.pass(time.Minute)
	if r := w.publish(s); !r.Written || r.Sets[0].Changes != 0 {
		t.Errorf("Publish after an hour = %+v, want the part closed", r.Sets[0])
	}
	if c := w.upToDate(); c.closed != 1 || len(c.events) != 2 {
		t.Errorf("%d closed parts after an hour", c.closed)
	}
	w.pass(5 * time.Hour)
	if r := w.publish(s); r.Written {
		t.Errorf("Publish = %+v: an empty part was closed", r.Sets[0])
	}
	for i := range 10 {
		w.pass(20 * time.Minute)
		w.put(fmt.Sprintf("c=%d", i))
		w.publish(s)
	}
	if c := w.upToDate(); c.closed != 3 {
		t.Errorf("%d closed parts after 10 changes in 200 minutes, want 3", c.closed)
	}
}

func TestChangeListRotatesByCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rotating(source.Options{MaxEntries: 50}, source.ChangeList{Entries: 5}))
	s := w.source()
	w.publish(s)
	for i := range 31 {
		w.pass(time.Second)
		w.put(fmt.Sprintf("r%d=1", i))
		w.publish(s)
	}
	if c := w.upToDate(); c.closed != 6 {
		t.Errorf("%d closed parts of 31 changes, want 6", c.closed)
	}
	w.fill("s%02d", 20) // at once
	w.publish(s)
	if c := w.upToDate(); c.closed != 10 {
		t.Errorf("%d closed parts of 51 changes, want 10", c.closed)
	}
}

// Many changes in one microsecond have times of their own, in order, wherever
// they are cut (RS-CHL-07); and so have those of a clock that steps back.
func TestEventsWithinAnInstant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rotating(source.Options{MaxEntries: 700}, source.ChangeList{Rotate: time.Hour}))
	s := w.source()
	w.publish(s)
	for i := range 8 {
		w.fill(fmt.Sprintf("r%d-%%04d", i), 500)
		w.publish(s)
		if i%2 == 0 {
			w.pass(-2 * time.Hour)
		}
		if c := w.upToDate(); len(c.events) != 500*(i+1) {
			t.Fatalf("%d events, want %d", len(c.events), 500*(i+1))
		}
	}
}

// Each set keeps its changes for its own time, never less than the grace
// period.
func TestSetsKeepForTheirTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Keep: 100 * time.Hour, Grace: 4 * time.Hour, Sets: []source.Set{
		{Name: "main"}, {Name: "short", ChangeList: source.ChangeList{Keep: 16 * time.Hour}}, {Name: "least", ChangeList: source.ChangeList{Keep: time.Second}},
	}})
	sets := []string{"main", "short", "least"}
	s := w.source()
	w.publish(s)
	for i := range 60 {
		w.pass(time.Hour)
		for _, set := range sets {
			v := *w
			v.set, _ = source.CapabilityListURI(baseURL, set)
			v.put(fmt.Sprintf("r%d=1", i))
		}
		w.publish(s)
	}
	for set, want := range map[string][2]int{"main": {60, 60}, "short": {16, 18}, "least": {4, 5}} {
		c, err := crawlSet(reader(w.docs), set, nil)
		if err != nil || len(c.events) < want[0] || len(c.events) > want[1] {
			t.Errorf("set %s: %d events are kept, %v; want %d", set, len(c.events), err, want)
		}
	}
}

// The state of the version before this one is read: its parts stay.
func TestOlderStateIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4})
	s := w.source()
	w.publish(s)
	for i := range 10 {
		w.put(fmt.Sprintf("r%d=x", i))
	}
	w.publish(s)
	before := w.files()
	var older []string // what layout 1 did not have
	for line := range strings.Lines(before[".lockstep/main.json"]) {
		if key := strings.TrimSpace(line); !strings.HasPrefix(key, `"saved"`) && !strings.HasPrefix(key, `"first"`) &&
			!strings.HasPrefix(key, `"used"`) && !strings.HasPrefix(key, `"size"`) && !strings.HasPrefix(key, `"sum"`) {
			older = append(older, line)
		}
	}
	text := strings.Join(older[1:], "")
	text = strings.Replace(strings.Replace(text, `"version": 2`, `"version": 1`, 1), "\"after\": 8,\n", "\"after\": 8\n", 1)
	w.write(".lockstep/main.json", text)
	w.remove(".lockstep/main.tail.json")
	w.pass(time.Minute)
	w.put("s=1")
	if r := w.publish(w.source()); r.Sets[0].Changes != 1 {
		t.Errorf("Publish = %+v from %s", r.Sets[0], text)
	}
	c := w.upToDate()
	if len(c.events) != 11 {
		t.Errorf("%d events, want 11", len(c.events))
	}
	(&immutability{TB: t, seen: make(map[string]string)}).compare(before, w.files())
}

// compare holds that what must not change has not.
func (m *immutability) compare(before, after map[string]string) {
	m.check(before)
	m.check(after)
}

// TestCrashWhileFormChanges has a publication die at each step of turning an
// index into one document, and of closing parts; changes go on, and the state
// may be lost as well. What was closed stays as it is, and what was followed
// ends.
func TestCrashWhileFormChanges(t *testing.T) {
	t.Parallel()
	for variant := range 4 {
		ends, lost := variant%2 == 0, variant >= 2
		for failAt, reached := 1, true; reached; failAt++ {
			w := newWorld(t, rotating(source.Options{Grace: 100 * time.Hour}, source.ChangeList{Rotate: time.Hour}))
			if ends {
				w.opts.Sets[0].ChangeList = source.ChangeList{Entries: 5, Keep: 24 * time.Hour}
				w.opts.Grace = time.Hour
			}
			w.publish(w.source())
			w.fill("r%d", 8)
			w.publish(w.source())
			if !ends {
				w.pass(61 * time.Minute)
				w.publish(w.source())
				w.fill("q%d", 3)
				w.publish(w.source())
			}
			open := w.names("resourcesync/main/changelist-")[1]
			w.pass(25 * time.Hour)
			if ends {
				w.fill("s%d", 1)
			} else {
				w.fill("s%d", 9)
			}
			seen := &immutability{TB: t, seen: make(map[string]string)}
			store := faulty(w.docs, failAt, true)
			store.Faults.After = func() { seen.check(w.files()) }
			faulty := *w
			faulty.docs = store
			_, err := faulty.source().Publish(context.Background())
			reached = err != nil
			if lost {
				w.remove(".lockstep/main.json")
			}
			w.fill("t%d", 2)
			w.publish(w.source())
			seen.check(w.files())
			if slices.Contains(w.upToDate().names, open) {
				continue // it still grows, or is one of those that are closed
			}
			if data, err := reader(w.docs)(open); err == nil && !strings.Contains(string(data), " until=") {
				t.Errorf("%s goes on for who follows it:\n%s", open, data)
			} else if err != nil && !lost {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("variant %d, with a fault at step %d", variant, failAt)
			}
		}
	}
}

// A part of the Change List that is closed keeps all changes that readers have seen in it,
// although its header has become longer: they may still read the index that names it as the
// open one, and would miss those that had moved to the next part (RS-CHL-06).
func TestClosedPartsKeepWhatWasSeen(t *testing.T) {
	t.Parallel()
	for size := int64(2400); size < 2800; size += 16 {
		w := newWorld(t, source.Options{MaxBytes: size, SmallSet: 1})
		s := w.source()
		w.publish(s)
		seen := &immutability{TB: t, seen: make(map[string]string)}
		for i := range 20 {
			w.pass(time.Minute)
			w.put(fmt.Sprintf("r%d=x", i))
			w.publish(s)
			seen.check(w.files())
		}
		if c := w.upToDate(); c.closed < 1 {
			t.Error("no part was closed")
		}
		if t.Failed() {
			t.Fatalf("with documents of %d bytes", size)
		}
	}
}
