package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sort"
	"sync"

	"lockstep/blob"
)

// A Reader reads one content, which stays in the vault until the Reader is
// closed. All methods are safe for concurrent use, though concurrent calls of
// Read and Seek share one position.
type Reader struct {
	v   *Vault
	ctx context.Context // of Open: its methods have no context, and read from the store
	d   Digest
	t   *table

	mu     sync.Mutex // guards what follows; held while a chunk is read, because waiting readers may need the same one
	pos    int64
	chunk  int    // number of the one in data
	data   []byte // nil: none
	cost   int64  // what it takes of the vault's memory
	lent   bool   // its memory must be returned at once
	stored []byte // buffer for a compressed chunk
	open   []*opened
	closed bool
}

// An opened is a blob that has chunks of a content.
type opened struct {
	source int // as in [chunk]
	r      blob.Reader
	moved  map[Digest]chunk // locations of its chunks, if they differ from the content's table
}

// maxOpen is how many blobs a Reader holds open.
const maxOpen = 32

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
	return &Reader{v: v, ctx: ctx, d: d, t: t, open: []*opened{{r: b}}}, nil
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
	return r.checkMagic()
}

// checkMagic checks the magic bytes, which nothing else covers.
func (r *Reader) checkMagic() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.blob(0)
	if err != nil {
		return err
	}
	head := make([]byte, len(magic))
	err = readFull(o.r, head, 0)
	if err == nil && string(head) != magic {
		err = fmt.Errorf("%w: it begins with %q", errFormat, head)
	}
	if errors.Is(err, errFormat) {
		r.v.note(r.d)
		return &DamagedError{Digest: r.d, Blob: r.d.name(), Err: err}
	}
	return err
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
	r.shutAll()
	r.v.pins.unpin(r.d)
	return nil
}

func (r *Reader) shutAll() {
	for _, o := range r.open {
		_ = o.r.Close() // only read from
	}
	r.open = nil
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
		if r.cost, r.lent, err = r.v.room.take(r.ctx, int64(c.size)); err != nil {
			return err
		}
		data = make([]byte, 0, c.size)
	}
	r.data = nil
	err := r.fetch(c, data[:c.size])
	r.stored = nil // it may be as large
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

// fetch reads a chunk into data and verifies it.
func (r *Reader) fetch(c *chunk, data []byte) error {
	err := r.fetchFrom(c, data)
	if err != nil && c.source > 0 {
		// The other blob may have been rewritten, with the chunk at another position,
		// which its table has.
		r.shut(c.source)
		err = r.fetchMoved(c, data)
	}
	if err == nil {
		return nil
	}
	d := r.holder(c.source)
	if !errors.Is(err, errFormat) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrNotExist) {
		return fmt.Errorf("read content %s in %s: %w", r.d, d.name(), err)
	}
	r.v.note(d)
	r.v.note(r.d)
	err = &DamagedError{Digest: r.d, Blob: d.name(), Err: err}
	r.v.warn(r.ctx, err)
	return err
}

// holder returns the name of the blob that has a chunk.
func (r *Reader) holder(source int) Digest {
	if source == 0 {
		return r.d
	}
	return r.t.sources[source-1]
}

// fetchMoved reads a chunk from the position in the other blob's own table.
func (r *Reader) fetchMoved(c *chunk, data []byte) error {
	b, t, err := r.v.load(r.ctx, r.holder(c.source))
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		return damaged.Err
	}
	if err != nil {
		return err
	}
	moved := make(map[Digest]chunk)
	for _, other := range t.chunks {
		if other.source == 0 {
			moved[other.digest] = other
		}
	}
	r.admit(&opened{source: c.source, r: b, moved: moved})
	return r.fetchFrom(c, data)
}

func (r *Reader) fetchFrom(c *chunk, data []byte) error {
	err := r.load(c, data)
	if err == nil && Digest(sha256.Sum256(data)) != c.digest {
		err = fmt.Errorf("%w: chunk %s has other bytes", errFormat, c.digest)
	}
	return err
}

// load reads a chunk into data without verifying it.
func (r *Reader) load(c *chunk, data []byte) error {
	o, err := r.blob(c.source)
	if err != nil {
		return err
	}
	at := *c
	if o.moved != nil {
		if at = o.moved[c.digest]; at.size != c.size {
			return fmt.Errorf("%w: it has no chunk %s", errFormat, c.digest)
		}
	}
	if at.stored == at.size {
		return readFull(o.r, data, at.off)
	}
	r.stored = slices.Grow(r.stored[:0], at.stored)[:at.stored]
	if err := readFull(o.r, r.stored, at.off); err != nil {
		return err
	}
	return inflate(data, r.stored)
}

// blob returns the blob with that number, and opens it if necessary.
func (r *Reader) blob(source int) (*opened, error) {
	for i, o := range r.open {
		if o.source == source {
			copy(r.open[1:i+1], r.open[:i])
			r.open[0] = o
			return o, nil
		}
	}
	b, err := r.v.store.Open(r.ctx, r.holder(source).name())
	if err != nil {
		return nil, err
	}
	return r.admit(&opened{source: source, r: b}), nil
}

// admit adds o to the open blobs, in place of the least recently used one.
func (r *Reader) admit(o *opened) *opened {
	if len(r.open) == maxOpen {
		_ = r.open[maxOpen-1].r.Close() // only read from
		r.open = r.open[:maxOpen-1]
	}
	r.open = slices.Insert(r.open, 0, o)
	return o
}

// shut closes the blob with that number.
func (r *Reader) shut(source int) {
	r.open = slices.DeleteFunc(r.open, func(o *opened) bool {
		if o.source == source {
			_ = o.r.Close() // only read from
		}
		return o.source == source
	})
}
