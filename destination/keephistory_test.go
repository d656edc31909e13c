package destination_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
)

var (
	keepLives = flag.Int("keep.lives", 8, "how many lives TestKeepHistories leads")
	keepSeed  = flag.Uint64("keep.seed", 0, "the one life TestKeepHistories leads; 0 for others each time")
)

// TestKeepHistories runs random histories of a mirror that keeps versions by any
// policy, with runs that are broken off at any write. After each completed run the
// states after all earlier completed runs are known, as far as the policy goes.
func TestKeepHistories(t *testing.T) {
	t.Parallel()
	if *keepSeed != 0 {
		newKeepLife(t, *keepSeed).live()
		return
	}
	for range *keepLives {
		newKeepLife(t, rand.Uint64()).live()
	}
}

// A keepLife is a mirror and its past states.
type keepLife struct {
	*keeping
	*rand.Rand
	seed  uint64
	trace []string
	time  time.Time
	were  []wasThen
	moved map[string][]time.Time // when a resource changed, or a run that may have noted so was broken off
}

type wasThen struct {
	at    time.Time
	files map[string]string
}

func newKeepLife(t *testing.T, seed uint64) *keepLife {
	l := &keepLife{Rand: rand.New(rand.NewPCG(seed, 7)), seed: seed, moved: map[string][]time.Time{}}
	keeps := []destination.Keep{{All: true}, {Count: 1 + l.IntN(3)}, {Age: time.Duration(1+l.IntN(5)) * time.Hour}}
	l.keeping = newKeeping(t, newSite(t, style{noHash: l.IntN(3) == 0}), keeps[l.IntN(len(keeps))])
	l.opts.Versions = &blob.Mem{}
	l.time = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	l.clock = func() time.Time {
		l.time = l.time.Add(time.Millisecond)
		return l.time
	}
	l.opts.AllVersions = l.IntN(4) == 0
	l.opts.Jobs = 2
	l.tracef("keep %+v, style %+v", l.opts.Keep, l.site.style)
	return l
}

func (l *keepLife) tracef(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

func (l *keepLife) fail(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf("-keep.seed %d\n%s\n%s", l.seed, strings.Join(l.trace, "\n"), fmt.Sprintf(format, args...))
}

func (l *keepLife) live() {
	defer l.site.srv.Close()
	for range 3 + l.IntN(8) {
		l.change()
		l.time = l.time.Add(time.Duration(l.IntN(90)) * time.Minute)
		if l.IntN(3) == 0 {
			l.breakOff()
			if l.IntN(2) == 0 {
				l.change()
			}
		}
		r, err := l.keeping.at()
		if err == nil && r.NotKept > 0 {
			err = fmt.Errorf("%d not kept", r.NotKept)
		}
		if err != nil {
			l.fail("%v: %+v", err, r.Failures)
		}
		l.same()
		l.were = append(l.were, wasThen{l.clock(), l.resources()})
		l.tracef("run until %s: %s", l.time.Format(time.TimeOnly), counts(r))
		for i := range l.were {
			l.check(&l.were[i])
		}
	}
}

func (l *keepLife) change() {
	paths := []string{"/a", "/b", "/c/d", "/g", "/c/e", "/f"}
	for range l.IntN(5) {
		path := paths[l.IntN(len(paths))]
		if l.IntN(3) == 0 {
			l.site.del(path)
		} else {
			data := fmt.Sprintf("content %d", l.IntN(12))
			l.site.put(path, data)
			l.tracef("put %s %s", path, data)
		}
		l.moves(path)
	}
}

func (l *keepLife) moves(path string) {
	name := strings.TrimPrefix(path, "/")
	l.moved[name] = append(l.moved[name], l.time)
}

// breakOff begins a run that is broken off at one of its writes.
func (l *keepLife) breakOff() {
	f := &faultfs.Faults{At: 1 + l.IntN(25)}
	plain, mem, versions := l.store, l.journal, l.opts.Versions
	dir, err := blob.NewDir(l.dir, blob.DirOptions{})
	if err != nil {
		l.fail("%v", err)
	}
	defer dir.Close()
	l.store, l.journal, l.opts.Versions = &faultfs.Dir{Dir: dir, Faults: f}, &journaltest.Faulty{Journal: mem, Faults: f}, &faultfs.Store{Store: versions, Faults: f}
	_, err = l.keeping.at()
	l.store, l.journal, l.opts.Versions = plain, mem, versions
	l.tracef("broken off at write %d: %v", f.At, err)
	if err == nil { // it was a whole run
		l.were = append(l.were, wasThen{l.clock(), l.resources()})
		return
	}
	for _, path := range []string{"/a", "/b", "/c/d", "/g", "/c/e", "/f"} {
		l.moves(path)
	}
}

// check checks that a past state is known.
func (l *keepLife) check(was *wasThen) {
	olds, since, err := l.destination().Past(l.t.Context(), was.at, 1)
	keep := l.opts.Keep
	if errors.Is(err, destination.ErrNoPast) {
		// By then the mirror was something else, and that is old enough.
		old := l.time.Add(-keep.Age)
		if keep.Age > 0 && since.After(was.at) && !since.After(old) {
			return
		}
	}
	if err != nil {
		l.fail("as of %s, since %s: %v", was.at, since, err)
	}
	known := map[string]bool{}
	for _, o := range olds {
		name := strings.TrimPrefix(o.URI, l.site.srv.URL+"/")
		known[name] = true
		want, there := was.files[name]
		switch {
		case !o.Known:
			after := slices.DeleteFunc(slices.Clone(l.moved[name]), func(t time.Time) bool { return t.Before(was.at) })
			if keep.Count == 0 || len(after) < keep.Count {
				l.fail("as of %s the state of %s is unknown, with %d changes since", was.at, name, len(after))
			}
		case !there:
			l.fail("as of %s there was no %s", was.at, name)
		case o.Err != nil || o.Content != want:
			l.fail("as of %s %s was %q, want %q: %v", was.at, name, o.Content, want, o.Err)
		}
	}
	for name := range was.files {
		if !known[name] {
			l.fail("as of %s there is no record of %s", was.at, name)
		}
	}
}
