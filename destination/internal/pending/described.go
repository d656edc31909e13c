package pending

import (
	"context"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/stage"
	"lockstep/resourcesync"
)

// StageDescribed stages those of the given pending resources whose content the
// Source describes with a hash, and returns how many there are.
func (s *Stager) StageDescribed(ctx context.Context, to *stage.Stage, failed map[string]error) (n int, err error) {
	for o, err := range s.Journal.Owed(ctx, s.Number) {
		if err != nil {
			return n, err
		}
		if failed[o.URI] == nil {
			continue
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return n, err
		}
		if w.Gone || w.Unconfirmed || !content.HasKnown(w.Hashes) || w.Change == resourcesync.UnknownChange {
			continue
		}
		w.Transient, w.NotBefore = false, time.Time{}
		w.Class, w.Refused, w.Member, w.ManifestPackage = desired.Pending, s.Refuse(w.URI), desired.Member{}, 0
		n++
		if err := to.Add(ctx, w); err != nil {
			return n, err
		}
	}
	return n, nil
}
