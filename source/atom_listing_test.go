package source_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/source"
)

// TestAtomLateListing has a store that lists new archives late. The feed is not built again
// for it, and archives of a feed that was replaced stay for the grace period.
func TestAtomLateListing(t *testing.T) {
	t.Parallel()
	const prefix = "resourcesync/main/feed-"
	w := atomWorld(t, source.Atom{Entries: 2})
	mem := w.docs
	store := &lateStore{Store: mem, late: make(map[string]bool)}
	archives := func() []string {
		w.docs = mem
		defer func() { w.docs = store }()
		return w.names(prefix)
	}
	w.docs = store
	s := w.source()
	var before []string
	for i := range 12 {
		w.put(fmt.Sprintf("r%d=%d", i, i))
		w.publish(s)
		w.pass(2 * time.Minute) // the next publication looks at all documents
		if i%5 == 4 {
			s = w.source()
		}
		now := archives()
		if i > 0 && len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
			t.Fatalf("archives %q after %q: the feed was built again", now, before)
		}
		for _, name := range now { // what the last publication wrote
			store.late[name] = !slices.Contains(before, name)
		}
		before = now
	}
	if len(before) < 4 {
		t.Fatalf("archives %q", before)
	}
	w.inFeed()

	for _, name := range before {
		store.late[name] = true
	}
	w.opts.Sets[0].Atom.ID = "https://data.example.org/another-feed"
	s = w.source()
	w.publish(s) // replaces them
	w.pass(2 * time.Minute)
	clear(store.late)
	w.publish(s)
	if now := archives(); !slices.Equal(now[:min(len(before), len(now))], before) {
		t.Errorf("archives %q, want also those that were replaced a moment ago, %q", now, before)
	}
	w.pass(3 * time.Hour) // more than the grace period
	w.publish(s)
	if now := archives(); slices.Contains(now, before[0]) {
		t.Errorf("archives %q, want none of those that were replaced long ago", now)
	}
}
