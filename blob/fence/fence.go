// Package fence lets several processes take turns in writing to one store. The holder of a lease
// writes each blob only in place of the version that it has seen, and only after it has made sure
// that it still holds the lease: a former holder, however long it was paused, replaces nothing that
// its successor has written.
//
// # Why both
//
// A process may be paused between looking at its lease and writing. What it then writes reaches the
// store when another process holds the lease. The condition refuses it if the successor has written
// the blob since. If not, it is as if the write had happened before the lease was lost: the
// successor, which expects the version that it read, gets a conflict at its next write. It has to
// begin again from what is there.
//
// A version that was seen after the lease was lost could be one of the successor. It does no harm,
// because the lease is looked at after it was seen.
package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"

	"lockstep/blob"
)

// A Base is a store whose Writers are [blob.Conditional] and [blob.Versioned], and whose Infos
// have versions.
type Base interface {
	blob.Store
	blob.Sweeper
	blob.BatchStater
	io.Closer
}

// A Store is a Base that one process at a time changes. It is safe for concurrent use.
type Store struct {
	base     Base
	check    func(context.Context) error
	conflict func(error)

	mu   sync.Mutex        // guards seen
	seen map[string]string // the first version that was seen of a blob, or the one written here; "": there was none
}

// maxSeen is how many versions are known at a time: more than a Source has documents.
const maxSeen = 1 << 17

var (
	_ blob.Store       = (*Store)(nil)
	_ blob.Sweeper     = (*Store)(nil)
	_ blob.BatchStater = (*Store)(nil)
)

// New returns a Store that calls check before each change: it fails unless this process
// holds the lease. The Store must be new when the process gets the lease. conflict is called when
// another process turns out to have written a blob: nothing that was read from the Store before may
// be relied on any more, and the caller should use a new one.
func New(base Base, check func(context.Context) error, conflict func(error)) *Store {
	return &Store{base: base, check: check, conflict: conflict, seen: make(map[string]string)}
}

// see records the version of a blob, unless one is known.
func (s *Store) see(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[name]; !ok {
		s.know(name, version)
	}
}

// wrote records the version of a blob that this process has written.
func (s *Store) wrote(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" { // the service did not say
		delete(s.seen, name)
		return
	}
	s.know(name, version)
}

// know records a version. Its caller holds the lock.
func (s *Store) know(name, version string) {
	if len(s.seen) >= maxSeen {
		clear(s.seen) // each is looked at again before it is replaced
	}
	s.seen[name] = version
}

// forget forgets all versions: those that remain may be of an earlier moment than the next ones.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
}

// expected returns the version that a new one of a blob replaces.
func (s *Store) expected(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	version, ok := s.seen[name]
	s.mu.Unlock()
	if ok {
		return version, nil
	}
	info, err := s.base.Stat(ctx, name)
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return "", err
	}
	s.see(name, info.Version)
	return info.Version, nil
}

// Exists reports whether there was a blob when this process has first seen or has last written it.
func (s *Store) Exists(ctx context.Context, name string) (bool, error) {
	version, err := s.expected(ctx, name)
	return version != "", err
}

// Open implements [blob.Store].
func (s *Store) Open(ctx context.Context, name string) (blob.Reader, error) {
	r, err := s.base.Open(ctx, name)
	switch {
	case err == nil:
		s.see(name, r.Info().Version)
	case errors.Is(err, blob.ErrNotExist):
		s.see(name, "")
	}
	return r, err
}

// Stat implements [blob.Store].
func (s *Store) Stat(ctx context.Context, name string) (blob.Info, error) {
	info, err := s.base.Stat(ctx, name)
	if err == nil || errors.Is(err, blob.ErrNotExist) {
		s.see(name, info.Version) // "" of what does not exist
	}
	return info, err
}

// StatAll implements [blob.BatchStater]. Its versions may be those of a listing, which may be late:
// they are not recorded.
func (s *Store) StatAll(ctx context.Context, names []string, each func(i int, info blob.Info, err error)) error {
	return s.base.StatAll(ctx, names, each)
}

// List implements [blob.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return s.base.List(ctx, prefix)
}

// Create implements [blob.Store]. What is written takes no name before Commit.
func (s *Store) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.base.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &writer{Writer: w, store: s}, nil
}

// A writer is one of the base, and knows whether it is open.
type writer struct {
	blob.Writer
	store  *Store
	closed bool
}

// Close implements [io.Closer].
func (w *writer) Close() error {
	w.closed = true
	return w.Writer.Close()
}

var errStranger = errors.New("writer belongs to another store")

// writers returns the Writers as those of s, after checking that all are open and none is given twice.
func (s *Store) writers(ws []blob.Writer) ([]*writer, error) {
	ours := make([]*writer, len(ws))
	for i, bw := range ws {
		w, ok := bw.(*writer)
		if !ok || w.store != s {
			return nil, &blob.CommitError{Name: bw.Name(), Err: errStranger}
		}
		if w.closed || slices.Contains(ours[:i], w) {
			return nil, &blob.CommitError{Name: w.Name(), Err: fs.ErrClosed}
		}
		ours[i] = w
	}
	return ours, nil
}

// Commit implements [blob.Store]. It fails with [blob.ErrConflict] if another process has written
// one of the blobs since this one has first seen it.
func (s *Store) Commit(ctx context.Context, ws ...blob.Writer) error {
	ours, err := s.writers(ws)
	if err != nil {
		return err
	}
	for i, w := range ours {
		if err := s.commit(ctx, w); err != nil {
			var inner *blob.CommitError
			if errors.As(err, &inner) {
				err = inner.Err
			}
			return &blob.CommitError{Done: i, Name: w.Name(), Err: err}
		}
	}
	return nil
}

func (s *Store) commit(ctx context.Context, w *writer) error {
	c, ok := w.Writer.(blob.Conditional)
	v, versioned := w.Writer.(blob.Versioned)
	if !ok || !versioned {
		return fmt.Errorf("writer %T has no condition", w.Writer) // unreachable: those of a Base have
	}
	version, err := s.expected(ctx, w.Name())
	if err != nil {
		return err
	}
	c.Expect(version)
	if err := s.check(ctx); err != nil { // after the version was seen
		return err
	}
	if err := s.base.Commit(ctx, w.Writer); err != nil {
		s.forget() // the request may have arrived, although its answer did not
		if errors.Is(err, blob.ErrConflict) {
			s.conflict(err)
		}
		return err
	}
	w.closed = true
	s.wrote(w.Name(), v.Version())
	return nil
}

// Remove implements [blob.Store]. Removal has no condition: services offer none. What is removed
// must be something that no later holder of the lease writes again, or it must do no harm if it
// is missing until it is.
func (s *Store) Remove(ctx context.Context, names ...string) error {
	const batch = 100 // between two looks at the lease
	for len(names) > 0 {
		n := min(batch, len(names))
		if err := s.check(ctx); err != nil {
			return err
		}
		if err := s.base.Remove(ctx, names[:n]...); err != nil {
			s.forget()
			return err
		}
		for _, name := range names[:n] {
			s.wrote(name, "")
		}
		names = names[n:]
	}
	return nil
}

// Sweep implements [blob.Sweeper].
func (s *Store) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	return s.base.Sweep(ctx, keep)
}

// Close closes the base.
func (s *Store) Close() error { return s.base.Close() }
