package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// A meanwhile is a store that calls do whenever the Source begins to write a document of
// a Resource List, as long as others can publish. When the entry document begins, the
// parts are committed.
type meanwhile struct {
	blob.Store
	src    *source.Source
	do     func(entry bool) // nil: nothing
	others int              // documents of a Resource List begun while others could not publish
}

// Create implements [blob.Store].
func (m *meanwhile) Create(ctx context.Context, name string) (blob.Writer, error) {
	do, list := m.do, strings.HasPrefix(name, mainSet+"resourcelist")
	switch {
	case list && source.IsPublishing(m.src):
		m.others++
	case list && do != nil:
		m.do = nil // it writes documents as well
		do(name == mainSet+"resourcelist.xml")
		m.do = do
	}
	return m.Store.Create(ctx, name)
}

// publishChanges publishes what is urgent, which must be all changes.
func (w *world) publishChanges(s *source.Source) source.Report {
	w.Helper()
	r, err := s.PublishChanges(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	w.upToDate()
	return r
}

// TestChangesWhileAListIsWritten: while a large Resource List is written, changes are
// published; what is written stays until it is published, however long that takes, and
// the Change List reaches back to it.
func TestChangesWhileAListIsWritten(t *testing.T) {
	t.Parallel()
	for _, compressed := range []bool{false, true} {
		w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 1, Workers: 1, Keep: 100 * time.Hour, Grace: 2 * time.Hour})
		store := &meanwhile{Store: w.docs}
		if w.docs = store; compressed {
			w.docs = source.Compressed(store)
		}
		w.fill("r%05d", 200)
		s := w.source()
		store.src = s
		w.publish(s)
		store.others = 0
		for round := range 4 {
			w.pass(25 * time.Hour)
			for i := range 10 {
				w.put(fmt.Sprintf("r%05d=round%d", 20*i, round))
			}
			if r := w.publishChanges(s); !r.Later || r.Sets[0].List || r.Sets[0].Changes != 10 {
				t.Errorf("round %d: PublishChanges = %+v, want the changes, and the list later", round, r)
			}
			calls := 0
			store.do = func(entry bool) {
				for again := 1; again > 0 || entry && again > -3; again-- {
					calls++
					for i := range 1 + calls%4*10 { // sometimes more than a part of the Change List has
						w.put(fmt.Sprintf("r%05d=round%d.%d", 5*i+1, round, calls))
					}
					w.pass([]time.Duration{time.Second, time.Minute, 3 * time.Hour}[(round+calls)%3])
					if r := w.publishChanges(s); r.Sets[0].List || r.Sets[0].Changes == 0 {
						t.Errorf("round %d: PublishChanges = %+v, want changes without a list", round, r)
					}
				}
			}
			r := w.publish(s)
			store.do = nil
			if store.others > 0 {
				t.Errorf("round %d: publication waited for %d documents of the list", round, store.others)
			}
			if calls < 3 {
				t.Errorf("round %d: %d documents of the list were written while changes could be published", round, calls)
			}
			if !r.Sets[0].List || !r.Written || r.Sets[0].Resources != int64(len(w.live)) {
				t.Errorf("round %d: Publish = %+v, want a list", round, r)
			}
			c := w.upToDate()
			index, _ := w.partsOf()
			if c.from.After(index.At.Time()) {
				t.Errorf("round %d: the list is as of %s, changes begin at %s", round, index.At, c.from)
			}
			if r.Later { // many have changed meanwhile
				w.publish(s)
			}
			if again := w.publish(s); again.Written || again.Later {
				t.Errorf("round %d: a second Publish = %+v, want nothing to do", round, again)
			}
			_, parts := w.partsOf()
			w.pass(3 * time.Hour)
			w.put(fmt.Sprintf("r%05d=later%d", 7, round))
			s = w.source() // which looks at all documents
			store.src = s
			w.publish(s)
			if got, want := w.names(mainSet+"resourcelist-"), slices.Sorted(slices.Values(locs(parts))); !compressed && !slices.Equal(got, want) {
				t.Errorf("round %d: %d parts are there, want the %d that the list names", round, len(got), len(want))
			}
		}
	}
}

// TestRandomChangesWhileListsAreWritten has changes of all kinds published at random
// while lists are written, with faults of the store and restarts. What readers find is
// whole and true after each step.
func TestRandomChangesWhileListsAreWritten(t *testing.T) {
	t.Parallel()
	apart := 0
	for seed := range uint64(rounds(12)) {
		random := rand.New(rand.NewPCG(seed, 23))
		w := newWorld(t, source.Options{
			MaxEntries: 5 + random.IntN(20), SmallSet: 1, Workers: 1,
			Keep: time.Duration(20+random.IntN(200)) * time.Hour, Grace: time.Duration(1+random.IntN(20)) * time.Hour,
		})
		seen := &immutability{TB: t, seen: make(map[string]string)}
		if random.IntN(2) == 0 {
			seen = nil // the archives grow
			w.opts.Sets = []source.Set{{Archive: &source.Archive{ResourceLists: &source.Retain{All: true, Every: 60 * time.Hour}, ChangeLists: &source.Retain{All: true}}}}
		}
		faults := faulty(w.docs, 0, false)
		store := &meanwhile{Store: faults}
		failing := *w
		failing.docs = store
		change := func() {
			where := random.IntN(150)
			for i := range random.IntN(30) {
				word := fmt.Sprintf("r%03d", where+i)
				if random.IntN(5) > 0 {
					word += fmt.Sprintf("=%d", random.Int())
				}
				w.put(word)
			}
		}
		var at time.Time // of the Resource List
		check := func(step int) {
			if c, err := crawlAll(reader(w.docs)); !errors.Is(err, errNothing) {
				if err == nil {
					err = c.check(w.past)
				}
				if err == nil && c.at.Before(at) {
					err = fmt.Errorf("the Resource List was as of %s, and is as of %s", at, c.at)
				}
				at = c.at
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			if seen != nil {
				seen.check(w.files())
			}
		}
		w.fill("r%03d", 150)
		restart := func() {
			store.src = failing.source()
		}
		restart()
		for step := range 20 {
			change()
			w.pass(time.Duration(random.IntN(40)) * time.Hour)
			store.do = func(bool) {
				if random.IntN(3) > 0 {
					return
				}
				apart++
				change()
				w.pass(time.Duration(random.IntN(30*60)) * time.Minute)
				_, _ = store.src.PublishChanges(t.Context()) // the store may fail
				check(step)
			}
			if random.IntN(2) == 0 {
				faults.Faults.Arm(1+random.IntN(60), faultMode(random.IntN(2), random.IntN(2) == 0))
			}
			_, err := store.src.Publish(t.Context())
			store.do = nil
			check(step)
			faults.Faults.Restart()
			if err != nil || random.IntN(5) == 0 {
				restart()
			}
			w.publish(store.src)
			if c, err := crawlAll(reader(w.docs)); err != nil || !maps.Equal(c.state, w.live) {
				t.Fatalf("seed %d, step %d: %v; the documents are not up to date", seed, step, err)
			}
			check(step)
		}
	}
	if apart < rounds(12)*10 {
		t.Errorf("changes were published %d times while a list was written", apart)
	}
}

// TestPublicationsAtOnce: Publish goes on in a goroutine of its own.
func TestPublicationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 1})
	w.fill("r%05d", 200)
	s := w.source()
	w.publish(s)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 {
		go func() {
			for ctx.Err() == nil {
				if _, err := s.Publish(ctx); err != nil && ctx.Err() == nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for round := range 40 {
		for i := range 30 {
			w.put(fmt.Sprintf("r%05d=%d", i*6, round))
		}
		w.pass(time.Hour)
		w.publishChanges(s)
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	w.pass(25 * time.Hour)
	w.put("r00000=last")
	if r := w.publish(s); !r.Sets[0].List || !maps.Equal(w.listed(), w.live) {
		t.Errorf("Publish = %+v; the list alone is not the present", r)
	}
	w.upToDate()
}

// TestListCannotBeWritten: changes are published although a large Resource List cannot be
// written; it is published when it can.
func TestListCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 1})
	store := &refusing{Store: w.docs}
	w.docs = store
	w.fill("r%05d", 200)
	s := w.source()
	w.publish(s)
	w.pass(25 * time.Hour)
	w.put("r00007=changed")
	store.refuse = true
	for range 2 {
		if _, err := s.Publish(t.Context()); !errors.Is(err, errFault) {
			t.Errorf("Publish = %v, want %v", err, errFault)
		}
		w.upToDate()
	}
	store.refuse = false
	if r := w.publish(s); !r.Sets[0].List || !maps.Equal(w.listed(), w.live) {
		t.Errorf("Publish = %+v; the list alone is not the present", r)
	}
}

// A refusing is a store that refuses documents of Resource Lists.
type refusing struct {
	blob.Store
	refuse bool
}

// Create implements [blob.Store].
func (r *refusing) Create(ctx context.Context, name string) (blob.Writer, error) {
	if r.refuse && strings.HasPrefix(name, mainSet+"resourcelist") {
		return nil, errFault
	}
	return r.Store.Create(ctx, name)
}
