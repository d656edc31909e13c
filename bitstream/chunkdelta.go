package bitstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/chunkdelta"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// Patches of large representations are made from the index of the old one. The index
// is stored when the representation becomes the current one, while its bytes are read
// anyway. So that these need not be stored, it is enough for all patches to come.

// indexOf returns the digest under whose name the index of the representation d is
// stored.
func indexOf(d digest) digest { return sha256.Sum256(append([]byte("index of chunks of "), d[:]...)) }

// indexed pins the index of a representation and reports whether there is one. It
// reports none if a delta is to be made, because that takes the bytes.
func (w *worker) indexed(ctx context.Context, d digest) (bool, error) {
	if err := w.batch.pin(ctx, indexOf(d)); err != nil || w.old != nil {
		return false, err
	}
	_, err := w.keeper.store.Stat(ctx, indexOf(d).name())
	return err == nil, nil
}

// startDelta loads the index of a large resource's current representation, so that
// the delta to the new one is made while that is read. The caller calls release when
// it has published the delta.
func (w *worker) startDelta(ctx context.Context, u *catalog.Update, now *catalog.Record) (release func(), err error) {
	if !w.batch.begun || now == nil || now.Length <= 0 || !w.opts.Patches.isLarge(u.Length) || now.Length > w.opts.Patches.MaxBytes {
		return func() {}, nil
	}
	select {
	case w.keeper.large <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.old = w.loadIndex(ctx, now); w.old == nil {
		<-w.keeper.large
		return func() {}, ctx.Err()
	}
	return func() {
		w.old = nil
		<-w.keeper.large
	}, nil
}

// loadIndex returns the index of a resource's current representation, or nil: the
// stored one, or else one made from its bytes, if these are stored.
func (w *worker) loadIndex(ctx context.Context, now *catalog.Record) *chunkdelta.Index {
	d, ok := digestOf(now.Hashes)
	if !ok {
		return nil
	}
	x, err := w.storedIndex(ctx, d)
	if errors.Is(err, blob.ErrNotExist) {
		x, err = w.indexStored(ctx, d, now)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		w.warn(ctx, now.URI, err)
	}
	return x
}

func (w *worker) warn(ctx context.Context, uri string, err error) {
	w.keeper.opts.Logger.WarnContext(ctx, "patch cannot be made", slog.String("set", w.batch.set), slog.String("uri", uri), slog.Any("err", err))
}

func (w *worker) storedIndex(ctx context.Context, d digest) (*chunkdelta.Index, error) {
	r, err := w.keeper.store.Open(ctx, indexOf(d).name())
	if err != nil {
		return nil, err
	}
	defer r.Close() // opened for reading only
	return chunkdelta.ReadIndex(withContext(ctx, r), chunkdelta.Digest(d))
}

func (w *worker) indexStored(ctx context.Context, d digest, now *catalog.Record) (*chunkdelta.Index, error) {
	r, err := w.keeper.Open(ctx, &catalog.Change{Record: *now, Change: resourcesync.Updated})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read from
	return chunkdelta.IndexOf(withContext(ctx, r), chunkdelta.Digest(d))
}

// patchShrunk makes the patch from a large current representation to a small one.
func (w *worker) patchShrunk(ctx context.Context, u *catalog.Update, now *catalog.Record, h held) error {
	old := w.loadIndex(ctx, now)
	if old == nil {
		return ctx.Err()
	}
	var r io.Reader = bytes.NewReader(h.data)
	if h.data == nil {
		stored, err := w.keeper.open(ctx, h.sum, h.size)
		if err != nil {
			return ctx.Err() // it could not be stored
		}
		defer stored.Close() // opened for reading only
		r = stored
	}
	s := chunkdelta.NewScanner(nil, old)
	err := s.Scan(withContext(ctx, r))
	if err == nil {
		h.delta, err = s.Delta()
	}
	if err != nil && ctx.Err() == nil {
		w.warn(ctx, u.URI, err)
		return nil
	}
	if err == nil {
		err = w.linkDelta(ctx, u, h)
	}
	return err
}

// linkDelta publishes the delta to h and adds its link to u, unless u describes
// another representation by now.
func (w *worker) linkDelta(ctx context.Context, u *catalog.Update, h held) error {
	if sum, _ := digestOf(u.Hashes); h.delta == nil || sum != h.sum || !pays(h.delta, h.size) {
		return nil
	}
	err := w.link(ctx, u, patch.TypeChunkDelta, h.delta)
	if err != nil && ctx.Err() == nil {
		w.warn(ctx, u.URI, err)
		return nil
	}
	return err
}

// A readerFunc is a reader that consists of its Read method.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// withContext returns a reader of r that fails once ctx has ended.
func withContext(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}
