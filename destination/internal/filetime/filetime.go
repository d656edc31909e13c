// Package filetime keeps the modification times of the files of a mirror in step with what the
// Source states.
package filetime

import (
	"context"
	"time"

	"lockstep/blob"
	"lockstep/destination/journal"
)

// Set gives the file of h, whose content is right, the modification time that the Source
// states, where the store can do that, and records it. A file that another process has
// changed, or whose time cannot be set, keeps what it has.
func Set(ctx context.Context, store blob.Store, h *journal.Held) {
	r, ok := store.(blob.Retimer)
	mod := h.Lastmod.Truncate(time.Microsecond).UTC()
	if !ok || h.Lastmod.IsZero() || h.Written.IsZero() || len(h.Hashes) == 0 || mod.Equal(h.Written) {
		return
	}
	if r.Retime(ctx, blob.Info{Name: h.Path, Size: h.Length, ModTime: h.Written}, mod) == nil {
		h.Written = mod
	}
}
