package source_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// partsOf returns the parts that the Resource List Index names, in order.
func (w *world) partsOf() (index resourcesync.Header, parts []resourcesync.Entry) {
	w.Helper()
	h, parts := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList)
	if !h.Index {
		w.Fatal("the Resource List is no index")
	}
	return h, parts
}

// listed returns what the parts of the Resource List state, without the Change List.
func (w *world) listed() map[string]string {
	w.Helper()
	state := make(map[string]string)
	h, entries := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList)
	if !h.Index {
		entries = []resourcesync.Entry{{Loc: baseURL + mainSet + "resourcelist.xml"}}
	}
	for _, part := range entries {
		_, resources := w.document(name(part.Loc), resourcesync.ResourceList)
		for _, e := range resources {
			state[e.Loc] = digest(e.Length, e.Hashes)
		}
	}
	return state
}

func locs(parts []resourcesync.Entry) (all []string) {
	for _, e := range parts {
		all = append(all, name(e.Loc))
	}
	return all
}

// missing returns how many of names are not among others.
func missing(names, others []string) (n int) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			n++
		}
	}
	return n
}

// A new Resource List shares the parts of which no resource has changed with the one
// before: same address, bytes and modification time. Its at is new, not later than
// that of any part, and covered by the Change List (RS-RL-13, RS-RLI-03).
func TestResourceListSharesParts(t *testing.T) {
	t.Parallel()
	for _, compressed := range []bool{false, true} {
		w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
		if compressed {
			w.docs = source.Compressed(w.docs)
		}
		w.fill("r%05d", 2000)
		s := w.source()
		w.publish(s)
		before, first := w.partsOf()
		files := w.files()
		for round := range 10 {
			w.pass(25 * time.Hour)
			w.put(fmt.Sprintf("r%05d=changed%d", 700+round, round))
			if round%2 == 1 {
				s = w.source() // from the state that is stored
			}
			r := w.publish(s)
			if !r.Sets[0].List || r.Sets[0].Parts != 40 || r.Sets[0].Resources != 2000 || r.Sets[0].Bytes > 60_000 {
				t.Errorf("round %d: Publish = %+v, want a list of 40 parts, few of them written", round, r.Sets[0])
			}
			c := w.upToDate()
			h, parts := w.partsOf()
			if !maps.Equal(w.listed(), w.live) {
				t.Errorf("round %d: the list alone is not the present", round)
			}
			for _, e := range parts {
				if !slices.Contains(locs(first), name(e.Loc)) && e.At.Time().Before(w.now()) {
					t.Errorf("round %d: %s has changes of %s, but is as of %s", round, e.Loc, w.now(), e.At)
				}
			}
			if n := missing(locs(parts), locs(first)); n < 1 || n > 2 {
				t.Errorf("round %d: %d of %d parts are new, want the one that changed and the earliest", round, n, len(parts))
			}
			if !h.At.Time().After(before.At.Time()) || c.from.After(h.At.Time()) {
				t.Errorf("round %d: at %s after %s, changes from %s", round, h.At, before.At, c.from)
			}
			now := w.files()
			for _, part := range locs(parts) {
				if old, ok := files[part]; ok && old != now[part] {
					t.Errorf("round %d: %s was rewritten", round, part)
				}
				if compressed && files[part+".gz"] != "" && files[part+".gz"] != now[part+".gz"] {
					t.Errorf("round %d: %s.gz was rewritten", round, part)
				}
				info, err := w.docs.Stat(t.Context(), part)
				e := parts[slices.Index(locs(parts), part)]
				if err != nil || !e.Lastmod.Time().Equal(info.ModTime) {
					t.Errorf("round %d: %s was modified at %s, the index says %s, %v", round, part, info.ModTime, e.Lastmod, err)
				}
			}
			before, first, files = h, parts, now
		}
	}
}

// Parts stay for readers of the lists that named them, however many lists share them,
// and no longer.
func TestSharedPartsStayForTheirReaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 10, SmallSet: 1000, Grace: 3 * time.Hour})
	w.fill("r%05d", 200)
	s := w.source()
	random := rand.New(rand.NewPCG(5, 5))
	type served struct {
		until time.Time
		parts []string
	}
	var lists []served
	for range 60 {
		w.publish(s)
		w.upToDate()
		_, parts := w.partsOf()
		if len(lists) > 0 {
			lists[len(lists)-1].until = w.now()
		}
		lists = append(lists, served{parts: locs(parts)})
		files := w.files()
		needed := make(map[string]bool)
		for i, l := range lists {
			if i < len(lists)-1 && w.now().Sub(l.until) >= 3*time.Hour {
				continue
			}
			for _, part := range l.parts {
				if needed[part] = true; files[part] == "" {
					t.Fatalf("%s is gone, which a list named until %s", part, l.until)
				}
			}
		}
		w.pass(time.Hour)
		w.put(fmt.Sprintf("r%05d=%d", random.IntN(200), random.Int()))
	}
	w.publish(s)
	w.pass(4 * time.Hour)
	w.publish(s)
	_, parts := w.partsOf()
	if got, want := w.names(mainSet+"resourcelist-"), slices.Sorted(slices.Values(locs(parts))); !slices.Equal(got, want) {
		t.Errorf("%d parts are there, want the %d that the list names", len(got), len(want))
	}
}

// A part is written again before its at leaves the Change List: the list never falls
// behind (RS-RLI-04), and no reader has to read more changes than are kept, or many
// more than there are resources.
func TestPartsDoNotFallBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		changes   int // a day, all in one part
		most      time.Duration
		mostParts int // a day, apart from the first few
	}{
		{"few changes", 2, 32 * 24 * time.Hour, 20},
		{"many changes", 100, 13 * 24 * time.Hour, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
			w.fill("r%05d", 5000)
			s := w.source()
			w.publish(s)
			h, parts := w.partsOf()
			for day := range 100 {
				w.pass(25 * time.Hour)
				for i := range tt.changes {
					w.apply(catalog.Update{Record: record(fmt.Sprintf("%sr%05d", baseURL, i%40), fmt.Sprint(day, i))})
				}
				w.publish(s)
				now, next := w.partsOf()
				changes, _ := w.document(mainSet+"changelist.xml", resourcesync.ChangeList)
				if !now.At.Time().After(h.At.Time()) || changes.From.Time().After(now.At.Time()) || w.now().Sub(now.At.Time()) > tt.most {
					t.Fatalf("day %d: at %s after %s, changes from %s", day, now.At, h.At, changes.From)
				}
				if w.now().Sub(changes.From.Time()) > 75*24*time.Hour {
					t.Fatalf("day %d: changes are kept since %s", day, changes.From)
				}
				if n := missing(locs(next), locs(parts)); n > tt.mostParts {
					t.Errorf("day %d: %d of %d parts are new", day, n, len(next))
				}
				h, parts = now, next
			}
		})
	}
}

// What keeps parts from being shared: another form of the documents, a part that is
// not as it was written, a state that is lost or of an earlier version, another
// catalog.
func TestWhenPartsAreNotShared(t *testing.T) {
	t.Parallel()
	state := ".lockstep/main.json"
	for _, tt := range []struct {
		name     string
		change   func(w *world, parts []string)
		min, max int // new parts, of 20
	}{
		{"nothing", func(*world, []string) {}, 1, 2},
		{"state lost", func(w *world, _ []string) { w.remove(state) }, 20, 20},
		{"state of an earlier version", func(w *world, _ []string) {
			w.editState(state, func(list map[string]any) { delete(list, "sections"); delete(list, "taken") })
		}, 20, 20},
		{"state damaged", func(w *world, _ []string) {
			w.editState(state, func(list map[string]any) { list["sections"].([]any)[3].(map[string]any)["first"] = "a" })
		}, 20, 20},
		{"parts and sections differ", func(w *world, _ []string) {
			w.editState(state, func(list map[string]any) { list["sections"] = list["sections"].([]any)[1:] })
		}, 20, 20},
		{"part lost", func(w *world, parts []string) { w.remove(parts[7]) }, 2, 3},
		{"part cut", func(w *world, parts []string) { w.write(parts[7], "<urlset/>") }, 2, 3},
		{"smaller parts", func(w *world, _ []string) { w.opts.MaxEntries = 30 }, 40, 40},
		{"larger parts", func(w *world, _ []string) { w.opts.MaxEntries = 60 }, 1, 2},
		{"archive", func(w *world, _ []string) {
			w.opts.Sets = []source.Set{{Archive: &source.Archive{ResourceLists: &source.Retain{All: true}}}}
		}, 20, 20},
		{"another catalog", func(w *world, _ []string) {
			w.cat = catalog.NewMem(w.now)
			w.fill("r%05d", 1000)
		}, 20, 20},
		{"another catalog with as many changes", func(w *world, _ []string) {
			w.cat = catalog.NewMem(w.now)
			w.fill("r%05d", 999)
			w.put("r00999=2")
			if _, err := w.cat.Mark(w.Context(), w.set); err != nil {
				w.Fatal(err)
			}
		}, 20, 20},
	} {
		w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
		w.fill("r%05d", 1000)
		w.publish(w.source())
		_, before := w.partsOf()
		w.pass(25 * time.Hour)
		tt.change(w, locs(before))
		w.put("r00000=2")
		w.publish(w.source())
		w.upToDate()
		_, parts := w.partsOf()
		if n := missing(locs(parts), locs(before)); n < tt.min || n > tt.max {
			t.Errorf("%s: %d of %d parts are new, want %d to %d", tt.name, n, len(parts), tt.min, tt.max)
		}
	}
}

// A resource that was touched, which is no change, is in the next list as it is now: the
// part that names it is written again, once.
func TestTouchedResourcesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
	w.fill("r%05d", 1000)
	s := w.source()
	w.publish(s)
	touched := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	_, before := w.partsOf()
	for round := range 3 {
		w.pass(25 * time.Hour)
		if round == 0 {
			u := catalog.Update{Record: record(baseURL+"r00512", "x")}
			u.Lastmod = touched
			w.apply(u)
		}
		w.put(fmt.Sprintf("r00900=%d", round))
		w.publish(s)
		w.upToDate()
		_, parts := w.partsOf()
		var got time.Time
		for _, part := range parts {
			_, entries := w.document(name(part.Loc), resourcesync.ResourceList)
			for _, e := range entries {
				if e.Loc == baseURL+"r00512" {
					got = e.Lastmod.Time()
				}
			}
		}
		if !got.Equal(touched) {
			t.Errorf("round %d: the touched resource has lastmod %s, want %s", round, got, touched)
		}
		want := 2 // the one that changed and the earliest
		if round == 0 {
			want++
		}
		if n := missing(locs(parts), locs(before)); n > want {
			t.Errorf("round %d: %d parts are new, want at most %d", round, n, want)
		}
		before = parts
	}
}

// A set in parts that becomes empty has one list without entries, and grows parts again.
func TestPartsOfEmptySet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxBytes: 3000})
	s := w.source()
	for range 2 {
		w.fill("r%05d", 100)
		w.pass(25 * time.Hour)
		w.publish(s)
		w.upToDate()
		if _, parts := w.partsOf(); len(parts) < 3 {
			t.Fatalf("%d parts", len(parts))
		}
		for i := range 100 {
			w.put(fmt.Sprintf("r%05d", i))
		}
		w.pass(25 * time.Hour)
		w.publish(s)
		w.upToDate()
		if h, entries := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList); h.Index || len(entries) > 0 {
			t.Errorf("the list of an empty set is an index: %v, with %d entries", h.Index, len(entries))
		}
		w.pass(25 * time.Hour)
	}
}

// Lists have later and later times although the clock stalls, also where nothing but their
// form has changed, in parts or not (RS-RL-13).
func TestListsOfOneInstant(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{50, 5000} {
		w := newWorld(t, source.Options{MaxEntries: entries, SmallSet: 1})
		w.fill("r%05d", 1000)
		var at time.Time
		for i := range 6 {
			w.opts.Sets = []source.Set{{Links: []source.LinkRule{{Href: fmt.Sprintf("https://example.org/%d", i), Link: resourcesync.Link{Rel: "license"}}}}}
			if i == 4 {
				w.opts.Sets[0].Archive = &source.Archive{ResourceLists: &source.Retain{All: true}}
			}
			w.publish(w.source())
			w.upToDate()
			h, _ := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList)
			if !h.At.Time().After(at) {
				t.Errorf("%d entries, list %d: at %s, the one before has %s", entries, i, h.At, at)
			}
			at = h.At.Time()
		}
	}
}

// What no document can state is counted with each list, also in parts that stay.
func TestRefusedInSharedParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
	w.fill("r%05d", 1000)
	w.apply(catalog.Update{Record: record(baseURL+"r00512 b", "x")})
	s := w.source()
	for round := range 3 {
		if r := w.publish(s); !r.Sets[0].List || r.Sets[0].Refused < 1 {
			t.Errorf("list %d: %+v, want the refused resource to be counted", round, r.Sets[0])
		}
		w.pass(25 * time.Hour)
		w.put(fmt.Sprintf("r00900=%d", round))
		if round == 1 {
			s = w.source()
		}
	}
}

// editState changes what a state says of the Resource List.
func (w *world) editState(name string, edit func(list map[string]any)) {
	w.Helper()
	data, err := reader(w.docs)(name)
	var st map[string]any
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	if err == nil {
		edit(st["resource_list"].(map[string]any))
		data, err = json.Marshal(st)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.write(name, string(data))
}

// A state that is lost is rebuilt with the same boundaries, whenever that happens.
func TestBoundariesAreRebuiltAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 50, SmallSet: 1})
	w.fill("r%05d", 1234)
	var last []string
	for range 3 {
		w.remove(".lockstep/main.json")
		w.publish(w.source())
		_, parts := w.partsOf()
		var firsts []string
		for _, e := range parts {
			_, entries := w.document(name(e.Loc), resourcesync.ResourceList)
			firsts = append(firsts, entries[0].Loc)
		}
		if last != nil && !slices.Equal(firsts, last) {
			t.Errorf("parts begin with %s, then with %s", last, firsts)
		}
		last = firsts
		w.pass(time.Hour)
	}
}

// TestRandomListsOfManyParts plays random histories of a set in small parts: what is
// published is the catalog's present after each publication, and true after each
// fault; parts keep their bytes, and those without changes mostly their names.
func TestRandomListsOfManyParts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(12)) {
		random := rand.New(rand.NewPCG(seed, 17))
		w := newWorld(t, source.Options{
			MaxEntries: 5 + random.IntN(20), MaxBytes: int64(3000 + random.IntN(20_000)), Workers: 1 + random.IntN(3),
			Keep: time.Duration(20+random.IntN(500)) * time.Hour, Grace: time.Duration(1+random.IntN(20)) * time.Hour,
		})
		seen := &immutability{TB: t, seen: make(map[string]string)}
		store := faulty(w.docs, 0, false)
		faulty := *w
		faulty.docs = store
		w.fill("r%03d", 150)
		s := faulty.source()
		shared, written := 0, 0
		var before []string
		var at time.Time
		for step := range 60 {
			where := random.IntN(200)
			for range random.IntN(8) {
				word := fmt.Sprintf("r%03d", where+random.IntN(10))
				if random.IntN(4) > 0 {
					word += fmt.Sprintf("=%d", random.Int())
				}
				w.put(word)
			}
			if random.IntN(10) == 0 {
				dir := random.IntN(5)
				for i := range random.IntN(40) {
					w.put(fmt.Sprintf("s%02d/%03d=%d", dir, i, random.IntN(2)))
				}
			}
			if random.IntN(3) > 0 {
				w.pass(time.Duration(random.IntN(100)) * time.Minute)
			}
			if random.IntN(3) == 0 {
				store.Faults.Arm(1+random.IntN(40), faultMode(random.IntN(2), random.IntN(2) == 0))
				if _, err := s.Publish(t.Context()); err != nil {
					store.Faults.Restart()
					if c, err := crawlAll(reader(w.docs)); err == nil {
						if err := c.check(w.past); err != nil {
							t.Fatalf("seed %d, step %d, after a fault: %v", seed, step, err)
						}
					}
					s = faulty.source()
				}
				store.Faults.Restart()
			}
			if r := w.publish(s); r.Sets[0].List && !maps.Equal(w.listed(), w.live) {
				t.Fatalf("seed %d, step %d: the list alone is not the present", seed, step)
			}
			seen.check(w.files())
			c, err := crawlAll(reader(w.docs))
			if err != nil || !maps.Equal(c.state, w.live) {
				t.Fatalf("seed %d, %+v, step %d: %v", seed, w.opts, step, err)
			}
			if c.at.Before(at) {
				t.Fatalf("seed %d, step %d: at was %s, is %s", seed, step, at, c.at)
			}
			at = c.at
			var parts []string
			for _, name := range c.names {
				if strings.Contains(name, "/resourcelist-") {
					parts = append(parts, name)
				}
			}
			n := missing(parts, before)
			written, shared, before = written+n, shared+len(parts)-n, parts
		}
		if shared < written {
			t.Errorf("seed %d: %d parts were written, only %d shared", seed, written, shared)
		}
	}
}

// TestCrashWhilePartsAreShared has a publication die at each step of writing a list
// that shares parts with the one before. Readers of either list find all its parts,
// before and after the next publication, which shares parts again.
func TestCrashWhilePartsAreShared(t *testing.T) {
	t.Parallel()
	for failAt, reached := 1, true; reached; failAt++ {
		w := newWorld(t, source.Options{MaxEntries: 10, SmallSet: 1, Grace: 2 * time.Hour})
		w.fill("r%05d", 200)
		w.publish(w.source())
		_, first := w.partsOf()
		w.pass(25 * time.Hour)
		w.put("r00055=2")
		store := faulty(w.docs, failAt, true)
		faulty := *w
		faulty.docs = store
		_, err := faulty.source().Publish(t.Context())
		reached = err != nil
		w.upToDateOr(reached)
		h, second := w.partsOf()
		w.pass(time.Minute)
		w.put("r00155=2")
		s := w.source()
		w.publish(s)
		w.upToDate()
		now, third := w.partsOf()
		w.pass(time.Hour) // within the grace period of both lists
		w.publish(s)
		for _, part := range slices.Concat(locs(first), locs(second), locs(third)) {
			if _, err := w.docs.Stat(t.Context(), part); err != nil {
				t.Errorf("%s: %v", part, err)
			}
		}
		if n := missing(locs(third), slices.Concat(locs(first), locs(second))); n > 4 {
			t.Errorf("%d of %d parts are new", n, len(third))
		}
		if reached && !slices.Equal(locs(second), locs(third)) && !now.At.Time().After(h.At.Time()) {
			t.Errorf("at was %s, is %s", h.At, now.At)
		}
		w.pass(25 * time.Hour)
		w.put("r00155=3")
		w.publish(s)
		w.pass(3 * time.Hour)
		w.publish(s)
		_, last := w.partsOf()
		if got, want := w.names(mainSet+"resourcelist-"), slices.Sorted(slices.Values(locs(last))); !slices.Equal(got, want) {
			t.Errorf("%d parts are there, want the %d that the list names", len(got), len(want))
		}
		if t.Failed() {
			t.Fatalf("with a fault at step %d", failAt)
		}
	}
}

// upToDateOr crawls, and unless before is set requires the catalog's present.
func (w *world) upToDateOr(before bool) {
	w.Helper()
	if before {
		w.crawl()
		return
	}
	w.upToDate()
}
