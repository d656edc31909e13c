package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"lockstep/blob"
)

// A chunkReader reads the chunks of one content from the blobs that have them.
type chunkReader struct {
	v      *Vault
	d      Digest
	t      *table
	open   []*opened
	stored []byte // buffer for a compressed chunk
}

// An opened is a blob that has chunks of a content.
type opened struct {
	source int // as in [chunk]
	r      blob.Reader
	moved  map[Digest]chunk // locations of its chunks, if they differ from the content's table
}

// maxOpen is how many blobs a Reader holds open.
const maxOpen = 32

// fetch reads a chunk into data and verifies it.
func (r *chunkReader) fetch(ctx context.Context, c *chunk, data []byte) error {
	err := r.fetchFrom(ctx, c, data)
	if err != nil && c.source > 0 {
		// The other blob may have been rewritten, with the chunk at another position,
		// which its table has.
		r.shut(c.source)
		err = r.fetchMoved(ctx, c, data)
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
	r.v.warn(ctx, err)
	return err
}

// fetchMoved reads a chunk from the position in the other blob's own table.
func (r *chunkReader) fetchMoved(ctx context.Context, c *chunk, data []byte) error {
	b, t, err := r.v.load(ctx, r.holder(c.source))
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
	return r.fetchFrom(ctx, c, data)
}

func (r *chunkReader) fetchFrom(ctx context.Context, c *chunk, data []byte) error {
	err := r.load(ctx, c, data)
	if err == nil && Digest(sha256.Sum256(data)) != c.digest {
		err = fmt.Errorf("%w: chunk %s has other bytes", errFormat, c.digest)
	}
	return err
}

// load reads a chunk into data without verifying it.
func (r *chunkReader) load(ctx context.Context, c *chunk, data []byte) error {
	o, err := r.blob(ctx, c.source)
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

// holder returns the name of the blob that has a chunk.
func (r *chunkReader) holder(source int) Digest {
	if source == 0 {
		return r.d
	}
	return r.t.sources[source-1]
}

// blob returns the blob with that number, and opens it if necessary.
func (r *chunkReader) blob(ctx context.Context, source int) (*opened, error) {
	for i, o := range r.open {
		if o.source == source {
			copy(r.open[1:i+1], r.open[:i])
			r.open[0] = o
			return o, nil
		}
	}
	b, err := r.v.store.Open(ctx, r.holder(source).name())
	if err != nil {
		return nil, err
	}
	return r.admit(&opened{source: source, r: b}), nil
}

// admit adds o to the open blobs, in place of the least recently used one.
func (r *chunkReader) admit(o *opened) *opened {
	if len(r.open) == maxOpen {
		_ = r.open[maxOpen-1].r.Close() // only read from
		r.open = r.open[:maxOpen-1]
	}
	r.open = slices.Insert(r.open, 0, o)
	return o
}

// shut closes the blob with that number.
func (r *chunkReader) shut(source int) {
	r.open = slices.DeleteFunc(r.open, func(o *opened) bool {
		if o.source == source {
			_ = o.r.Close() // only read from
		}
		return o.source == source
	})
}

func (r *chunkReader) shutAll() {
	for _, o := range r.open {
		_ = o.r.Close() // only read from
	}
	r.open = nil
}

// checkMagic checks the magic bytes, which nothing else covers.
func (r *chunkReader) checkMagic(ctx context.Context) error {
	o, err := r.blob(ctx, 0)
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
