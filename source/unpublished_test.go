package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// An entryless store cannot begin the entry document of a Resource List while it fails.
type entryless struct {
	blob.Store
	fails bool
}

func (s *entryless) Create(ctx context.Context, name string) (blob.Writer, error) {
	if s.fails && name == mainSet+"resourcelist.xml" {
		return nil, errFault
	}
	return s.Store.Create(ctx, name)
}

// TestUnpublishedParts: parts of a Resource List that is not published, because writing it
// failed or because another one is, are removed at once.
func TestUnpublishedParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 1, Workers: 1, Keep: 100 * time.Hour, Grace: 2 * time.Hour})
	docs := &entryless{Store: w.docs}
	store := &meanwhile{Store: docs}
	w.docs = store
	parts := func() []string { return w.names(mainSet + "resourcelist-") }
	s := w.source()
	store.src = s
	fails := func(when string, want []string) {
		t.Helper()
		docs.fails = true
		if _, err := s.Publish(context.Background()); !errors.Is(err, errFault) {
			t.Fatalf("%s: Publish = %v", when, err)
		}
		docs.fails = false
		if got := parts(); !slices.Equal(got, want) {
			t.Errorf("%s: parts %q are there, want %q", when, got, want)
		}
	}
	change := func() {
		w.pass(25 * time.Hour)
		for i := range 10 {
			w.put(fmt.Sprintf("r%05d=%v", 20*i, w.now()))
		}
	}
	w.fill("r%05d", 200)
	fails("the first list", nil)
	w.publish(s)
	first := parts()
	if len(first) < 10 {
		t.Fatalf("parts %q", first)
	}
	change()
	fails("a list beside changes", first)

	store.do = func(entry bool) { // the published list lacks a part: the publication writes another list
		if entry {
			if err := docs.Remove(context.Background(), first[0]); err != nil {
				t.Error(err)
			}
		}
	}
	w.publish(s)
	store.do = nil
	_, list := w.partsOf()
	for _, name := range parts() {
		if !slices.Contains(first, name) && !slices.Contains(locs(list), name) {
			t.Errorf("the part %s is there, of a list that was not published", name)
		}
	}
	w.upToDate()
}
