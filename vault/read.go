package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sort"
	"sync"
)

// A Reader reads one content, which stays in the vault until the Reader is
// closed. All methods are safe for concurrent use, though concurrent calls of
// Read and Seek share one position.
type Reader struct {
	v *Vault
	d Digest
	t *table

	// These two end when the context of Open does: methods have no context.
	fetch func(c *chunk, data []byte) error                   // reads a chunk and verifies it
	room  func(size int64) (cost int64, lent bool, err error) // takes memory of the vault

	mu     sync.Mutex // guards what follows; held while a chunk is read, because waiting readers may need the same one
	pos    int64
	chunk  int    // number of the one in data
	data   []byte // nil: none
	cost   int64  // what it takes of the vault's memory
	lent   bool   // its memory must be returned at once
	chunks chunkReader
	closed bool
}

// Open opens a content, or returns [fs.ErrNotExist]. Returned bytes are
// verified: for damaged data, Read returns a *[DamagedError] and no bytes. ctx
// applies to everything that is read from the Reader.
func (v *Vault) Open(ctx context.Context, d Digest) (*Reader, error) {
	sweeping, err := v.pins.pin(ctx, d, true)
	if err != nil {
		return nil, err
	}
	b, t, err := v.load(ctx, d)
	if err == nil {
		whole := t.kind == kindWhole
		if t.kind == kindShared {
			whole, err = v.sure(ctx, t, sweeping)
		}
		if err == nil && !whole {
			err = fmt.Errorf("content %s: %w", d, fs.ErrNotExist)
		}
		if err != nil {
			_ = b.Close() // only read from
		}
	}
	if err != nil {
		v.pins.unpin(d)
		v.warn(ctx, err)
		return nil, err
	}
	r := &Reader{v: v, d: d, t: t, chunks: chunkReader{v: v, d: d, t: t, open: []*opened{{r: b}}}}
	r.fetch = func(c *chunk, data []byte) error { return r.chunks.fetch(ctx, c, data) }
	r.room = func(size int64) (int64, bool, error) { return v.room.take(ctx, size) }
	return r, nil
}

// warn logs damage, because the caller who gets the error may be a stranger.
func (v *Vault) warn(ctx context.Context, err error) {
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		v.opts.Logger.ErrorContext(ctx, "a kept content is damaged", slog.String("content", damaged.Digest.String()),
			slog.String("blob", damaged.Blob), slog.Any("err", damaged.Err))
	}
}

// Verify reads a whole content and returns a *[DamagedError] if it is damaged,
// and [fs.ErrNotExist] if the vault does not have it.
func (v *Vault) Verify(ctx context.Context, d Digest) error {
	r, err := v.Open(ctx, d)
	if err != nil {
		return err
	}
	defer r.Close() // only read from
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return err
	}
	if got := Digest(sum.Sum(nil)); got != d {
		v.note(d)
		return &DamagedError{Digest: d, Blob: d.name(), Err: fmt.Errorf("%w: its digest is %s", errFormat, got)}
	}
	return r.chunks.checkMagic(ctx)
}

// Size returns the length of the content in bytes.
func (r *Reader) Size() int64 { return r.t.size }

// Read reads from the end of the last Read or Seek.
func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.readAt(p, r.pos)
	r.pos += int64(n)
	return n, err
}

// ReadAt implements [io.ReaderAt].
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 {
		return 0, fmt.Errorf("read content %s: %w: offset %d", r.d, fs.ErrInvalid, off)
	}
	n := 0
	for n < len(p) {
		m, err := r.readAt(p[n:], off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Seek implements [io.Seeker].
func (r *Reader) Seek(off int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		off += r.pos
	case io.SeekEnd:
		off += r.t.size
	}
	if off < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, fmt.Errorf("seek content %s: %w: offset %d", r.d, fs.ErrInvalid, off)
	}
	r.pos = off
	return off, nil
}

// Close releases the content.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.drop()
	r.chunks.shutAll()
	r.v.pins.unpin(r.d)
	return nil
}

// readAt reads from the chunk at off.
func (r *Reader) readAt(p []byte, off int64) (int, error) {
	switch {
	case r.closed:
		return 0, fmt.Errorf("read content %s: %w", r.d, fs.ErrClosed)
	case len(p) == 0:
		return 0, nil
	case off >= r.t.size:
		return 0, io.EOF
	}
	i := sort.Search(len(r.t.chunks), func(i int) bool { return r.t.chunks[i].at > off }) - 1
	if r.data == nil || r.chunk != i {
		// Directly into p, if all of it fits.
		c := &r.t.chunks[i]
		if off == c.at && len(p) >= c.size && c.stored == c.size {
			data := p[:c.size:c.size]
			if err := r.fetch(c, data); err != nil {
				clear(data) // it may be anything
				return 0, err
			}
			return c.size, nil
		}
		if err := r.turnTo(i); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.data[off-r.t.chunks[i].at:])
	if r.lent {
		r.drop()
	}
	return n, nil
}

// turnTo loads the chunk with that number into data.
func (r *Reader) turnTo(i int) error {
	c := &r.t.chunks[i]
	data := r.data[:0]
	if cap(data) < c.size || r.cost < int64(c.size) {
		r.drop()
		var err error
		if r.cost, r.lent, err = r.room(int64(c.size)); err != nil {
			return err
		}
		data = make([]byte, 0, c.size)
	}
	r.data = nil
	err := r.fetch(c, data[:c.size])
	r.chunks.stored = nil // it may be as large
	if err != nil {
		r.drop()
		return err
	}
	r.chunk, r.data = i, data[:c.size]
	return nil
}

// drop releases the current chunk.
func (r *Reader) drop() {
	r.v.room.give(r.cost, r.lent)
	r.data, r.cost, r.lent = nil, 0, false
}
