package destination

import (
	"context"
	"fmt"
	"slices"

	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/restore"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxPastPackages is in how many packages contents of the past are looked for:
// each costs a request or two before anything of it is had.
const maxPastPackages = 2000

// choosePastWays is chooseWays for contents of the past: what no memento is
// named of, or much, is looked for in the packages of the dumps of that time
// (RA-DST-03).
func (r *setRun) choosePastWays(ctx context.Context, p *planner.Planner, w *work, n *bulk.Needs, total *planner.Tally) (*bulk.Methods, error) {
	out := newWays(r.d)
	out.OfPast = true
	if n.Count == 0 || r.past.only {
		return out, nil
	}
	if r.d.opts.Via != ViaList {
		alone := n.Count - n.Packed
		if w.past.Insist || n.Lost > 0 || alone >= packedLeast || alone > 0 && r.d.opts.Via == ViaDump {
			w.past.Hinted = true
			if err := r.stagePastHints(ctx, w.past); err != nil {
				return out, err
			}
			*n = bulk.Needs{}
			if _, err := p.Count(ctx, r.stage, n.Add); err != nil {
				return out, err
			}
		}
		if n.Packed > 0 {
			out.Packages = &r.reader.Packages
		}
		out.Demand = r.demandFor(n)
	}
	r.report.AddPlan(explain(r.set.Name, w, total, n, out))
	return out, nil
}

// stagePastHints stages what the packages hold of the dumps that may have what
// was there: the last Resource Dump before, the Change Dumps from there on, and
// the first Resource Dump after it.
func (r *setRun) stagePastHints(ctx context.Context, st *restore.State) error {
	at := resourcesync.NewDatetime(st.AsOf)
	var before, after, changes []*entries.Archived
	for i := range st.Dumps {
		switch d := &st.Dumps[i]; {
		case d.Kind == resourcesync.ChangeDump:
			changes = append(changes, d)
		case d.Kind != resourcesync.ResourceDump:
		case d.At.Compare(at) > 0:
			after = append(after, d)
		default:
			before = append(before, d)
		}
	}
	slices.Reverse(before)
	left := maxPastPackages
	var since resourcesync.Datetime
	for _, dumps := range [][]*entries.Archived{before, after} {
		for _, d := range dumps {
			ok, err := r.hintsOf(ctx, d, resourcesync.ResourceDumpManifest, &left, nil)
			if err != nil {
				return err
			}
			if ok && d.At.Compare(at) <= 0 {
				since = d.At
			}
			if ok {
				break // what others have besides is not of that time, or it is here
			}
		}
	}
	told := func(e *resourcesync.Metadata) bool {
		return (e.Until.IsZero() || since.IsZero() || e.Until.Compare(since) >= 0) && (e.From.IsZero() || e.From.Compare(at) <= 0)
	}
	for _, d := range slices.Backward(changes) { // the last ones have most of it
		if told(&resourcesync.Metadata{From: d.From, Until: d.Until}) {
			if _, err := r.hintsOf(ctx, d, resourcesync.ChangeDumpManifest, &left, told); err != nil {
				return err
			}
		}
	}
	return nil
}

// hintsOf stages what the packages of a dump hold, as far as it is wanted and
// no more than are left, and reports whether they could be read. What cannot is
// done without.
func (r *setRun) hintsOf(ctx context.Context, d *entries.Archived, manifest resourcesync.Capability, left *int, wants func(*resourcesync.Metadata) bool) (ok bool, err error) {
	if *left <= 0 {
		return false, nil
	}
	entries, err := r.reader.PackagesOf(ctx, d.Uri, d.Kind)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		r.warn(d.Uri, fmt.Sprintf("the packages of %s were not used: %v", fetch.Printable(d.Uri), err))
		return false, nil
	}
	var refs []dump.Ref
	for i := range slices.Backward(entries) {
		e := &entries[i]
		if *left == 0 || wants != nil && !wants(&e.Metadata) {
			continue
		}
		if ref := r.reader.RefOf(e); ref.Refused == "" {
			ref.Listing = true // nothing else describes that time
			refs = append(refs, ref)
			*left--
		}
	}
	return true, r.reader.ReadHints(ctx, refs, manifest)
}
