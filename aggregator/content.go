package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
)

// ErrReplaced reports a resource whose file is being replaced: the record that was given
// is no longer true, or will soon be.
var ErrReplaced = errors.New("the resource is being replaced")

// Bitstream opens the file of a resource in the mirror. It fails with fs.ErrNotExist if
// there is none, and with [ErrReplaced] if the file is not what the record describes.
func (u *Upstream) Bitstream(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
	name, uri, ok := parseToken(r.Token)
	if !ok || name != u.o.Name {
		return nil, fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
	}
	rows, err := u.mirror.Journal.Lookup(ctx, []string{uri})
	if err != nil {
		return nil, err
	}
	h := &rows[0]
	if h.URI == "" {
		return nil, fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
	}
	if h.Length != r.Length || !sameHashes(h.Hashes, r.Hashes) {
		return nil, fmt.Errorf("open %s: %w", r.URI, ErrReplaced)
	}
	f, err := u.mirror.Store.Open(ctx, h.Path)
	if err != nil {
		if gone(err) {
			err = fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
		}
		return nil, err
	}
	if err := isFileOf(f, h); err != nil {
		_ = f.Close() // only read from
		return nil, fmt.Errorf("open %s: %w", r.URI, err)
	}
	return f, nil
}

// sameHashes reports whether two sets of hashes can be of the same content. One of them may have more
// algorithms: a catalog that stores versions adds its own to what an upstream states.
func sameHashes(a, b resourcesync.Hashes) bool {
	common, differs := a.Compare(b)
	return differs == 0 && (common != 0 || len(a) == 0 && len(b) == 0)
}

// isFileOf returns an error unless f is the file that a row describes. The file is read
// only if its times or version have changed, as they do in a copy of the mirror.
func isFileOf(f blob.Reader, h *held) error {
	info := f.Info()
	if info.Size != h.Length {
		return ErrReplaced
	}
	written := info.ModTime.Truncate(time.Microsecond).UTC()
	if h.Tag != "" && h.Tag == info.Version || h.Tag == "" && !h.Written.IsZero() && h.Written.Equal(written) {
		return nil
	}
	var algorithms []resourcesync.Algorithm
	for _, hash := range h.Hashes {
		algorithms = append(algorithms, hash.Algorithm)
	}
	hasher := resourcesync.NewHasher(algorithms...)
	if _, err := io.Copy(hasher, io.NewSectionReader(f, 0, info.Size)); err != nil {
		return err
	}
	if !slices.Equal(hasher.Sum(), h.Hashes) {
		return ErrReplaced
	}
	return nil
}
