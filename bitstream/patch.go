package bitstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// A patch is announced if it is at most half as long as the new version, and
// shorter by this many bytes: each patch is one more file for the Source, and
// one more request that may fail for a Destination.
const (
	patchSaves = 1 << 10
	patchShare = 2
)

// patch makes patches from the current state of the resource, now, to its new
// one, h, and adds their links to u. Missing patches are not an error.
func (w *worker) patch(ctx context.Context, u *catalog.Update, now *catalog.Record, h held) error {
	most := w.opts.Patches.WholeBytes
	was, ok := digestOf(now.Hashes)
	if !ok || was == h.sum || h.size <= patchSaves || h.size > most || now.Length <= 0 || now.Length > w.opts.Patches.MaxBytes {
		return nil
	}
	if max(h.size, now.Length) > smallBytes {
		select {
		case w.keeper.large <- struct{}{}:
			defer func() { <-w.keeper.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if now.Length > most {
		return w.patchShrunk(ctx, u, now, h)
	}
	before, err := w.load(ctx, was, now.Length)
	after := h.data
	if err == nil && after == nil {
		after, err = w.load(ctx, h.sum, h.size)
	}
	if errors.Is(err, blob.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = w.publish(ctx, u, before, after)
	}
	if err != nil && ctx.Err() == nil {
		w.warn(ctx, u.URI, err)
		return nil
	}
	return err
}

// load returns stored bytes.
func (w *worker) load(ctx context.Context, d digest, length int64) ([]byte, error) {
	r, err := w.keeper.open(ctx, d, length)
	if err != nil {
		return nil, err
	}
	defer r.Close() // opened for reading only
	data := make([]byte, length, length+1)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	_, err = io.ReadFull(r, data[length:length+1]) // the end, where bytes are verified
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}

// publish makes the patches that are worthwhile and adds their links to u:
// alternatives, of which a Destination applies one (RS-REL-37).
func (w *worker) publish(ctx context.Context, u *catalog.Update, before, after []byte) error {
	if isJSON(u.Type) {
		if p := patch.MakeJSON(before, after); p != nil && pays(p, int64(len(after))) {
			if err := w.link(ctx, u, patch.TypeJSON, p); err != nil {
				return err
			}
		}
	}
	if !patch.DeltaFits(int64(len(before)), int64(len(after))) {
		return nil
	}
	p, err := w.keeper.deltas.Make(before, after)
	if err != nil || !pays(p, int64(len(after))) {
		return err
	}
	if !patch.DeltaYields(before, p, after) {
		return errors.New("a delta does not yield what it was made of")
	}
	return w.link(ctx, u, patch.TypeDelta, p)
}

func pays(p []byte, after int64) bool {
	return int64(len(p)) <= after/patchShare && int64(len(p))+patchSaves <= after
}

func isJSON(mediaType string) bool {
	t, _, _ := strings.Cut(mediaType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// link publishes a patch and adds its link to u, with its own length and hash
// (RS-REL-33).
func (w *worker) link(ctx context.Context, u *catalog.Update, mediaType string, p []byte) error {
	href, err := w.opts.Patches.Put(ctx, mediaType, p)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(p)
	u.Links = append(slices.Clip(u.Links), resourcesync.Link{
		Rel: resourcesync.RelPatch, Href: href, Type: mediaType, Length: int64(len(p)), HasLength: true,
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}},
	})
	return nil
}
