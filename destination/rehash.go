package destination

import (
	"context"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
)

// rehashed computes the stated hashes from the file that is held. If they are
// those of the file they are recorded, so that this is done once. Otherwise, and
// where there is no file to read, it reports false, and the content is to be
// fetched, whatever validators say (RS-DST-05).
func rehashed(ctx context.Context, t *transfer) (outcome, bool) {
	a := t.a
	a.Rehash, a.Conditional = false, false
	if t.past || t.path != a.Held.Path || !t.readable {
		return outcome{}, false
	}
	n, got, err := t.hashers.Blob(ctx, t.store, a.Held.Path, content.Algorithms(a.Held.Hashes)|content.Algorithms(a.Hashes))
	if ctx.Err() != nil {
		return outcome{err: context.Cause(ctx)}, true
	}
	if err != nil || n != a.Held.Length || content.Compare(got, a.Held.Hashes) == content.Different || content.Compare(got, a.Hashes) != content.Same {
		return outcome{}, false
	}
	h := plan.NewHeld(a, t.set, t.path)
	if a.Lastmod.IsZero() {
		h.Lastmod = a.Held.Lastmod
	}
	h.Length, h.Hashes, h.ETag, h.Modified = n, got, a.Held.ETag, a.Held.Modified
	h.Written, h.Tag = a.Held.Written, a.Held.Tag
	return outcome{held: h, same: true}, true
}
