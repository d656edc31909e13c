package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/destination/journal"
)

// partedSite is a site with a Resource List of three parts. The last part is sent when a
// resource that another part names was requested.
func partedSite(t *testing.T, st style) *site {
	st.listParts = 4
	s := newSite(t, st)
	for i := range 12 {
		s.put(fmt.Sprintf("/f%02d", i), fmt.Sprintf("content %d", i))
	}
	requested := make(chan struct{})
	var once sync.Once
	s.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/f0"):
			once.Do(func() { close(requested) })
		case r.URL.Path == "/rs/list-2":
			select {
			case <-requested:
			case <-time.After(time.Minute):
				t.Error("no resource was requested before the list had been read")
			}
		}
		return false
	}
	return s
}

// TestFetchesWhileReading: in the first run, resources are requested while parts of the
// Resource List are still being read, once each, and the report is the same.
func TestFetchesWhileReading(t *testing.T) {
	t.Parallel()
	s := partedSite(t, style{})
	m := newMirror(t, s)
	r := m.mustSync()
	if r.Created != 12 || r.Unchanged != 0 || r.Updated != 0 || r.Failed != 0 || r.By.Request != 12 {
		t.Errorf("%+v", r)
	}
	for i := range 12 {
		if path := fmt.Sprintf("/f%02d", i); s.got(path) != 1 {
			t.Errorf("%s was requested %d times", path, s.got(path))
		}
	}
	if r := m.mustSync(); r.Created+r.Updated+r.Deleted+r.By.Request != 0 {
		t.Errorf("again: %+v", r)
	}
}

// TestFetchedWhileReadingAndGone: what was fetched while the list was read, and has been
// deleted since the list was made, is removed, whatever its share of the mirror.
func TestFetchedWhileReadingAndGone(t *testing.T) {
	t.Parallel()
	s := partedSite(t, style{})
	s.mu.Lock()
	for _, path := range []string{"/rs/resourcelist.xml", "/rs/list-0", "/rs/list-1", "/rs/list-2"} { // as they were
		s.doc[path], _ = s.document(path)
	}
	gone := map[string][]byte{}
	for path, f := range s.files {
		gone[path] = f.data
	}
	delete(gone, "/f11")
	s.mu.Unlock()
	for path := range gone {
		s.del(path)
	}
	fault := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool { // they are still served
		_ = fault(w, r) // only waits
		text, ok := gone[r.URL.Path]
		if ok {
			_, _ = w.Write(text)
		}
		return ok
	})
	m := newMirror(t, s)
	r := m.mustSync()
	if got := len(m.files()); got != 1 || r.Failed != 0 {
		t.Errorf("%d files, %+v", got, r)
	}
}

// TestFailsWhileReading: a resource that cannot be fetched is reported once, whether or
// not it was requested while the list was read, and the others are fetched.
func TestFailsWhileReading(t *testing.T) {
	t.Parallel()
	s := partedSite(t, style{})
	fault := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/f01" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return fault(w, r)
	})
	m := newMirror(t, s)
	r, err := m.destination().Sync(context.Background(), m.address())
	if err == nil || r.Created != 11 || r.Failed != 1 || len(r.Failures) != 1 || r.Unchanged != 0 {
		t.Errorf("%v, %+v", err, r)
	}
	failed := 0
	for _, e := range m.events {
		if e.Kind == "failed" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d failures were emitted, want 1", failed)
	}
}

// A fullJournal has no room for rows, so many times.
type fullJournal struct {
	journal.Journal
	times atomic.Int64
}

func (j *fullJournal) Record(ctx context.Context, b journal.Batch) error {
	if len(b.Put) > 0 && j.times.Add(-1) >= 0 {
		return fmt.Errorf("write: %w", syscall.ENOSPC)
	}
	return j.Journal.Record(ctx, b)
}

// TestRowsWithoutRoomWhileReading: files whose rows could not be recorded for want of room, while
// the list was being read, are not taken for files of another program afterwards, whether or not
// the list could be read.
func TestRowsWithoutRoomWhileReading(t *testing.T) {
	t.Parallel()
	for _, times := range []int64{1, 2, 3} {
		for _, missing := range []bool{false, true} {
			s := partedSite(t, style{})
			m := newMirror(t, s)
			full := &fullJournal{Journal: m.journal}
			full.times.Store(times)
			m.journal = full
			waits := s.fault
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				_ = waits(w, r)
				if missing && r.URL.Path == "/rs/list-2" {
					w.WriteHeader(http.StatusNotFound)
					return true
				}
				return false
			})
			r, err := m.sync()
			switch {
			case r.Failed > 0:
				t.Errorf("%d times, %t: %v, %+v", times, missing, err, r)
			case missing && errors.Is(err, destination.ErrIncomplete), errors.Is(err, syscall.ENOSPC):
			case missing || err != nil || r.Created != 12 || r.Unchanged != 0:
				t.Errorf("%d times, %t: %v, %+v", times, missing, err, r)
			}
			full.times.Store(0)
			s.setFault(nil)
			if r := m.mustSync(); r.Failed > 0 {
				t.Errorf("then: %+v", r)
			}
		}
	}
}
