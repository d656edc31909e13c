package destination

import (
	"context"
	"fmt"
	"slices"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// maxPastPackages is in how many packages contents of the past are looked for:
// each costs a request or two before anything of it is had.
const maxPastPackages = 2000

// choosePastWays is chooseWays for contents of the past: what no memento is
// named of is looked for in the packages of the dumps of that time (RA-DST-03).
func (r *setRun) choosePastWays(ctx context.Context, p *planner, w *work, n *needs, total *tally) (*ways, error) {
	out := &ways{past: true}
	if n.count == 0 || r.past.only {
		return out, nil
	}
	if r.d.opts.Via != ViaList {
		alone := n.count - n.packed
		if n.lost > 0 || alone >= packedLeast || alone > 0 && r.d.opts.Via == ViaDump {
			if err := r.stagePastHints(ctx, w.past); err != nil {
				return out, err
			}
			*n = needs{}
			if _, err := p.count(ctx, r.stage, n.add); err != nil {
				return out, err
			}
		}
		if n.packed > 0 {
			out.packages = &r.reader.packages
		}
		out.demand = r.demandFor(n)
	}
	r.report.plan(r.explain(w, total, n, out))
	return out, nil
}

// stagePastHints stages what the packages hold of the dumps that may have what
// was there: the last Resource Dump before, the Change Dumps from there on, and
// the first Resource Dump after it.
func (r *setRun) stagePastHints(ctx context.Context, st *state) error {
	at := resourcesync.NewDatetime(st.asOf)
	var before, after *archived
	var changes []*archived
	for i := range st.dumps {
		switch d := &st.dumps[i]; {
		case d.kind == resourcesync.ChangeDump:
			changes = append(changes, d)
		case d.kind != resourcesync.ResourceDump:
		case d.at.Compare(at) > 0:
			if after == nil || d.at.Compare(after.at) < 0 {
				after = d
			}
		case before == nil || d.at.Compare(before.at) >= 0:
			before = d
		}
	}
	var since resourcesync.Datetime
	left := maxPastPackages
	for _, d := range []*archived{before, after} {
		if d != nil {
			if err := r.hintsOf(ctx, d, resourcesync.ResourceDumpManifest, &left, nil); err != nil {
				return err
			}
		}
	}
	if before != nil {
		since = before.at
	}
	told := func(e *resourcesync.Metadata) bool {
		return (e.Until.IsZero() || since.IsZero() || e.Until.Compare(since) >= 0) && (e.From.IsZero() || e.From.Compare(at) <= 0)
	}
	for _, d := range slices.Backward(changes) { // the last ones have most of it
		if told(&resourcesync.Metadata{From: d.from, Until: d.until}) {
			if err := r.hintsOf(ctx, d, resourcesync.ChangeDumpManifest, &left, told); err != nil {
				return err
			}
		}
	}
	return nil
}

// hintsOf stages what the packages of a dump hold, as far as it is wanted and
// no more than are left. What cannot be read is done without.
func (r *setRun) hintsOf(ctx context.Context, d *archived, manifest resourcesync.Capability, left *int, wants func(*resourcesync.Metadata) bool) error {
	if *left <= 0 {
		return nil
	}
	entries, err := r.reader.packagesOf(ctx, d.uri, d.kind)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.warn(d.uri, fmt.Sprintf("the packages of %s were not used: %v", fetch.Printable(d.uri), err))
		return nil
	}
	var refs []packageRef
	for i := range slices.Backward(entries) {
		e := &entries[i]
		if *left == 0 || wants != nil && !wants(&e.Metadata) {
			continue
		}
		if ref := r.reader.refOf(e); ref.refused == "" {
			refs = append(refs, ref)
			*left--
		}
	}
	return r.reader.readHints(ctx, refs, manifest)
}
