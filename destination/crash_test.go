package destination_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/destination"
)

// A fuse counts the calls that write, and fails from one of them on: once, or
// for good, as if the process had died there.
type fuse struct {
	at   int
	err  error
	once bool

	mu sync.Mutex // guards n
	n  int
}

var errCrash = errors.New("crashed")

func (f *fuse) blow() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.at > 0 && (f.n == f.at || f.n > f.at && !f.once) {
		return f.err
	}
	return nil
}

// A fusedStore is a Dir behind a fuse. A Commit can fail between any two blobs.
type fusedStore struct {
	*blob.Dir
	*fuse
}

func (s *fusedStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := s.blow(); err != nil {
		return nil, err
	}
	w, err := s.Dir.Create(ctx, name)
	return &fusedWriter{w, s.fuse}, err
}

func (s *fusedStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	for i, w := range ws {
		err := s.blow()
		if err == nil {
			if f, ok := w.(*fusedWriter); ok {
				w = f.Writer
			}
			err = s.Dir.Commit(ctx, w)
		}
		if err != nil {
			return &blob.CommitError{Done: i, Name: w.Name(), Err: err}
		}
	}
	return nil
}

func (s *fusedStore) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.blow(); err != nil {
			return err
		}
		if err := s.Dir.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *fusedStore) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	if err := s.blow(); err != nil {
		return 0, err
	}
	return s.Dir.Sweep(ctx, keep)
}

type fusedWriter struct {
	blob.Writer
	*fuse
}

func (w *fusedWriter) Write(p []byte) (int, error) {
	if err := w.blow(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

func (w *fusedWriter) Keep() error {
	if err := w.blow(); err != nil {
		return err
	}
	return w.Writer.(blob.Keeper).Keep()
}

type fusedJournal struct {
	destination.Journal
	*fuse
}

func (j *fusedJournal) Record(ctx context.Context, b destination.Batch) error {
	if err := j.blow(); err != nil {
		return err
	}
	return j.Journal.Record(ctx, b)
}

// faultPlaces yields the numbers of the writes that are to fail, without end.
func faultPlaces() iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 1 + rand.IntN(*faultStep); yield(at); at += *faultStep {
		}
	}
}

// TestFault lets writes fail in turn: for good, as if the process had
// died, or once, as a full disk does. The next run makes the mirror exact.
func TestFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		once bool
	}{{"crash", errCrash, false}, {"full disk", syscall.ENOSPC, false}, {"one write", syscall.EACCES, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for at := range faultPlaces() {
				if done := faultAt(t, &fuse{at: at, err: tt.err, once: tt.once}); done {
					return
				}
			}
		})
	}
}

// faultAt lives a short life with one fault in it, and reports whether it
// never came to that.
func faultAt(t *testing.T, f *fuse) (done bool) {
	t.Helper()
	s := newSite(t, style{})
	defer s.srv.Close()
	m := newMirror(t, s)
	dir, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	m.opts.MaxDelete, m.opts.Jobs = 100, 2
	plain, mem := m.store, m.journal
	m.store, m.journal = &fusedStore{dir, f}, &fusedJournal{mem, f}

	for i := range 6 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("one ", i))
	}
	_, err1 := m.sync()
	s.put("/d/f0", "two")
	s.put("/d/f1", "two, and longer")
	s.put("/new/f", "new")
	s.del("/d/f2")
	s.del("/d/f3")
	s.put("/d/f3/below", "a directory now")
	_, err2 := m.sync()
	if f.n < f.at {
		if err1 != nil || err2 != nil {
			t.Fatalf("without a fault: %v, %v", err1, err2)
		}
		return true
	}
	if err1 == nil && err2 == nil && !f.once {
		t.Fatalf("fault %d: no error", f.at)
	}
	m.store, m.journal = plain, mem
	r, err := m.sync()
	if err != nil {
		t.Fatalf("fault %d: next run: %v\n%+v", f.at, err, r)
	}
	m.same()
	if a := m.audit(); !a.InSync || a.Foreign > 0 {
		t.Fatalf("fault %d: %+v", f.at, a)
	}
	return false
}
