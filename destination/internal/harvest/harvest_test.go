package harvest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/harvest"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/internal/representation"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// A feed is the memory of a feed whose entries arrive in pages: each Update reads one.
type feed struct {
	pages   []string // the changes of a page, as "+1 -2"
	read    int
	err     error // of the last Update
	applied []int64
}

func (f *feed) Update(context.Context, bool) (more bool, err error) {
	if f.read < len(f.pages) {
		f.read++
	}
	if f.read < len(f.pages) {
		return true, nil
	}
	return false, f.err
}

func (f *feed) changes() []resourcesync.Entry {
	var all []resourcesync.Entry
	for _, change := range strings.Fields(strings.Join(f.pages[:f.read], " ")) {
		e := resourcesync.Entry{Loc: "http://a.example/" + change[1:]}
		e.Change, e.Datetime = resourcesync.Updated, resourcesync.NewDatetime(time.Unix(1e9+int64(len(all)), 0))
		if change[0] == '-' {
			e.Change = resourcesync.Deleted
		}
		all = append(all, e)
	}
	return all
}

func (f *feed) Status(context.Context) (harvest.Status, error) {
	whole := f.read == len(f.pages) && f.err == nil
	return harvest.Status{ID: "memory", Source: "feed", Seq: int64(len(f.changes())), Whole: whole, Complete: whole}, nil
}

func (f *feed) Entries(context.Context) iter.Seq2[resourcesync.Entry, error] {
	now := map[string]resourcesync.Entry{}
	for _, e := range f.changes() {
		if now[e.Loc] = e; e.Change == resourcesync.Deleted {
			delete(now, e.Loc)
		}
	}
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, e := range now {
			e.Change, e.Datetime = 0, resourcesync.Datetime{}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (f *feed) Changes(_ context.Context, after int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, e := range f.changes()[after:] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (f *feed) Open(context.Context, string, resourcesync.Hashes) (io.ReadCloser, error) {
	return nil, fs.ErrNotExist
}

func (f *feed) Applied(_ context.Context, changes, _ int64) error {
	f.applied = append(f.applied, changes)
	return nil
}

// run harvests a feed once and returns what was applied, each as "mode: resources", with
// "prune" where resources that are not listed are deleted.
func run(t *testing.T, f *feed, set *saved.Set) (applied, failures []string) {
	t.Helper()
	selects, err := selection.New(selection.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	j := &journal.Mem{}
	st := stage.New(j)
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r := &entries.Reader{Selects: selects, Pushed: func() *push.State { return nil }, Set: set, Stage: st,
		OnOpen: func(string) {}, Warn: func(string, string) {}, Fail: func(_ string, err error) { failures = append(failures, err.Error()) }}
	chooser := &representation.Chooser{Reader: r}
	h := &harvest.Run{Set: set, Origin: f, Chooser: chooser, Reader: r, Stage: st, Journal: j, Report: &counting.Report{}, Selection: selects.Key,
		Pending: &pending.Stager{Set: pending.Set{Journal: j, Number: set.Number}, Refuse: r.Refuse, Chooser: chooser},
		Stops:   func(err error) bool { return errors.Is(err, report.ErrRefused) }, Causes: func(err error) []error { return []error{err} },
		Undecided: func(context.Context) (bool, error) { return false, nil }, Decide: func(context.Context) error { return nil },
		Apply: func(ctx context.Context, w reconcile.Work) (bool, error) {
			text := w.Mode + ":"
			for e, err := range st.Resources(ctx) {
				if err != nil {
					return false, err
				}
				sign := "+"
				if e.Gone {
					sign = "-"
				}
				text += " " + sign + strings.TrimPrefix(e.URI, "http://a.example/")
			}
			if w.Prune {
				text += " prune"
			}
			if applied = append(applied, text); w.Done != nil {
				w.Done()
			}
			return false, nil
		}}
	if err := h.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return applied, failures
}

// TestHarvestDeletesOnceAllIsKnown applies the pages of a feed as they arrive; what the
// feed does not list is deleted at the end only (AP-CDL-01), and the next run applies
// the changes.
func TestHarvestDeletesOnceAllIsKnown(t *testing.T) {
	t.Parallel()
	f := &feed{pages: []string{"+1 +2", "+3 -2"}}
	set := &saved.Set{URI: "http://a.example/feed", Number: 1, Foreign: &discover.Foreign{Kind: discover.AtomPMH, URI: "http://a.example/feed"}}
	applied, failures := run(t, f, set)
	if want := []string{"baseline: +1 +2", "baseline: +1 -2 +3 prune"}; !slices.Equal(applied, want) || len(failures) > 0 {
		t.Errorf("first applied %q, want %q; failures %q", applied, want, failures)
	}
	f.pages = append(f.pages, "+4 -1")
	applied, failures = run(t, f, set)
	if want := []string{"incremental: -1 +4"}; !slices.Equal(applied, want) || len(failures) > 0 {
		t.Errorf("then applied %q, want %q; failures %q", applied, want, failures)
	}
	if want := []int64{0, 4, 6}; !slices.Equal(f.applied, want) {
		t.Errorf("reported as applied %d, want %d", f.applied, want)
	}
}

// TestHarvestDeletesNothingUnlessWhole applies what a feed is known to list if it could
// not be read to its end: absence then means nothing (AP-CDL-03), and everything is
// compared again by the next run.
func TestHarvestDeletesNothingUnlessWhole(t *testing.T) {
	t.Parallel()
	f := &feed{pages: []string{"+1"}, err: fmt.Errorf("get http://a.example/feed?page=2: status 503")}
	set := &saved.Set{URI: "http://a.example/feed", Number: 1, Foreign: &discover.Foreign{Kind: discover.AtomPMH, URI: "http://a.example/feed"}}
	applied, failures := run(t, f, set)
	if want := []string{"baseline: +1"}; !slices.Equal(applied, want) || len(failures) != 1 || set.Complete {
		t.Errorf("applied %q, want %q; failures %q, complete %t", applied, want, failures, set.Complete)
	}
	f.err = nil
	applied, failures = run(t, f, set)
	if want := []string{"baseline: +1 prune"}; !slices.Equal(applied, want) || len(failures) > 0 || !set.Complete {
		t.Errorf("then applied %q, want %q; failures %q, complete %t", applied, want, failures, set.Complete)
	}
}

// TestHarvestMemoryOfBefore compares everything if the memory is of before the position of the set, as after a restore:
// it gives the numbers up to the position to other changes.
func TestHarvestMemoryOfBefore(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{false, true} {
		set := &saved.Set{URI: "http://a.example/feed", Number: 1, Foreign: &discover.Foreign{Kind: discover.AtomPMH, URI: "http://a.example/feed"}}
		run(t, &feed{pages: []string{"+1 +2 +3"}}, set)
		if fresh { // a harvest was interrupted after the third change
			set.Harvest.Seq, set.Harvest.Fresh = 2, 3
		}
		f := &feed{pages: []string{"+1 +2", "+4 +3"}, read: 1}
		applied, failures := run(t, f, set)
		if want := []string{"baseline: +1 +2 +3 +4 prune"}; !slices.Equal(applied, want) || len(failures) > 0 {
			t.Errorf("applied %q, want %q; failures %q", applied, want, failures)
		}
		if h := set.Harvest; h.ID != "memory" || h.Seq != 4 || h.Fresh != 0 || !h.Known {
			t.Errorf("the position is %+v", h)
		}
	}
}
