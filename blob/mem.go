package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mem is a [Store] in memory. The zero value is ready to use. Unlike in a
// [Dir], a name may be a blob and a prefix of other names at once.
type Mem struct {
	mu    sync.RWMutex // guards blobs
	blobs map[string]memBlob
}

// A memBlob never changes once it is in the map.
type memBlob struct {
	data []byte
	mod  time.Time
}

func (b memBlob) info(name string) Info {
	return Info{Name: name, Size: int64(len(b.data)), ModTime: b.mod}
}

// Create begins a blob under name.
func (m *Mem) Create(ctx context.Context, name string) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !ValidName(name) {
		return nil, nameError("create", name, ErrName)
	}
	return &memWriter{store: m, name: name}, nil
}

// Commit makes the blobs visible, all at once.
func (m *Mem) Commit(ctx context.Context, ws ...Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, w := range ws {
		mw, ok := w.(*memWriter)
		if !ok || mw.store != m {
			return &CommitError{Done: 0, Name: w.Name(), Err: errStranger}
		}
		if mw.closed || slices.Contains(ws[:i], w) {
			return &CommitError{Done: 0, Name: w.Name(), Err: fs.ErrClosed}
		}
	}
	if m.blobs == nil {
		m.blobs = make(map[string]memBlob)
	}
	for _, w := range ws {
		mw := w.(*memWriter)
		mod := mw.mod
		if mod.IsZero() {
			mod = time.Now()
		}
		m.blobs[mw.name] = memBlob{data: mw.buf.Bytes(), mod: mod}
		mw.closed = true
	}
	return nil
}

// errStranger reports a Writer of another store: a bug of the caller that must
// not cost a blob.
var errStranger = errors.New("writer belongs to another store")

// Open opens a committed blob.
func (m *Mem) Open(ctx context.Context, name string) (Reader, error) {
	b, err := m.get(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	return memReader{bytes.NewReader(b.data), b.info(name)}, nil
}

// Stat describes a committed blob.
func (m *Mem) Stat(ctx context.Context, name string) (Info, error) {
	b, err := m.get(ctx, "stat", name)
	return b.info(name), err
}

func (m *Mem) get(ctx context.Context, op, name string) (memBlob, error) {
	if err := ctx.Err(); err != nil {
		return memBlob{}, err
	}
	if !ValidName(name) {
		return memBlob{}, nameError(op, name, ErrName)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[name]
	if !ok {
		return memBlob{}, nameError(op, name, ErrNotExist)
	}
	return b, nil
}

// Remove removes blobs.
func (m *Mem) Remove(ctx context.Context, names ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if !ValidName(name) {
			errs = append(errs, nameError("remove", name, ErrName))
			continue
		}
		delete(m.blobs, name)
	}
	return errors.Join(errs...)
}

// List yields the blobs whose names begin with prefix, as they were when the
// iteration began.
func (m *Mem) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.RLock()
		var found []Info
		for name, b := range m.blobs {
			if strings.HasPrefix(name, prefix) {
				found = append(found, b.info(name))
			}
		}
		m.mu.RUnlock()
		slices.SortStableFunc(found, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
		for _, info := range found {
			if err := ctx.Err(); err != nil {
				yield(Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

type memWriter struct {
	store  *Mem
	name   string
	buf    bytes.Buffer
	mod    time.Time
	closed bool
}

func (w *memWriter) Name() string           { return w.name }
func (w *memWriter) SetModTime(t time.Time) { w.mod = t }

// Rename implements [Renamer].
func (w *memWriter) Rename(name string) error {
	if !ValidName(name) {
		return nameError("rename", name, ErrName)
	}
	w.name = name
	return nil
}

func (w *memWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, nameError("write", w.name, fs.ErrClosed)
	}
	return w.buf.Write(p)
}

func (w *memWriter) Close() error {
	if !w.closed {
		w.closed, w.buf = true, bytes.Buffer{}
	}
	return nil
}

type memReader struct {
	*bytes.Reader
	info Info
}

func (r memReader) Info() Info { return r.info }
func (memReader) Close() error { return nil }

// WriteTo is bytes.Reader's, which io.Copy finds through embedding.
var _ io.WriterTo = memReader{}
