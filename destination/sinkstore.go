package destination

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// SinkOptions configures a [SinkStore]. The zero value is ready to use.
type SinkOptions struct {
	Memory int64  // bytes of content that wait in memory; what is beyond waits in files; default DefaultSinkMemory
	Dir    string // where those files are made, which are gone with the process; default: the system's
}

// DefaultSinkMemory is room for many small records, or a large one.
const DefaultSinkMemory = 32 << 20

// A SinkStore is a [blob.Store] for [New] over a [Sink]. Content is kept until
// the batch it is part of is delivered, and then forgotten.
type SinkStore struct {
	sink Sink
	opts SinkOptions
	held atomic.Int64 // bytes of memory that writers have
	busy chan struct{}
}

var _ blob.Store = (*SinkStore)(nil)

// NewSinkStore returns a store whose Commits deliver to s.
func NewSinkStore(s Sink, o SinkOptions) *SinkStore {
	if o.Memory <= 0 {
		o.Memory = DefaultSinkMemory
	}
	return &SinkStore{sink: s, opts: o, busy: make(chan struct{}, 1)}
}

// Forgetful says that nothing is kept, and that the Journal is to be believed.
func (s *SinkStore) Forgetful() {}

// Create begins content that is to be delivered.
func (s *SinkStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !blob.ValidName(name) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: blob.ErrName}
	}
	return &sinkWriter{s: s, name: name}, nil
}

// Commit delivers what the Writers have.
func (s *SinkStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	if len(ws) == 0 {
		return ctx.Err()
	}
	batch := make([]Delivery, len(ws))
	for i, w := range ws {
		sw, ok := w.(*sinkWriter)
		if !ok || sw.s != s || sw.closed {
			return &blob.CommitError{Done: 0, Name: w.Name(), Err: fs.ErrClosed}
		}
		batch[i] = Delivery{sw.change, sw}
	}
	if err := s.apply(ctx, batch); err != nil {
		return err
	}
	for _, w := range ws {
		_ = w.Close() // there is nothing to lose
	}
	return nil
}

// Withdraw delivers deletions.
func (s *SinkStore) Withdraw(ctx context.Context, deleted []Change) error {
	batch := make([]Delivery, len(deleted))
	for i, c := range deleted {
		c.Kind = resourcesync.Deleted
		batch[i] = Delivery{Change: c}
	}
	return s.apply(ctx, batch)
}

// apply hands a batch to the sink, one at a time.
func (s *SinkStore) apply(ctx context.Context, batch []Delivery) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.sink.Apply(ctx, batch); err != nil {
		return &SinkError{err}
	}
	return nil
}

func gone(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: blob.ErrNotExist}
}

// Open fails: what was delivered is not here.
func (s *SinkStore) Open(_ context.Context, name string) (blob.Reader, error) {
	return nil, gone("open", name)
}

// Stat fails likewise.
func (s *SinkStore) Stat(_ context.Context, name string) (blob.Info, error) {
	return blob.Info{}, gone("stat", name)
}

// Remove does nothing: there is nothing. Deletions come by Withdraw.
func (s *SinkStore) Remove(ctx context.Context, _ ...string) error { return ctx.Err() }

// List yields nothing.
func (s *SinkStore) List(context.Context, string) iter.Seq2[blob.Info, error] {
	return func(func(blob.Info, error) bool) {}
}

// A sinkWriter keeps content in memory while there is room, else in a file
// that has no name any more.
type sinkWriter struct {
	s      *SinkStore
	name   string
	change Change
	mem    []byte
	file   *os.File
	named  bool // the file could not be unlinked while open
	size   int64
	closed bool
}

func (w *sinkWriter) Name() string         { return w.name }
func (w *sinkWriter) SetModTime(time.Time) {} // it is in the Change
func (w *sinkWriter) Describe(c Change)    { w.change = c }

func (w *sinkWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed}
	}
	if w.file == nil && !w.grow(len(w.mem)+len(p)) {
		if err := w.spill(); err != nil {
			return 0, fmt.Errorf("keep what is to be delivered: %w", err)
		}
	}
	if w.file == nil {
		w.mem = append(w.mem, p...)
		w.size += int64(len(p))
		return len(p), nil
	}
	n, err := w.file.Write(p)
	if w.size += int64(n); err != nil {
		return n, fmt.Errorf("keep what is to be delivered: %w", err)
	}
	return n, nil
}

const (
	firstSink = 4 << 10 // a record
	lastSink  = 1 << 20 // largest growth at a time
)

// grow makes room for size bytes in memory, if there may be so much.
func (w *sinkWriter) grow(size int) bool {
	have := cap(w.mem)
	if size <= have {
		return true
	}
	want := max(size, min(2*have, have+lastSink), firstSink)
	if w.s.held.Add(int64(want-have)) > w.s.opts.Memory {
		w.s.held.Add(int64(have - want))
		return false
	}
	w.mem = append(make([]byte, 0, want), w.mem...)
	return true
}

// spill moves what is in memory to a file.
func (w *sinkWriter) spill() error {
	f, err := os.CreateTemp(w.s.opts.Dir, "lockstep-delivery-*")
	if err != nil {
		return err
	}
	w.named = os.Remove(f.Name()) != nil
	w.file = f
	if _, err := f.Write(w.mem); err != nil {
		return err
	}
	w.s.held.Add(-int64(cap(w.mem)))
	w.mem = nil
	return nil
}

// Close gives memory and file back.
func (w *sinkWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.s.held.Add(-int64(cap(w.mem)))
	w.mem = nil
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	if w.named {
		_ = os.Remove(w.file.Name()) // of no use to anybody
	}
	return err
}

func (w *sinkWriter) reader() io.ReadSeeker {
	if w.file != nil {
		return io.NewSectionReader(w.file, 0, w.size)
	}
	return bytes.NewReader(w.mem)
}

// Scratch implements [blob.Scratcher].
func (s *SinkStore) Scratch(ctx context.Context) (blob.Scratch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(s.opts.Dir, "lockstep-scratch-*")
	if err != nil {
		return nil, err
	}
	return &sinkScratch{File: f, named: os.Remove(f.Name()) != nil}, nil
}

type sinkScratch struct {
	*os.File
	named bool
}

func (f *sinkScratch) Restart() error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func (f *sinkScratch) Close() error {
	err := f.File.Close()
	if f.named {
		_ = os.Remove(f.Name()) // of no use to anybody
	}
	return err
}
