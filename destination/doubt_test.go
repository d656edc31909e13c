package destination_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
)

// A lostAnswer is a store whose first Commit of a name succeeds, and says that it has failed.
type lostAnswer struct {
	blob.Store
	name  string
	err   error
	after func()
}

func (s *lostAnswer) Commit(ctx context.Context, ws ...blob.Writer) error {
	i := slices.IndexFunc(ws, func(w blob.Writer) bool { return w.Name() == s.name })
	if i < 0 || s.after == nil {
		return s.Store.Commit(ctx, ws...)
	}
	if err := s.Store.Commit(ctx, ws[:i+1]...); err != nil {
		return err
	}
	s.after()
	s.after = nil
	return &blob.CommitError{Done: i, Name: s.name, Err: s.err}
}

var doubts = map[string]error{
	"the store":       fmt.Errorf("put: %w", blob.ErrUnavailable),
	"another process": &content.LocalError{Err: transfer.ErrGone},
}

// TestCommittedAfterAll: a content whose commit is said to have failed is there all the same, and the
// Source deletes its resource before it is fetched again. The mirror has it until the next run.
func TestCommittedAfterAll(t *testing.T) {
	t.Parallel()
	for name, err := range doubts {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, held %v", name, held), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{noHash: true})
				m := newMirror(t, s)
				s.put("/x", "x")
				if held {
					s.put("/y", "the old y")
				}
				m.mustSync()
				s.put("/y", "y")
				s.put("/z", "z")
				store := m.store
				m.store = &lostAnswer{store, "y", err, func() { s.del("/y") }}
				r, _ := m.sync() // it may fail
				m.store = store
				m.mustSync()
				if intent, err := m.journal.Load(t.Context(), saved.DocIntent); err != nil || intent != nil {
					t.Errorf("the Journal still has an intent: %q, %v", intent, err)
				}
				if n := r.Failed; n > 1 {
					t.Errorf("%d resources have failed", n)
				}
			})
		}
	}
}

// TestCommittedBeforeTheEnd: the run is interrupted before such a content is fetched again. The next
// run knows that the file belongs to the mirror.
func TestCommittedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	s.put("/x", "x")
	m.mustSync()
	s.put("/y", "y")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store := m.store
	m.store = &lostAnswer{store, "y", doubts["another process"], func() {
		s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/y" {
				cancel()
			}
			return false
		})
	}}
	if _, err := m.destination().Sync(ctx, m.address()); err == nil {
		t.Fatal("the run was not interrupted")
	}
	m.store = store
	s.setFault(nil)
	s.del("/y")
	m.mustSync()
}

// A noRoomFor is a Journal that has no room for one intent that names a resource.
type noRoomFor struct {
	journal.Journal
	uri  string
	full *atomic.Bool
}

func (j *noRoomFor) Record(ctx context.Context, b journal.Batch) error {
	if bytes.Contains(b.Save[saved.DocIntent], []byte(j.uri)) && j.full.CompareAndSwap(true, false) {
		return fmt.Errorf("record: %w", syscall.ENOSPC)
	}
	return j.Journal.Record(ctx, b)
}

// TestCommittedAndNotReplaced: such a content is fetched again, and there is no room for what was to
// replace it. The mirror knows that the file is there all the same.
func TestCommittedAndNotReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	m := newMirror(t, s)
	s.put("/x", "x")
	m.mustSync()
	s.put("/y", "y")
	store, j, full := m.store, m.journal, &atomic.Bool{}
	m.store = &lostAnswer{store, "y", doubts["another process"], func() {
		s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/y" {
				full.Store(true)
			}
			return false
		})
	}}
	m.journal = &noRoomFor{j, s.url("/y"), full}
	if _, err := m.sync(); err == nil || full.Load() {
		t.Fatalf("the content was replaced: %v", err)
	}
	m.store, m.journal = store, j
	s.setFault(nil)
	s.del("/y")
	m.mustSync()
}
