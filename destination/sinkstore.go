package destination

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/spill"
	"lockstep/resourcesync"
)

// SinkOptions configures a [SinkStore]. The zero value is ready to use.
type SinkOptions struct {
	Memory int64  // bytes of content that wait in memory; more waits in files; default DefaultSinkMemory
	Dir    string // where those files are created, which end with the process; default: the system's
}

// DefaultSinkMemory has space for many small records, or a large one.
const DefaultSinkMemory = 32 << 20

// A SinkStore is a [blob.Store] for [New] over a [Sink]. It holds content until the
// batch of the content is delivered.
type SinkStore struct {
	sink Sink
	opts SinkOptions
	room *spill.Room
	busy chan struct{}
}

var _ blob.Store = (*SinkStore)(nil)

// NewSinkStore returns a store whose Commits deliver to s.
func NewSinkStore(s Sink, o SinkOptions) *SinkStore {
	if o.Memory <= 0 {
		o.Memory = DefaultSinkMemory
	}
	return &SinkStore{sink: s, opts: o, room: spill.NewRoom(o.Memory, o.Dir), busy: make(chan struct{}, 1)}
}

// Forgetful marks a store that keeps nothing: the Journal alone is to be trusted.
func (s *SinkStore) Forgetful() {}

// Create returns a writer for content that is to be delivered.
func (s *SinkStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !blob.ValidName(name) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: blob.ErrName}
	}
	return &sinkWriter{Buffer: s.room.New(name), s: s, name: name}, nil
}

// Commit delivers the contents of the Writers.
func (s *SinkStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	if len(ws) == 0 {
		return ctx.Err()
	}
	batch := make([]Delivery, len(ws))
	for i, w := range ws {
		sw, ok := w.(*sinkWriter)
		if !ok || sw.s != s || sw.IsClosed() {
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
		return &SinkError{Err: err}
	}
	return nil
}

func gone(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: blob.ErrNotExist}
}

// Open fails: delivered content is not stored.
func (s *SinkStore) Open(_ context.Context, name string) (blob.Reader, error) {
	return nil, gone("open", name)
}

// Stat fails as Open does.
func (s *SinkStore) Stat(_ context.Context, name string) (blob.Info, error) {
	return blob.Info{}, gone("stat", name)
}

// Remove does nothing, because nothing is stored. Withdraw delivers deletions.
func (s *SinkStore) Remove(ctx context.Context, _ ...string) error { return ctx.Err() }

// List yields nothing.
func (s *SinkStore) List(context.Context, string) iter.Seq2[blob.Info, error] {
	return func(func(blob.Info, error) bool) {}
}

// A sinkWriter holds content until it is delivered.
type sinkWriter struct {
	*spill.Buffer
	s      *SinkStore
	name   string
	change Change
}

func (w *sinkWriter) Name() string         { return w.name }
func (w *sinkWriter) SetModTime(time.Time) {} // it is in the Change
func (w *sinkWriter) Describe(c Change)    { w.change = c }

// Scratch implements [blob.Scratcher].
func (s *SinkStore) Scratch(ctx context.Context) (blob.Scratch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := spill.Create(s.opts.Dir, "lockstep-scratch-*")
	if err != nil {
		return nil, err
	}
	return f, nil
}
