package transfer

import (
	"context"
	"fmt"
	"io"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/journal"
	"lockstep/internal/chunkdelta"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// decodingBytes is the memory that a chunk delta takes in addition to its length:
// its literal bytes, and the window of the decompression.
const decodingBytes = 24 << 20

// allChunkDeltas reports whether the version held can be patched without holding it
// in memory.
func allChunkDeltas(steps []desired.Patch) bool {
	for i := range steps {
		if !plan.IsChunkDelta(&steps[i]) {
			return false
		}
	}
	return true
}

func chunkDeltaMemory(steps []desired.Patch) int64 {
	weight := int64(decodingBytes)
	for i := range steps {
		weight += 2 * steps[i].Link.Length
	}
	return min(weight, makingBytes)
}

// chunkDeltas returns a reader of the content that chunk deltas make of the version
// held, which it reads at the same time. Nothing but the hash of the result shows
// whether the version held is intact.
func (t *transfer) chunkDeltas(ctx context.Context, steps []desired.Patch, packed bool) (io.ReadCloser, error) {
	var all *chunkdelta.Delta
	for i := range steps {
		p, err := t.patchBytes(ctx, &steps[i], packed)
		if err != nil {
			return nil, err
		}
		d, err := chunkdelta.Parse(p)
		if err == nil && all != nil {
			d, err = all.Then(d)
		}
		if err != nil {
			return nil, fmt.Errorf("apply %s: %w", fetch.Printable(steps[i].Link.Href), err)
		}
		all = d
	}
	h := &t.a.Held
	if sum := h.Hashes.Get(resourcesync.SHA256); all.OldSize != h.Length || all.Size != t.a.Length || sum != "" && sum != string(all.Old[:]) {
		return nil, fmt.Errorf("apply patches to %s: %w", fetch.Printable(t.a.URI), chunkdelta.ErrInvalid)
	}
	r, err := t.Store.Open(ctx, h.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotHeld, err)
	}
	if r.Info().Size != h.Length {
		_ = r.Close() // opened for reading only
		return nil, errNotHeld
	}
	return &patchedReader{Reader: all.Reader(r), held: r}, nil
}

// A patchedReader reads a patched content, and holds the version before open.
type patchedReader struct {
	io.Reader
	held blob.Reader
}

func (r *patchedReader) Close() error { return r.held.Close() }

// isAsHeld reports whether the file of h has the content that the Journal states.
func (f *Fetcher) isAsHeld(ctx context.Context, h *journal.Held) bool {
	n, got, err := f.Hashers.Blob(ctx, f.Store, h.Path, content.Strongest(h.Hashes))
	return err == nil && n == h.Length && content.Compare(got, h.Hashes) == content.Same
}
