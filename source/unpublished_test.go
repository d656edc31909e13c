package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// A partial store cannot begin documents with the end of a name, while it fails.
type partial struct {
	blob.Store
	name  string
	fails bool
}

func (s *partial) Create(ctx context.Context, name string) (blob.Writer, error) {
	if s.fails && strings.HasSuffix(name, s.name) {
		return nil, errFault
	}
	return s.Store.Create(ctx, name)
}

// TestUnpublishedParts: parts of a Resource List that is not published, because writing it
// failed or because another one is, are removed at once.
func TestUnpublishedParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 20, SmallSet: 1, Workers: 1, Keep: 100 * time.Hour, Grace: 2 * time.Hour})
	docs := &partial{Store: w.docs, name: "/resourcelist.xml"}
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

// TestUnpublishedArchives: archives of a feed that is not published are removed at once.
func TestUnpublishedArchives(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 1})
	docs := &partial{Store: w.docs, name: "-000001.atom"} // the oldest archive, which is written last
	w.docs = docs
	w.fill("r%05d", 200)
	for _, fails := range []bool{true, false} {
		docs.fails = fails
		if _, err := w.source().Publish(context.Background()); errors.Is(err, errFault) != fails {
			t.Fatalf("fails: %v, Publish = %v", fails, err)
		}
		if got := len(w.names(mainSet + "feed-")); fails && got > 0 || !fails && got < 100 {
			t.Errorf("fails: %v, and %d archives are there", fails, got)
		}
		w.pass(time.Hour)
	}
	w.inFeed()
}
