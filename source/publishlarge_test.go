package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

// The Resource List of a large set is not taken anew for every change.
func TestLargeSetsKeepTheirResourceList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{SmallSet: 100})
	w.fill("r%05d", 105)
	s := w.source()
	at := w.now()
	w.publish(s)
	step := func(d time.Duration, list bool, words ...string) {
		t.Helper()
		w.pass(d)
		w.put(words...)
		if r := w.publish(s); r.Sets[0].List != list {
			t.Errorf("Publish = %+v, want a Resource List: %v", r.Sets[0], list)
		}
		if list {
			at = w.now()
		}
		if c := w.upToDate(); !c.at.Equal(at) {
			t.Errorf("Resource List at %s, want %s", c.at, at)
		}
	}
	step(time.Hour, false, "r00000")
	step(23*time.Hour, true, "r00001=yy")
	step(time.Hour, false, "r00002=yy")
	w.fill("s%05d", 12)
	step(time.Hour, true)
}

// While most of a large set changes, its Resource List is not written again and again;
// when the changes end it is, without further changes.
func TestResourceListsOfLargeSetsArePaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{SmallSet: 100})
	w.fill("r%05d", 200)
	s := w.source()
	w.publish(s)
	step := func(d time.Duration, list bool) {
		t.Helper()
		w.pass(d)
		if r := w.publish(s); r.Sets[0].List != list || r.Later == list {
			t.Errorf("Publish = %+v, want a Resource List: %v, else one later", r, list)
		}
		w.upToDate()
	}
	w.fill("s%05d", 40)
	step(5*time.Millisecond, false)
	w.fill("t%05d", 10)
	step(time.Millisecond, false)
	step(10*time.Millisecond, true)
	w.pass(time.Second)
	if r := w.publish(s); r.Written || r.Later {
		t.Errorf("Publish = %+v, want nothing left to do", r)
	}
}

// TestResourceListsCatchUp: a Resource List that lacks changes, because it was put off
// when they were published, is written once it is due, without further changes and by
// another Source as well.
func TestResourceListsCatchUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		small        int           // Options.SmallSet
		age          time.Duration // of the list when there is a change
		quick, later bool          // how this is published, and whether the list is reported as put off
		wait         time.Duration
	}{
		{"soon after a list", 2000, time.Second, false, true, time.Second},
		{"with what is urgent", 2000, time.Hour, true, true, 0},
		{"large", 1000, 25 * time.Hour, true, true, 0},
		{"large, with few changes", 1000, time.Second, false, false, 24 * time.Hour},
	} {
		for _, restart := range []bool{false, true} {
			w := newWorld(t, source.Options{SmallSet: tt.small})
			w.fill("r%05d", 1100)
			s := w.source()
			w.publish(s)
			w.pass(tt.age)
			w.put("last=1")
			publish := w.publish
			if tt.quick {
				publish = w.publishChanges
			}
			if r := publish(s); r.Sets[0].List || r.Later != tt.later {
				t.Errorf("%s: Publish = %+v, want no list, one later: %v", tt.name, r, tt.later)
			}
			if restart {
				s = w.source()
			}
			w.pass(tt.wait)
			if r := w.publish(s); !r.Sets[0].List || r.Later {
				t.Errorf("%s, restarted %v: Publish = %+v, want a list", tt.name, restart, r)
			}
			w.pass(25 * time.Hour)
			if r := w.publish(s); r.Written || r.Later {
				t.Errorf("%s, restarted %v: Publish = %+v, want nothing left to do", tt.name, restart, r)
			}
		}
	}
}

func TestUnpublishableRecordsAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	s := w.source()
	w.publish(s)
	w.put("a b=x", "good=1")
	delete(w.live, baseURL+"a b")
	w.remember()
	if r := w.publish(s); r.Sets[0].Refused != 2 {
		t.Errorf("Publish = %+v, want 2 refused", r.Sets[0])
	}
	c, err := crawlAll(reader(w.docs))
	if err != nil || len(c.state) != 1 {
		t.Errorf("crawl: %v, %v", c, err)
	}
}

func TestNewRefusesOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []source.Options{
		{},
		{BaseURL: "data.example.org"},
		{BaseURL: "ftp://data.example.org/"},
		{BaseURL: "https://user@data.example.org/"},
		{BaseURL: "https://data.example.org/?x"},
		{BaseURL: "https://data.example.org/#x"},
		{BaseURL: "https://data.example.org/a//b/"},
		{BaseURL: "https://data.example.org/a/../b/"},
		{BaseURL: "https://data.example.org/%zz"},
		{BaseURL: baseURL, Sets: []source.Set{{Name: "../x"}}},
		{BaseURL: baseURL, Sets: []source.Set{{Name: "x"}, {Name: "x"}}},
	} {
		if _, err := source.New(nil, nil, o); err == nil {
			t.Errorf("New(%+v) succeeded", o)
		}
	}
}

// What stands in a set's directory and is not ours stays there.
func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 2, Grace: time.Hour})
	foreign := []string{"resourcelist-old.xml", "changelist-2012.xml", "notes.txt", "resourcelist-20260501T070000.0000000Z-00001.xml.bak"}
	for _, name := range foreign {
		w.write("resourcesync/main/"+name, "mine")
	}
	s := w.source()
	for i := range 10 {
		w.put(fmt.Sprintf("r%d=x", i))
		w.publish(s)
		w.pass(2 * time.Hour)
	}
	for _, name := range foreign {
		if _, err := w.docs.Stat(context.Background(), "resourcesync/main/"+name); err != nil {
			t.Error(err)
		}
	}
}

// A set that cannot be published is no reason not to publish the others.
func TestOneSetFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Sets: []source.Set{{Name: "bad"}, {Name: "main"}}})
	w.write(".lockstep/bad.json", `{"version":99}`)
	w.put("a=1")
	if _, err := w.source().Publish(context.Background()); err == nil || !strings.Contains(err.Error(), "set bad") {
		t.Errorf("Publish = %v, want the failure of set bad", err)
	}
	w.upToDate()
}

// TestRandomHistories plays random changes, jumps of the clock, publications
// that fail, restarts, lost states and settings: whenever a publication is done,
// a reader of the Resource List and the Change List has the catalog's present,
// and nothing has changed that was not to change any more.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(8)) {
		random := rand.New(rand.NewPCG(seed, 7))
		o := source.Options{
			MaxEntries: 1 + random.IntN(12), Workers: 1 + random.IntN(3),
			Keep: time.Duration(random.IntN(50)) * time.Hour, Grace: time.Duration(1+random.IntN(20)) * time.Hour,
		}
		if seed%2 == 1 {
			o.Sets = []source.Set{{ChangeList: source.ChangeList{
				Rotate: time.Duration(random.IntN(30)) * time.Hour, Entries: random.IntN(6), Keep: time.Duration(random.IntN(50)) * time.Hour,
			}}}
		}
		w := newWorld(t, o)
		seen := &immutability{TB: t, seen: make(map[string]string)}
		store := faulty(w.docs, 0, false)
		faulty := *w
		faulty.docs = store
		s := faulty.source()
		for step := range 80 {
			for range random.IntN(6) {
				word := fmt.Sprintf("r%d", random.IntN(25))
				if random.IntN(3) > 0 {
					word += fmt.Sprintf("=%d", random.IntN(3))
				}
				w.put(word)
			}
			switch random.IntN(6) {
			case 0:
				w.pass(-time.Duration(random.IntN(100)) * time.Minute)
			case 1:
				w.pass(time.Duration(random.IntN(30)) * time.Hour)
			case 2:
				w.pass(time.Duration(random.IntN(1000)))
			}
			if random.IntN(4) == 0 {
				store.Faults.Arm(1+random.IntN(30), faultMode(random.IntN(2), random.IntN(2) == 0))
				if _, err := s.Publish(context.Background()); err != nil {
					store.Faults.Restart()
					seen.check(w.files())
					if c, err := crawlAll(reader(w.docs)); err == nil {
						if err := c.check(w.past); err != nil {
							t.Fatalf("seed %d, step %d, after a fault: %v", seed, step, err)
						}
					} else if !errors.Is(err, errNothing) {
						t.Fatalf("seed %d, step %d, after a fault: %v", seed, step, err)
					}
				}
				store.Faults.Restart()
			}
			if random.IntN(4) == 0 {
				s = faulty.source()
				if random.IntN(4) == 0 {
					w.remove(".lockstep/main.json")
				}
			}
			w.publish(s)
			seen.check(w.files())
			c, err := crawlAll(reader(w.docs))
			if err != nil || !maps.Equal(c.state, w.live) {
				t.Fatalf("seed %d, %+v, step %d: %v", seed, o, step, err)
			}
		}
	}
}

func (w *world) remove(name string) {
	w.Helper()
	if err := w.docs.Remove(context.Background(), name); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, content string) {
	w.Helper()
	ctx := context.Background()
	bw, err := w.docs.Create(ctx, name)
	if err == nil {
		_, err = bw.Write([]byte(content))
	}
	if err == nil {
		err = w.docs.Commit(ctx, bw)
	}
	if err != nil {
		w.Fatal(err)
	}
}
