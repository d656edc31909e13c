package source_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/source"
)

// TestAtomCompleteNeverGoesBack: whatever happens to the resources and to the
// clock, neither the updated of a complete feed nor that of an entry goes
// backwards; the deletion of the newest resource is no exception.
func TestAtomCompleteNeverGoesBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := atomWorld(t, source.Atom{Complete: true})
			s := w.source()
			var feed time.Time
			entries := map[string]time.Time{}
			for step := range 25 {
				name := fmt.Sprintf("r%d", rnd.IntN(5))
				if rnd.IntN(3) > 0 {
					name += fmt.Sprintf("=%d", step)
				}
				w.put(name)
				w.publish(s)
				d, err := readAtomDoc(reader(w.docs), feedName)
				if err != nil {
					t.Fatal(err)
				}
				if d.feed.Updated.Before(feed) {
					t.Fatalf("step %d (%s): the feed is of %s, was of %s", step, name, d.feed.Updated, feed)
				}
				feed = d.feed.Updated
				for _, e := range d.entries {
					if e.Updated.Before(entries[e.ID]) {
						t.Fatalf("step %d (%s): the entry %s is of %s, was of %s", step, name, e.ID, e.Updated, entries[e.ID])
					}
					if e.Updated.After(feed) {
						t.Fatalf("step %d (%s): the entry %s is of %s, after its feed, %s", step, name, e.ID, e.Updated, feed)
					}
					entries[e.ID] = e.Updated
				}
				w.pass(time.Duration(rnd.IntN(20)-10) * time.Second)
			}
		})
	}
}

// TestAtomCompleteState: what is remembered of a complete feed does not grow with each
// publication, although each is a feed of its own.
func TestAtomCompleteState(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Complete: true})
	s := w.source()
	size := func() (size int64) {
		for info, err := range w.docs.List(t.Context(), ".lockstep/atom/") {
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size
		}
		return size
	}
	var first int64
	for i := range 50 {
		w.put(fmt.Sprintf("r=%d", i))
		w.publish(s)
		w.pass(2 * time.Minute)
		if i == 5 {
			first = size()
		}
	}
	if last := size(); first == 0 || last > first+100 {
		t.Errorf("the state has %d bytes after 50 publications, and had %d after 6", last, first)
	}
}
