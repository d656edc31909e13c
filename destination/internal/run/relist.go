package run

import (
	"context"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/reconcile"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// relist reads the list of a set without changes again, for the resources that did
// not match their descriptions (RS-HASH-08): they may have changed since it was
// read, or be gone. snap is the previous reading. Other differences are left to the
// next run.
func (r *Run) relist(ctx context.Context, snap *entries.Snapshot) error {
	reader, uri := r.Documents.Reader, r.Documents.ListURI
	known := *r.Set
	for round := 1; round < maxRounds && len(r.Stale) > 0; round++ {
		known.ListTag, known.ListParts = snap.Validators, snap.Parts
		known.Lists = uri
		unchanged, err := reader.ListUnchanged(ctx, &known)
		if err != nil || unchanged {
			return err
		}
		listed := make(map[string]bool, len(r.Stale))
		for uri := range r.Stale {
			listed[uri] = false
		}
		reader.Only = listed
		next, err := reader.ReadList(ctx, uri)
		reader.Only = nil
		if err != nil || !next.Whole() {
			return err
		}
		if !next.Sitemap || r.DeleteAbsent { // a plain Sitemap does not say what is gone (RS-RL-12)
			if err := r.stageGone(ctx, listed); err != nil {
				return err
			}
		}
		if _, err := r.Reconcile(ctx, reconcile.Work{Mode: report.ModeBaseline, Via: r.Set.ViaList(), Complete: true}); err != nil {
			return err
		}
		snap = &next
	}
	return nil
}

// stageGone stages the resources as gone that a complete list does not name.
func (r *Run) stageGone(ctx context.Context, listed map[string]bool) error {
	n := r.Stage.AddDocument()
	for uri, is := range listed {
		if is {
			continue
		}
		w := desired.Resource{URI: uri, Gone: true, Change: resourcesync.Deleted, Length: -1, Rank: desired.Rank{Class: desired.Listed, Doc: n}}
		if err := r.Stage.Add(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
