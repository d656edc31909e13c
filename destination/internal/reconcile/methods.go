package reconcile

import (
	"context"
	"fmt"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// packedLeast is the number of missing resources from which on the packages are
// examined, because that takes a request, too.
const packedLeast = 64

// chooseMethods decides by which methods the content of a plan is fetched, and
// records that in the Report. A poor choice costs time, nothing else: what a
// method does not return is requested separately.
func (s *Set) chooseMethods(ctx context.Context, p *planner.Planner, w *Work, n *bulk.Needs, total *planner.Tally) (*bulk.Methods, error) {
	r := s.Run
	if r.Past {
		return s.chooseForPast(ctx, p, w, n, total)
	}
	out := r.methods()
	if n.Count == 0 {
		return out, nil
	}
	via := r.Via
	switch {
	case w.Hinted && n.Packed > 0:
		w.Via = report.ViaDump
	case w.Hinted: // there is nothing else to read
	case via != report.ViaList && n.Packed == 0 && !w.Searched && (via == report.ViaDump || n.Count >= packedLeast) && (w.Via != report.ViaNotification || via == report.ViaDump): // no documents are read for notifications
		kind, err := s.stageHints(ctx, w, n, via == report.ViaDump)
		if err != nil {
			return out, err
		}
		if kind != "" {
			*n = bulk.Needs{}
			if _, err = p.Count(ctx, s.Stage, n.Add); err != nil {
				return out, err
			}
			if n.Packed > 0 {
				w.Via = kind
			}
		}
	}
	if via != report.ViaList {
		if s.Reader.Packages.Known() {
			out.Packages = &s.Reader.Packages
		}
		out.Demand = s.demand(n)
	}
	r.Report.AddPlan(explain(s.State.Name, w, total, n, out))
	return out, nil
}

// chooseForPast chooses the methods for contents of the past. Those without a
// memento, or all if there are many, are taken from the packages of the dumps of
// that time (RA-DST-03).
func (s *Set) chooseForPast(ctx context.Context, p *planner.Planner, w *Work, n *bulk.Needs, total *planner.Tally) (*bulk.Methods, error) {
	r := s.Run
	out := r.methods()
	out.OfPast = true
	if n.Count == 0 || r.Offline {
		return out, nil
	}
	if r.Via != report.ViaList {
		alone := n.Count - n.Packed
		if w.Past.Insist || n.Lost > 0 || alone >= packedLeast || alone > 0 && r.Via == report.ViaDump {
			if err := w.Past.StageHints(ctx, s.Reader); err != nil {
				return out, err
			}
			*n = bulk.Needs{}
			if _, err := p.Count(ctx, s.Stage, n.Add); err != nil {
				return out, err
			}
		}
		if n.Packed > 0 {
			out.Packages = &s.Reader.Packages
		}
		out.Demand = s.demand(n)
	}
	r.Report.AddPlan(explain(s.State.Name, w, total, n, out))
	return out, nil
}

// methods returns no methods but single requests.
func (r *Run) methods() *bulk.Methods {
	return &bulk.Methods{Room: scratch.RoomOf(r.Mirror.Journal), Opener: r.Opener}
}

// demand returns a demand if packages on demand pay; otherwise nil.
func (s *Set) demand(n *bulk.Needs) *bulk.Demand {
	uri := s.State.Demand
	insist := s.Run.Via == report.ViaDump
	if uri == "" || n.Small == 0 || n.Small < bulk.DemandLeast && !insist {
		return nil
	}
	if reason := s.Reader.Refuse(uri); reason != "" {
		s.Reader.Warn(uri, fmt.Sprintf("refuse packages on demand of %s: %s", fetch.Printable(uri), reason))
		return nil
	}
	d := bulk.NewDemand(uri, n.Small, n.SmallBytes)
	d.Insist = insist
	return d
}

// stageHints stages where in packages the needed content is, if there are
// packages and they pay, or if insist is set, and returns the name of the
// method for the Report.
func (s *Set) stageHints(ctx context.Context, w *Work, n *bulk.Needs, insist bool) (via string, err error) {
	st := s.State
	uri, kind, manifest := st.Dump, resourcesync.ResourceDump, resourcesync.ResourceDumpManifest
	via = report.ViaDump
	var since resourcesync.Datetime
	if w.Mode != report.ModeBaseline {
		uri, kind, manifest = st.ChangeDump, resourcesync.ChangeDump, resourcesync.ChangeDumpManifest
		via, since = report.ViaChangeDump, resourcesync.NewDatetime(st.Watermark)
	}
	if uri == "" {
		return "", nil
	}
	packages, err := s.Reader.PackagesOf(ctx, uri, kind)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		s.FallBack(report.Fallback{Missing: string(kind), URI: uri, Cause: err.Error(), Used: report.FallbackRequests})
		return "", nil
	}
	var refs []dump.Ref
	warned := false
	for i := range packages {
		e := &packages[i]
		if !e.Until.IsZero() && !since.IsZero() && e.Until.Compare(since) < 0 {
			continue
		}
		ref := s.Reader.RefOf(e)
		if ref.Refused == "" {
			refs = append(refs, ref)
		} else if !warned {
			warned = true
			s.Reader.Warn(ref.URI, fmt.Sprintf("refuse package %s: %s", fetch.Printable(ref.URI), ref.Refused))
		}
	}
	if len(refs) == 0 || !insist && !n.PackagesPay(refs, st.Demand != "") {
		return "", nil
	}
	if err := s.Reader.ReadHints(ctx, refs, manifest); err != nil {
		return "", err
	}
	return via, nil
}

// Beside returns what reads, while the list of the set is being read, where the packages
// of its Resource Dump have the contents, or nil if that does not pay: only of a set of
// which nothing is held, most contents are needed. What it cannot read is left to
// [Set.Apply], which reports why.
func (s *Set) Beside() *entries.Beside {
	r, uri := s.Run, s.State.Dump
	if uri == "" || r.Via == report.ViaList || r.Counts[s.State.Number] > 0 || r.Mirror.Share != nil || r.Past || r.Adopt || s.Reclaims ||
		s.Final || apply.TakesNoContent(r.Mirror.Store) || !r.Selects.IsAll() || r.Selects.Restricts() {
		return nil
	}
	return &entries.Beside{Least: packedLeast, Read: func(ctx context.Context) (bool, error) {
		packages, err := s.Reader.PackagesOf(ctx, uri, resourcesync.ResourceDump)
		if err != nil {
			return false, ctx.Err()
		}
		refs := make([]dump.Ref, len(packages))
		for i := range packages {
			if refs[i] = s.Reader.RefOf(&packages[i]); refs[i].Refused != "" || refs[i].Contents == nil {
				return false, nil
			}
		}
		return len(refs) > 0, s.Reader.ReadHints(ctx, refs, resourcesync.ResourceDumpManifest)
	}}
}

// explain describes in a sentence how many resources are going to be fetched by
// which methods.
func explain(set string, w *Work, t *planner.Tally, n *bulk.Needs, by *bulk.Methods) string {
	what := wording.Grouped(n.Count) + " of its resources to be fetched"
	if w.Mode == report.ModeBaseline {
		all := t.Created + t.Updated + t.Unchanged + t.Touched
		what = fmt.Sprintf("%s of %s resources are missing or differ", wording.Grouped(n.Count), wording.Grouped(all))
	}
	kind := "Resource Dump"
	if w.Via == report.ViaChangeDump {
		kind = "Change Dump"
	}
	return fmt.Sprintf("set %s: %s: %s", set, what, n.Explain(kind, by))
}
