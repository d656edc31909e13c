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

// A DamagedError reports a damaged content.
type DamagedError struct {
	Digest Digest // the requested content
	Blob   string // the name of the damaged or missing blob
	Err    error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("content %s is damaged in %s: %v", e.Digest, e.Blob, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// load opens the blob with that name and reads its table. It returns
// fs.ErrNotExist, a DamagedError, or the error of the store.
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

// readFull fills p. If there are too few bytes it returns errFormat.
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

// note records a damaged blob, which nothing may rely on and which is rewritten
// when its content is put again.
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

// maxDamaged is how many damaged blobs are recorded.
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

// settled waits for a running commit of d: blobs that it has made visible may not
// be durable yet.
func (v *Vault) settled(ctx context.Context, d Digest) error {
	done, err := v.pins.claim(ctx, []Digest{d})
	if err == nil {
		done()
	}
	return err
}

// find pins d and returns its table, if the vault has the whole content as far
// as the table shows. Otherwise it returns nil, and whether there is a blob
// with the name: a remnant, or a damaged one.
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

// sure checks the sources of a pinned content. A sweep that began before the
// pin may have removed some, not knowing that they are needed, or an
// interrupted sweep has left the content in that state, or another process
// has written it after some were removed.
func (v *Vault) sure(ctx context.Context, t *table, sweeping bool) (bool, error) {
	if !sweeping && !v.opts.Shared {
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
