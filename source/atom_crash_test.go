package source_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/source"
)

// atomMore has the tests of feeds try all they can, for minutes.
var atomMore = flag.Bool("source.atom", false, "try every fault and long histories of Atom feeds")

// TestAtomCrashAnywhere plays one history again and again, with a fault at the
// first, the second, … step of writing. After every single step that shows, the
// feed is whole, archives are as they were, and who follows it comes to what there
// is.
func TestAtomCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, a := range []source.Atom{{Entries: 2}, {Complete: true}} {
		for _, crash := range []bool{true, false} {
			t.Run(fmt.Sprintf("complete=%v,crash=%v", a.Complete, crash), func(t *testing.T) {
				t.Parallel()
				stride := 2
				if !crash || a.Complete {
					stride = 7
				}
				if *atomMore {
					stride = 1
				}
				stride = apart(stride)
				for failAt := 1; playAtomFault(t, a, failAt, crash); failAt += stride {
					if t.Failed() {
						t.Fatalf("with a fault at step %d", failAt)
					}
				}
			})
		}
	}
}

// feedCheck checks a feed whenever something shows.
type feedCheck struct {
	testing.TB
	w    *world
	h    harvester
	seen map[string]string // archives
}

func (c *feedCheck) look() {
	c.Helper()
	if err := c.h.harvest(reader(c.w.docs), false); err != nil && !errors.Is(err, errNoFeed) {
		c.Error(err)
	}
	for name, content := range c.w.files() {
		if strings.Contains(name, "/feed-") {
			if old, ok := c.seen[name]; ok && old != content { // AP-TS-07
				c.Errorf("%s has changed from\n%s\nto\n%s", name, old, content)
			}
			c.seen[name] = content
		}
	}
}

func playAtomFault(t *testing.T, a source.Atom, failAt int, crash bool) (reached bool) {
	t.Helper()
	w := newLinkedWorld(t, a)
	check := &feedCheck{TB: t, w: w.world, seen: make(map[string]string)}
	store := faulty(w.docs, failAt, crash)
	store.Faults.After = func() {
		if store.Faults.Steps() >= failAt-1 { // earlier runs were here
			check.look()
		}
	}
	faulty := *w.world
	faulty.docs = store
	s := faulty.source()
	further := 3 // so that what has been forgotten shows
	r := linkedResource{typ: "text/html", alternates: []string{"r.pdf"}}
	pdf, gone := linkedResource{typ: "application/pdf", canonical: "r"}, linkedResource{}
	text := linkedResource{typ: "text/plain"}
	script := []map[string]linkedResource{
		{"a": text, "b": text, "c": text}, {"r": r, "r.pdf": pdf}, {"a": text}, {"r": gone}, {"b": gone, "d": text}, {"r": r, "e": text},
		{}, {"r.pdf": gone}, {"a": text, "c": text, "d": text, "e": text}, {"a": gone, "c": gone, "d": gone, "e": gone},
	}
	for i := 0; i < len(script) && further > 0; i++ {
		w.set(script[i])
		if _, err := s.Publish(context.Background()); err != nil {
			if !errors.Is(err, errFault) {
				t.Errorf("Publish = %v", err)
			}
			store.Faults.Restart()
			if crash {
				s = faulty.source()
			}
			w.pass(time.Minute)
			if failAt%2 == 0 {
				w.set(map[string]linkedResource{"meanwhile": text})
			}
			w.publish(s)
		}
		if store.Faults.Steps() >= failAt {
			w.told(&check.h)
			further--
		}
		w.pass(time.Minute)
	}
	return store.Faults.Steps() >= failAt
}

// TestAtomRandomHistories creates, modifies and deletes, has archives cut, the
// clock run back, processes die at any step and documents get lost: the invariants
// I1 to I3 hold, each record has exactly one active entry, deletions lead nowhere,
// and who follows the feed comes to what there is.
func TestAtomRandomHistories(t *testing.T) {
	t.Parallel()
	rounds := 50
	if *atomMore {
		rounds = 2000
	}
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 11))
		a := source.Atom{Entries: 1 + random.IntN(8)}
		if seed == 3 {
			a = source.Atom{Complete: true}
		}
		w := atomWorld(t, a)
		check := &feedCheck{TB: t, w: w, seen: make(map[string]string)}
		store := faulty(w.docs, 0, false)
		store.Faults.After = check.look
		faulty := *w
		faulty.docs = store
		s := faulty.source()
		for range rounds {
			for range random.IntN(6) {
				word := fmt.Sprintf("r%d", random.IntN(12))
				if random.IntN(3) > 0 {
					word += fmt.Sprintf("=%d", random.IntN(100))
				}
				w.put(word)
			}
			switch random.IntN(12) {
			case 0:
				w.pass(-time.Hour)
			case 1:
				w.pass(3 * time.Hour)
			case 2:
				w.fill(fmt.Sprintf("s%d-%%03d", random.IntN(3)), 15)
			default:
				w.pass(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			store.Faults.Restart()
			if random.IntN(3) == 0 {
				store.Faults.Arm(1+random.IntN(15), faultMode(random.IntN(2), random.IntN(2) == 0))
			}
			_, err := s.Publish(context.Background())
			check.look()
			if err != nil {
				store.Faults.Restart()
				s = faulty.source()
				continue
			}
			if diff := cmp.Diff(w.records(), check.h.active()); diff != "" {
				t.Fatalf("records told of (-want +got):\n%s", diff)
			}
			w.inFeed()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}
