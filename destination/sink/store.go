package sink

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/spill"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// Options configures a [Store]. The zero value is ready to use.
type Options struct {
	Memory int64  // bytes of content that wait in memory; more waits in files; default DefaultMemory
	Dir    string // where those files are created, which end with the process; default: the system's

	// DescriptionsOnly has the Sink receive no content, and none is fetched: rows of the
	// Journal have the length and hashes that the Source states. Created and updated
	// resources go to a [Describer]; deletions go to Apply.
	DescriptionsOnly bool
}

// DefaultMemory has space for many small records, or a large one.
const DefaultMemory = 32 << 20

// A Store is a [blob.Store] for a Destination over a [Sink]. It holds content until the
// batch of the content is delivered.
type Store struct {
	sink Sink
	opts Options
	room *spill.Room
	busy chan struct{}
}

var _ blob.Store = (*Store)(nil)

// NewStore returns a store whose Commits deliver to s.
func NewStore(s Sink, o Options) *Store {
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	return &Store{sink: s, opts: o, room: spill.NewRoom(o.Memory, o.Dir), busy: make(chan struct{}, 1)}
}

// Forgetful marks a store that keeps nothing: the Journal alone is to be trusted.
func (s *Store) Forgetful() {}

// DescriptionsOnly reports whether the Sink receives no content.
func (s *Store) DescriptionsOnly() bool { return s.opts.DescriptionsOnly }

// Create returns a writer for content that is to be delivered.
func (s *Store) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !blob.ValidName(name) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: blob.ErrName}
	}
	return &writer{Buffer: s.room.New(name), s: s, name: name}, nil
}

// Commit delivers the contents of the Writers.
func (s *Store) Commit(ctx context.Context, ws ...blob.Writer) error {
	if len(ws) == 0 {
		return ctx.Err()
	}
	batch := make([]Delivery, len(ws))
	for i, w := range ws {
		sw, ok := w.(*writer)
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
func (s *Store) Withdraw(ctx context.Context, deleted []report.Change) error {
	batch := make([]Delivery, len(deleted))
	for i, c := range deleted {
		c.Kind = resourcesync.Deleted
		batch[i] = Delivery{Change: c}
	}
	return s.apply(ctx, batch)
}

// Redescribe delivers changes of resources whose content is the same to a Sink that
// takes them.
func (s *Store) Redescribe(ctx context.Context, batch []report.Change) error {
	d, ok := s.sink.(Describer)
	if !ok {
		return nil
	}
	return s.alone(ctx, func() error { return d.Describe(ctx, batch) })
}

// apply hands a batch to the sink.
func (s *Store) apply(ctx context.Context, batch []Delivery) error {
	return s.alone(ctx, func() error { return s.sink.Apply(ctx, batch) })
}

// alone calls the sink while no other call is in progress.
func (s *Store) alone(ctx context.Context, call func() error) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return &report.SinkError{Err: err}
	}
	return nil
}

func gone(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: blob.ErrNotExist}
}

// Open fails: delivered content is not stored.
func (s *Store) Open(_ context.Context, name string) (blob.Reader, error) {
	return nil, gone("open", name)
}

// Stat fails as Open does.
func (s *Store) Stat(_ context.Context, name string) (blob.Info, error) {
	return blob.Info{}, gone("stat", name)
}

// Remove does nothing, because nothing is stored. Withdraw delivers deletions.
func (s *Store) Remove(ctx context.Context, _ ...string) error { return ctx.Err() }

// List yields nothing.
func (s *Store) List(context.Context, string) iter.Seq2[blob.Info, error] {
	return func(func(blob.Info, error) bool) {}
}

// A writer holds content until it is delivered.
type writer struct {
	*spill.Buffer
	s      *Store
	name   string
	change report.Change
}

func (w *writer) Name() string             { return w.name }
func (w *writer) SetModTime(time.Time)     {} // the description has it
func (w *writer) Describe(c report.Change) { w.change = c }

// Scratch implements [blob.Scratcher].
func (s *Store) Scratch(ctx context.Context) (blob.Scratch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := spill.Create(s.opts.Dir, "lockstep-scratch-*")
	if err != nil {
		return nil, err
	}
	return f, nil
}
