package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// packedLeast is from how many missing resources on it is looked what the
	// packages are like: that takes a request, too.
	packedLeast = 64
)

// chooseWays decides by which methods the content of a plan is fetched, and
// records that in the Report. A poor choice costs time, nothing else: what a
// method does not return is requested separately.
func (r *setRun) chooseWays(ctx context.Context, p *planner.Planner, w *work, n *bulk.Needs, total *planner.Tally) (*bulk.Methods, error) {
	if r.past != nil {
		return r.choosePastWays(ctx, p, w, n, total)
	}
	out := newWays(r.d)
	if n.Count == 0 {
		return out, nil
	}
	via := r.d.opts.Via
	if via != ViaList && n.Packed == 0 && !w.searched && (via == ViaDump || n.Count >= packedLeast) && (w.via != ViaNotification || via == ViaDump) { // no documents are read for notifications
		kind, err := r.stageHints(ctx, w, n, via == ViaDump)
		if err != nil {
			return out, err
		}
		if kind != "" {
			*n = bulk.Needs{}
			if _, err = p.Count(ctx, r.stage, n.Add); err != nil {
				return out, err
			}
			if n.Packed > 0 {
				w.via = kind
			}
		}
	}
	if via != ViaList {
		if r.reader.Packages.Known() {
			out.Packages = &r.reader.Packages
		}
		out.Demand = r.demandFor(n)
	}
	r.report.AddPlan(explain(r.set.Name, w, total, n, out))
	return out, nil
}

// newWays returns no methods but single requests.
func newWays(d *Destination) *bulk.Methods {
	return &bulk.Methods{Room: scratch.RoomOf(d.journal), Opener: d.packages}
}

// demandFor returns a demand, if packages on demand pay; otherwise nil.
func (r *setRun) demandFor(n *bulk.Needs) *bulk.Demand {
	st := r.set
	insist := r.d.opts.Via == ViaDump
	if st.Demand == "" || n.Small == 0 || n.Small < bulk.DemandLeast && !insist {
		return nil
	}
	if reason := r.reader.Refuse(st.Demand); reason != "" {
		r.warn(st.Demand, fmt.Sprintf("refuse packages on demand of %s: %s", fetch.Printable(st.Demand), reason))
		return nil
	}
	d := bulk.NewDemand(st.Demand, n.Small, n.SmallBytes)
	d.Insist = insist
	return d
}

// stageHints stages where in packages the needed content is, if there are
// packages and they pay, or if insist is set, and returns the name of the
// method for the Report.
func (r *setRun) stageHints(ctx context.Context, w *work, n *bulk.Needs, insist bool) (via string, err error) {
	st := r.set
	uri, kind, manifest := st.Dump, resourcesync.ResourceDump, resourcesync.ResourceDumpManifest
	via = ViaDump
	var since resourcesync.Datetime
	if w.mode != ModeBaseline {
		uri, kind, manifest = st.ChangeDump, resourcesync.ChangeDump, resourcesync.ChangeDumpManifest
		via, since = ViaChangeDump, resourcesync.NewDatetime(st.Watermark)
	}
	if uri == "" {
		return "", nil
	}
	entries, err := r.reader.PackagesOf(ctx, uri, kind)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		r.fallBack(Fallback{Missing: string(kind), URI: uri, Cause: err.Error(), Used: FallbackRequests})
		return "", nil
	}
	var refs []dump.Ref
	told := false
	for i := range entries {
		e := &entries[i]
		if !e.Until.IsZero() && !since.IsZero() && e.Until.Compare(since) < 0 {
			continue
		}
		ref := r.reader.RefOf(e)
		if ref.Refused == "" {
			refs = append(refs, ref)
		} else if !told {
			told = true
			r.warn(ref.URI, fmt.Sprintf("refuse package %s: %s", fetch.Printable(ref.URI), ref.Refused))
		}
	}
	if len(refs) == 0 || !insist && !n.PackagesPay(refs, r.set.Demand != "") {
		return "", nil
	}
	if err := r.reader.ReadHints(ctx, refs, manifest); err != nil {
		return "", err
	}
	return via, nil
}

// explain describes in a sentence how many resources are going to be fetched by
// which methods.
func explain(set string, w *work, t *planner.Tally, n *bulk.Needs, by *bulk.Methods) string {
	what := wording.Grouped(n.Count) + " of its resources to be fetched"
	if w.mode == ModeBaseline {
		all := t.Created + t.Updated + t.Unchanged + t.Touched
		what = fmt.Sprintf("%s of %s resources are missing or differ", wording.Grouped(n.Count), wording.Grouped(all))
	}
	kind := "Resource Dump"
	if w.via == ViaChangeDump {
		kind = "Change Dump"
	}
	return fmt.Sprintf("set %s: %s: %s", set, what, n.Explain(kind, by))
}
