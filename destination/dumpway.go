package destination

import (
	"context"
	"fmt"
	"strings"

	"lockstep/destination/internal/bulk"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/planner"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// packageRequests is how many a package takes: its manifest, its end and
	// directory, its content.
	packageRequests = 4

	// assumedBytes is the length assumed for resources without a stated length.
	assumedBytes = 8 << 10

	// packedLeast is from how many missing resources on it is looked what the
	// packages are like: that takes a request, too.
	packedLeast = 64
)

// needs is what a plan has to fetch.
type needs struct {
	count, bytes, unsized int64         // all of it
	small, smallBytes     int64         // those a package on demand may bring
	packages              map[int]int64 // how many have their content in which package
	packed, packedBytes   int64         // those that have
	patched, patchBytes   int64         // those that patches make, and the bytes of the patches
	lost                  int64         // of the past: those of which neither a package nor a memento is known
}

func (n *needs) add(a *plan.Action) {
	if a.Verb != plan.Fetch || a.Rehash {
		return
	}
	n.count++
	if steps, bytes := a.PatchesFirst(a.Member.Package > 0); len(steps) > 0 {
		n.patched, n.patchBytes, n.bytes = n.patched+1, n.patchBytes+bytes, n.bytes+bytes
		return
	}
	length := a.Length
	if length < 0 {
		n.unsized++
		length = assumedBytes
	}
	n.bytes += length
	if a.Member.Package == 0 && !a.HasMemento() {
		n.lost++
	}
	switch {
	case a.Member.Package > 0:
		if n.packages == nil {
			n.packages = map[int]int64{}
		}
		n.packages[a.Member.Package]++
		n.packed++
		n.packedBytes += length
	case length <= bulk.DemandLength && !a.Conditional && a.From == "" && content.HasKnown(a.Hashes):
		n.small++
		n.smallBytes += length
	}
}

// chooseWays decides by which methods the content of a plan is fetched, and
// records that in the Report. A poor choice costs time, nothing else: what a
// method does not return is requested separately.
func (r *setRun) chooseWays(ctx context.Context, p *planner.Planner, w *work, n *needs, total *planner.Tally) (*bulk.Methods, error) {
	if r.past != nil {
		return r.choosePastWays(ctx, p, w, n, total)
	}
	out := newWays(r.d)
	if n.count == 0 {
		return out, nil
	}
	via := r.d.opts.Via
	if via != ViaList && n.packed == 0 && !w.searched && r.dumpPays(n) && (w.via != ViaNotification || via == ViaDump) { // no documents are read for notifications
		kind, err := r.stageHints(ctx, w, n, via == ViaDump)
		if err != nil {
			return out, err
		}
		if kind != "" {
			*n = needs{}
			if _, err = p.Count(ctx, r.stage, n.add); err != nil {
				return out, err
			}
			if n.packed > 0 {
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
	r.report.plan(r.explain(w, total, n, out))
	return out, nil
}

// newWays returns no methods but single requests.
func newWays(d *Destination) *bulk.Methods {
	return &bulk.Methods{Room: scratch.RoomOf(d.journal), Opener: d.packages}
}

// dumpPays reports whether it makes sense to read the dump as well as the list.
func (r *setRun) dumpPays(n *needs) bool {
	return r.d.opts.Via == ViaDump || n.count >= packedLeast
}

// demandFor returns a demand, if packages on demand pay; otherwise nil.
func (r *setRun) demandFor(n *needs) *bulk.Demand {
	st := r.set
	insist := r.d.opts.Via == ViaDump
	if st.Demand == "" || n.small == 0 || n.small < bulk.DemandLeast && !insist {
		return nil
	}
	if reason := r.reader.Refuse(st.Demand); reason != "" {
		r.warn(st.Demand, fmt.Sprintf("refuse packages on demand of %s: %s", fetch.Printable(st.Demand), reason))
		return nil
	}
	d := bulk.NewDemand(st.Demand, n.small, n.smallBytes)
	d.Insist = insist
	return d
}

// stageHints stages where in packages the needed content is, if there are
// packages and they pay, or if insist is set, and returns the name of the
// method for the Report.
func (r *setRun) stageHints(ctx context.Context, w *work, n *needs, insist bool) (via string, err error) {
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
	if len(refs) == 0 || !insist && !r.packagesPay(refs, n) {
		return "", nil
	}
	if err := r.reader.ReadHints(ctx, refs, manifest); err != nil {
		return "", err
	}
	return via, nil
}

// packagesPay reports whether packages are the cheaper method to get what is
// needed, by the estimated cost of them and of single requests.
func (r *setRun) packagesPay(refs []dump.Ref, n *needs) bool {
	var whole int64
	for _, ref := range refs {
		whole += packageRequests * plan.RequestBytes
		if ref.Length < 0 {
			// It contains what is needed, and as much again.
			whole += 2 * n.bytes / int64(len(refs))
		}
		whole += max(ref.Length, 0)
	}
	alone := n.bytes + n.count*plan.RequestBytes
	if r.set.Demand != "" && n.small >= bulk.DemandLeast {
		alone = min(alone, n.bytes+n.small*512+(n.count-n.small+n.small/bulk.DemandCount+1)*plan.RequestBytes)
	}
	return whole <= alone+alone/10 // a file costs the Source less than what it has to make
}

// explain describes in a sentence how many resources are going to be fetched by
// which methods.
func (r *setRun) explain(w *work, t *planner.Tally, n *needs, by *bulk.Methods) string {
	var b strings.Builder
	fmt.Fprintf(&b, "set %s: ", r.set.Name)
	if all := t.Created + t.Updated + t.Unchanged + t.Touched; w.mode == ModeBaseline {
		fmt.Fprintf(&b, "%s of %s resources are missing or differ: ", wording.Grouped(n.count), wording.Grouped(all))
	} else {
		fmt.Fprintf(&b, "%s of its resources to be fetched: ", wording.Grouped(n.count))
	}
	alone := n.count
	var parts []string
	if n.packed > 0 && by.Packages != nil {
		alone -= n.packed
		kind := "Resource Dump"
		if w.via == ViaChangeDump {
			kind = "Change Dump"
		}
		parts = append(parts, fmt.Sprintf("%s by %s (%s, %s)", wording.Grouped(n.packed), kind, wording.Plural(int64(len(n.packages)), "package"), wording.Size(n.packedBytes)))
	}
	if by.Demand != nil {
		alone -= n.small
		parts = append(parts, fmt.Sprintf("%s by packages on demand (%s at a time, %s)", wording.Grouped(n.small), wording.Grouped(int64(by.Demand.Most)), wording.Size(n.smallBytes)))
	}
	if n.patched > 0 {
		alone -= n.patched
		parts = append(parts, fmt.Sprintf("%s by patches (%s)", wording.Grouped(n.patched), wording.Size(n.patchBytes)))
	}
	if alone > 0 {
		parts = append(parts, wording.Grouped(alone)+" by single requests")
	}
	b.WriteString(strings.Join(parts, "; "))
	return b.String()
}
