package source_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

// An archiveWatch reads lists and archives after each step that others can see:
// at every moment they tell of the whole past, and what is archived stays as it
// is (RA-CHG-08, RA-GEN-09).
type archiveWatch struct {
	testing.TB
	w     *world
	read  func(name string) ([]byte, error)
	past  func(read func(name string) ([]byte, error)) (*pastCrawl, error)
	since time.Time
	seen  map[string]string
}

func (a *archiveWatch) look() error {
	p, err := a.past(a.read)
	if errors.Is(err, errNothing) || err == nil && (len(p.snapshots) == 0 || len(p.intervals) == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	if a.since.IsZero() {
		a.since = p.snapshots[0].at
	}
	if _, err := p.tells(a.w.past, a.since); err != nil {
		return err
	}
	for _, doc := range append(p.listed, p.closed...) {
		data, err := a.read(doc)
		if err != nil {
			return err
		}
		if old, ok := a.seen[doc]; ok && old != string(data) {
			return fmt.Errorf("%s has changed", doc)
		}
		a.seen[doc] = string(data)
	}
	return nil
}

// TestArchiveCrashAnywhere plays one history again and again, with a fault at
// the first, the second, … step of writing, as TestCrashAnywhere does: every
// change since the first publication is in the Change List or in its archive,
// always.
func TestArchiveCrashAnywhere(t *testing.T) {
	t.Parallel()
	forms := []source.ChangeList{{Keep: 3 * time.Hour}, {Keep: 3 * time.Hour, Rotate: time.Hour}}
	for form, list := range forms {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("form=%d crash=%v", form, crash), func(t *testing.T) {
				t.Parallel()
				stride := apart(34) // the more often, the longer: all is read after each step
				for failAt := 1 + 17*form; ; failAt += stride {
					if reached := playArchiveFault(t, list, failAt, crash); !reached {
						if failAt < 200 {
							t.Errorf("only %d steps", failAt)
						}
						return
					}
					if t.Failed() {
						t.Fatalf("with a fault at step %d", failAt)
					}
				}
			})
		}
	}
}

// watched is how many steps after a fault all is read after each.
const watched = 40

func playArchiveFault(t *testing.T, list source.ChangeList, failAt int, crash bool) (reached bool) {
	t.Helper()
	w := newWorld(t, archiving(source.Options{MaxEntries: 3, Grace: time.Hour}, list,
		source.Archive{ResourceLists: &source.Retain{All: true, Every: 2 * time.Hour}, ChangeLists: keepAll}))
	store := faulty(w.docs, failAt, crash)
	watch := &archiveWatch{TB: t, w: w, read: reader(w.docs), past: crawlPast, seen: make(map[string]string)}
	store.Faults.After = func() {
		if store.Faults.Steps() < failAt-1 || store.Faults.Steps() > failAt+watched {
			return // earlier runs were here, or later ones will be
		}
		if err := watch.look(); err != nil {
			t.Errorf("step %d: %v", store.Faults.Steps(), err)
		}
	}
	s := newFailingSource(w, store, failAt, crash)
	script := []string{"a=1 b=2", "c=3", "d=4 e=5", "a=2", "b c", "f=1 g=1 h=1 i=1 j=1 k=1", "a=3", "b=3 e", "", "c=4", "a=4"}
	for i := 0; i < len(script) && s.further > 0; i++ {
		if words := script[i]; words != "" {
			w.put(strings.Fields(words)...)
		}
		s.publish()
		if err := watch.look(); err != nil {
			t.Error(err)
		}
		w.pass(time.Hour)
		if i == 5 {
			w.pass(4 * time.Hour)
		}
	}
	return store.Faults.Steps() >= failAt
}

// TestDumpArchiveCrashAnywhere does the same for dumps.
func TestDumpArchiveCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, parts := range []int{0, 2} {
		t.Run(fmt.Sprintf("parts=%d", parts), func(t *testing.T) {
			t.Parallel()
			stride := apart(45)
			for failAt := 1; ; failAt += stride {
				if reached := playDumpArchiveFault(t, parts, failAt); !reached {
					if failAt < 200 {
						t.Errorf("only %d steps", failAt)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("with a fault at step %d", failAt)
				}
			}
		})
	}
}

func playDumpArchiveFault(t *testing.T, parts, failAt int) (reached bool) {
	t.Helper()
	d := newDumpWorld(t, source.Options{MaxEntries: parts, Grace: time.Hour, Workers: 1}, source.Set{
		ChangeList:   source.ChangeList{Keep: 3 * time.Hour},
		ResourceDump: &source.ResourceDump{Every: 3 * time.Hour, PackageEntries: 2},
		ChangeDump:   &source.ChangeDump{Every: time.Hour, PackageEntries: 3},
		Archive:      &source.Archive{ResourceDumps: keepAll, ChangeDumps: keepAll},
	})
	store := faulty(d.docs, failAt, true)
	watch := &archiveWatch{TB: t, w: d.world, read: reader(d.docs), past: crawlDumpPast, seen: make(map[string]string)}
	store.Faults.After = func() {
		if store.Faults.Steps() < failAt-1 || store.Faults.Steps() > failAt+watched {
			return // earlier runs were here, or later ones will be
		}
		if err := watch.look(); err != nil {
			t.Errorf("step %d: %v", store.Faults.Steps(), err)
		}
	}
	faulty := *d.world
	faulty.docs = store
	s := faulty.source()
	publish := func() error {
		if _, err := s.Publish(context.Background()); err != nil {
			return err
		}
		_, err := s.PublishDumps(context.Background())
		return err
	}
	further := 2
	for i, words := range []string{"a=1 b=2 c=3", "d=4 e=5 b=3", "a=2 c", "f=1 g=1 h=1", "", "a=3 b e", "i=1", "j=1", "a=4", "k=1 l=1", ""} {
		if words != "" {
			d.put(strings.Fields(words)...)
		}
		if err := publish(); err != nil {
			if !errors.Is(err, errFault) {
				t.Errorf("publish = %v", err)
			}
			store.Faults.After()
			store.Faults.Restart()
			s = faulty.source()
			d.pass(time.Minute)
			if err := publish(); err != nil {
				t.Errorf("publish after the fault = %v", err)
			}
		}
		if err := watch.look(); err != nil {
			t.Error(err)
		}
		if store.Faults.Steps() >= failAt {
			if further--; further == 0 {
				break
			}
		}
		d.pass(61 * time.Minute)
		if i == 4 {
			d.pass(4 * time.Hour)
		}
	}
	return store.Faults.Steps() >= failAt
}
