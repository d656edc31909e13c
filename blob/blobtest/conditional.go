package blobtest

import (
	"context"
	"iter"
	"strconv"
	"sync"

	"lockstep/blob"
)

// A Conditional is a store in memory with versions and conditions. It is safe for concurrent use.
type Conditional struct {
	*blob.Mem

	mu       sync.Mutex // guards versions; held while a blob is replaced
	last     int
	versions map[string]string
}

// NewConditional returns an empty store.
func NewConditional() *Conditional {
	return &Conditional{Mem: new(blob.Mem), versions: map[string]string{}}
}

type conditionalWriter struct {
	blob.Writer
	expected, version string
}

func (w *conditionalWriter) Expect(version string) { w.expected = version }
func (w *conditionalWriter) Version() string       { return w.version }

type conditionalReader struct {
	blob.Reader
	version string
}

func (r *conditionalReader) Info() blob.Info {
	info := r.Reader.Info()
	info.Version = r.version
	return info
}

// Create implements [blob.Store].
func (s *Conditional) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.Mem.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &conditionalWriter{Writer: w}, nil
}

// Commit implements [blob.Store].
func (s *Conditional) Commit(ctx context.Context, ws ...blob.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, bw := range ws {
		w := bw.(*conditionalWriter)
		if s.versions[w.Name()] != w.expected {
			return &blob.CommitError{Done: i, Name: w.Name(), Err: blob.ErrConflict}
		}
		if err := s.Mem.Commit(ctx, w.Writer); err != nil {
			return err
		}
		s.last++
		w.version = strconv.Itoa(s.last)
		s.versions[w.Name()] = w.version
	}
	return nil
}

// Remove implements [blob.Store].
func (s *Conditional) Remove(ctx context.Context, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.versions, name)
	}
	return s.Mem.Remove(ctx, names...)
}

// Open implements [blob.Store].
func (s *Conditional) Open(ctx context.Context, name string) (blob.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.Mem.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &conditionalReader{r, s.versions[name]}, nil
}

// Stat implements [blob.Store].
func (s *Conditional) Stat(ctx context.Context, name string) (blob.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.Mem.Stat(ctx, name)
	info.Version = s.versions[name]
	return info, err
}

// StatAll implements [blob.BatchStater].
func (s *Conditional) StatAll(ctx context.Context, names []string, each func(i int, info blob.Info, err error)) error {
	for i, name := range names {
		info, err := s.Stat(ctx, name)
		each(i, info, err)
	}
	return nil
}

// Sweep implements [blob.Sweeper]: nothing is left unfinished in memory.
func (s *Conditional) Sweep(context.Context, iter.Seq[string]) (int, error) { return 0, nil }

// Close implements [io.Closer].
func (s *Conditional) Close() error { return nil }
