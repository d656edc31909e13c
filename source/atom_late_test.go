package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// A delayedStore delays the next subscription document that is committed: it is on the way
// to the store when its publication has failed, and arrives just before the one after it,
// which is then refused, as another process has written since.
type delayedStore struct {
	blob.Store
	delay   bool
	delayed blob.Writer
}

var errDelayed = errors.New("the answer of the store is lost")

func (s *delayedStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.Store.Create(ctx, name)
	return keptWriter{w}, err
}

func (s *delayedStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	for _, w := range ws {
		w = w.(keptWriter).Writer
		switch late := s.delayed; {
		case w.Name() != feedName:
		case late != nil:
			s.delayed = nil
			return errors.Join(s.Store.Commit(ctx, late), blob.ErrConflict)
		case s.delay:
			s.delay, s.delayed = false, w
			return errDelayed
		}
		if err := s.Store.Commit(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// A keptWriter is not dropped when it is closed.
type keptWriter struct{ blob.Writer }

func (keptWriter) Close() error { return nil }

// TestAtomDocumentArrivesLate: a subscription document that arrives when another publication
// has begun leads to archives that exist, so that the feed after it states all deletions.
func TestAtomDocumentArrivesLate(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 2})
	mem := w.docs
	store := &delayedStore{Store: mem}
	w.docs = store
	s := w.source()
	for i := range 5 {
		for _, word := range []string{"old%d=1", "r%d=1", "old%d"} {
			w.put(fmt.Sprintf(word, i))
			w.publish(s)
			w.pass(time.Minute)
		}
	}
	mark, err := w.cat.Mark(context.Background(), w.set)
	if err == nil { // only the feed knows of the deletions now
		err = w.cat.Forget(context.Background(), w.set, catalog.Mark{Seq: mark.Seq, At: mark.At})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.put("a=1", "b=1", "c=1", "d=1")
	store.delay = true
	if _, err := s.Publish(context.Background()); !errors.Is(err, errDelayed) {
		t.Fatalf("Publish = %v", err)
	}
	w.pass(time.Minute)
	w.put("e=1")
	if _, err := w.source().Publish(context.Background()); !errors.Is(err, blob.ErrConflict) {
		t.Fatalf("Publish by another process = %v", err)
	}
	w.harvested() // the late document leads to archives that exist
	w.pass(time.Minute)
	s = w.source()
	w.publish(s)
	h := w.inFeed()
	for i := range 5 {
		if e := h.records[atompmh.RecordID(fmt.Sprintf("%sold%d", baseURL, i))]; e.Kind != atompmh.Deletion {
			t.Errorf("old%d: %+v, want its deletion", i, e)
		}
	}
	w.pass(3 * time.Hour) // more than the grace period
	w.put("f=1", "g=1", "h=1")
	w.publish(s)
	w.publish(w.source())
	if names, docs := w.names("resourcesync/main/feed-"), w.inFeed().docs; len(names) != docs-1 {
		t.Errorf("archives %q of a feed in %d documents", names, docs)
	}
}
