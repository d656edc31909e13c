package source_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// A lateStore is a store that lists blobs only some time after they were committed.
type lateStore struct {
	blob.Store
	late map[string]bool // names that are not listed yet
}

func (s *lateStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix) {
			if !s.late[info.Name] && !yield(info, err) {
				return
			}
		}
	}
}

// TestLateListing has a store that lists new documents only after the next publication.
// Archives, lists and dumps are those of a store that lists them at once.
func TestLateListing(t *testing.T) {
	t.Parallel()
	run := func(late bool) (listed, closed []string) {
		retain := &source.Retain{All: true}
		d := newDumpWorld(t, source.Options{Grace: time.Hour}, source.Set{
			ChangeList:   source.ChangeList{Keep: 4 * time.Hour, Entries: 4},
			ResourceDump: &source.ResourceDump{Every: 3 * time.Hour, PackageEntries: 2},
			ChangeDump:   &source.ChangeDump{Every: time.Hour, PackageEntries: 3},
			Archive:      &source.Archive{ResourceLists: retain, ChangeLists: retain, ResourceDumps: retain, ChangeDumps: retain},
		})
		mem := d.docs
		store := &lateStore{Store: mem}
		d.docs = store
		s := d.source()
		known := make(map[string]bool)
		for i := range 24 {
			d.put(fmt.Sprintf("r%d=%d", i%7, i), fmt.Sprintf("s%d=%d", i%11, i))
			if i%9 == 8 {
				s = d.source()
			}
			d.publish(s)
			d.dump(s)
			d.docs = mem
			d.upToDate()
			d.holds(d.dumps())
			store.late = make(map[string]bool)
			for name := range d.files() {
				store.late[name] = late && !known[name]
				known[name] = true
			}
			d.docs = store
			d.pass(time.Hour)
		}
		d.docs = mem
		lists, dumps := d.crawlPast(), d.crawlDumpPast()
		return slices.Concat(lists.listed, dumps.listed), slices.Concat(lists.closed, dumps.closed)
	}
	wantListed, wantClosed := run(false)
	listed, closed := run(true)
	if len(listed) < 10 || !slices.Equal(listed, wantListed) {
		t.Errorf("lists and dumps in archives:\n%q, want\n%q", listed, wantListed)
	}
	if len(closed) < 10 || !slices.Equal(closed, wantClosed) {
		t.Errorf("Change Lists and Change Dumps in archives:\n%q, want\n%q", closed, wantClosed)
	}
}
