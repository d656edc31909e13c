package destination

import (
	"context"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/resourcesync"
)

// relist reads the Resource List of a set without a Change List again, for the
// resources that were not as it described them (RS-HASH-08): they may have
// changed since it was read, or be gone. snap is the reading before. What else
// the list says now is for the next run.
func (r *setRun) relist(ctx context.Context, snap *entries.Snapshot) error {
	known := *r.set
	for round := 1; round < maxRounds && len(r.stale) > 0; round++ {
		known.ListTag, known.ListParts = snap.Validators, snap.Parts
		known.Lists = r.listURI
		same, err := r.reader.ListUnchanged(ctx, &known.Set)
		if err != nil || same {
			return err
		}
		only := make(map[string]bool, len(r.stale))
		for uri := range r.stale {
			only[uri] = false
		}
		r.reader.Only = only
		next, err := r.reader.ReadList(ctx, r.listURI)
		r.reader.Only = nil
		if err != nil || !next.Whole() {
			return err
		}
		if err := r.stageGone(ctx, only, &next); err != nil {
			return err
		}
		if _, err := r.carryOut(ctx, work{Mode: ModeBaseline, Via: r.set.viaList(), Complete: true}); err != nil {
			return err
		}
		snap = &next
	}
	return nil
}

// stageGone stages as gone what a complete list does not name, unless it is a
// plain Sitemap, whose silence does not mean that (RS-RL-12).
func (r *setRun) stageGone(ctx context.Context, found map[string]bool, snap *entries.Snapshot) error {
	if snap.Sitemap && r.d.opts.Delete != DeleteApply {
		return nil
	}
	n := r.stage.AddDocument()
	for uri, is := range found {
		if is {
			continue
		}
		w := desired.Resource{URI: uri, Gone: true, Change: resourcesync.Deleted, Length: -1, Rank: desired.Rank{Class: desired.Listed, Doc: n}}
		if err := r.stage.Add(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
