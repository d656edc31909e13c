package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"lockstep/blob"
)

// A DamagedError reports a content that is no longer what it was.
type DamagedError struct {
	Digest Digest // the content that was asked for
	Blob   string // the name of the blob that is damaged, or missing
	Err    error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("content %s is damaged in %s: %v", e.Digest, e.Blob, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// load opens the blob of that name and reads its table. It fails with
// fs.ErrNotExist, or a DamagedError, or because the store does.
func (v *Vault) load(ctx context.Context, d Digest) (blob.Reader, *table, error) {
	r, err := v.store.Open(ctx, d.name())
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil, fmt.Errorf("content %s: %w", d, fs.ErrNotExist)
	}
	if err != nil {
		return nil, nil, err
	}
	t, err := readTable(r, d)
	if err != nil {
		_ = r.Close() // only read from
		if errors.Is(err, errFormat) {
			v.note(d)
			err = &DamagedError{Digest: d, Blob: d.name(), Err: err}
		}
		return nil, nil, err
	}
	return r, t, nil
}

// readTable reads the table at the end of a blob.
func readTable(r blob.Reader, d Digest) (*table, error) {
	size := r.Info().Size
	if size < int64(minSize) {
		return nil, fmt.Errorf("%w: it has %d bytes", errFormat, size)
	}
	tail := make([]byte, min(size-int64(len(magic)), tailFirst))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	n, err := tableSize(tail[len(tail)-footSize:], size)
	if err != nil {
		return nil, err
	}
	switch n += footSize; {
	case n <= int64(len(tail)):
		tail = tail[int64(len(tail))-n:]
	default:
		rest := make([]byte, n)
		part := rest[:n-int64(len(tail))]
		if err := readFull(r, part, size-n); err != nil {
			return nil, err
		}
		copy(rest[len(part):], tail)
		tail = rest
	}
	return parseTable(tail, d, size)
}

// readFull fills p. That there is not so much is errFormat.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends at %d", errFormat, off+int64(n))
	}
	return err
}

// note remembers a blob that is damaged, which is no help to anyone any more and
// is written anew when its content is put again.
func (v *Vault) note(d Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.damaged == nil {
		v.damaged = make(map[Digest]struct{})
	}
	if len(v.damaged) < maxDamaged {
		v.damaged[d] = struct{}{}
	}
}

// maxDamaged is how many damaged blobs are remembered.
const maxDamaged = 100_000

func (v *Vault) noted(d Digest) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, found := v.damaged[d]
	return found
}

func (v *Vault) healed(d Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.damaged, d)
}

// settled waits for a commit of d that is under way: what it has made visible may
// not be durable yet.
func (v *Vault) settled(ctx context.Context, d Digest) error {
	done, err := v.pins.claim(ctx, []Digest{d})
	if err == nil {
		done()
	}
	return err
}

// find pins d and returns its table, if the vault has all of the content as far
// as can be told without reading it. Else it returns nil, and whether there is
// something under the name: a remnant, or what is damaged.
func (v *Vault) find(ctx context.Context, d Digest, keep bool) (t *table, something bool, err error) {
	sweeping, err := v.pins.pin(ctx, d, keep)
	if err != nil {
		return nil, false, err
	}
	t, something, err = v.findPinned(ctx, d, sweeping)
	if err != nil && keep {
		v.pins.unpin(d)
	}
	return t, something, err
}

func (v *Vault) findPinned(ctx context.Context, d Digest, sweeping bool) (t *table, something bool, err error) {
	r, t, err := v.load(ctx, d)
	var damaged *DamagedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case errors.As(err, &damaged):
		v.opts.Logger.WarnContext(ctx, "a kept content is damaged", slog.String("blob", damaged.Blob), slog.Any("err", damaged.Err))
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	_ = r.Close() // only read from
	if t.kind == kindRemnant || v.noted(d) {
		return nil, true, nil
	}
	if t.kind == kindShared {
		whole, err := v.sure(ctx, t, sweeping)
		if err != nil || !whole {
			return nil, true, err
		}
	}
	return t, true, nil
}

// sure makes sure of the sources of a content that was pinned. A sweep that has
// begun before may not know that they are needed and have removed some, or one
// that was interrupted has left the content so.
func (v *Vault) sure(ctx context.Context, t *table, sweeping bool) (bool, error) {
	if !sweeping {
		unfinished, err := v.unfinished(ctx)
		if err != nil || !unfinished {
			return true, err
		}
	}
	needed := make([]map[Digest]struct{}, len(t.sources))
	for _, c := range t.chunks {
		if c.source == 0 {
			continue
		}
		if needed[c.source-1] == nil {
			needed[c.source-1] = make(map[Digest]struct{})
		}
		needed[c.source-1][c.digest] = struct{}{}
	}
	for i, source := range t.sources {
		has, err := v.hasChunks(ctx, source, needed[i])
		if err != nil || !has {
			return false, err
		}
	}
	return true, nil
}

// hasChunks pins a source and reports whether it has these chunks.
func (v *Vault) hasChunks(ctx context.Context, source Digest, needed map[Digest]struct{}) (bool, error) {
	if _, err := v.pins.pin(ctx, source, false); err != nil {
		return false, err
	}
	r, t, err := v.load(ctx, source)
	if _, damaged := errors.AsType[*DamagedError](err); damaged || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_ = r.Close() // only read from
	for _, c := range t.chunks {
		if c.source == 0 {
			delete(needed, c.digest)
		}
	}
	return len(needed) == 0, nil
}
