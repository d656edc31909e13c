package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
)

// travel brings a set to its state at the requested instant (RA-DST-02): using
// what the Source has kept of its past, or else what the mirror has.
func (r *setRun) travel(ctx context.Context) error {
	r.compared = true
	var unknown restore.Unknown
	var st *restore.State
	if !r.past.only {
		var err error
		if st, err = restore.FromSource(ctx, r.reader, r.past.at, &unknown); err != nil {
			return err
		}
	}
	if st == nil || st.Inexact != "" {
		own, err := r.ownState(ctx, &unknown)
		switch {
		case err != nil:
			return err
		case own != nil:
			if st != nil {
				r.warn(r.set.URI, fmt.Sprintf("set %s: the Source does not know its state then: %s; this is the state of the mirror", r.set.Name, st.Inexact))
			}
			st = own
		case st == nil:
			r.untold++
			return &NoPastError{Set: r.set.Name, At: r.past.at, Earliest: unknown.Earliest, Err: unknown.Err}
		default:
			r.reader.Fail(r.set.URI, fmt.Errorf("set %s: its state at %s is not known: %s; it is as of %s", r.set.Name, wording.Time(r.past.at), st.Inexact, wording.Time(st.AsOf)))
		}
	}
	r.listAt = st.At
	again, err := r.becomeState(ctx, st)
	if again && err == nil && !st.Hinted && !r.d.opts.DryRun {
		unchanged := r.report.Unchanged // the second look at them counts for nothing
		st.Insist = true
		_, err = r.becomeState(ctx, st)
		r.report.Unchanged = unchanged
	}
	if err == nil {
		r.set.AsOf = st.AsOf.UTC()
	}
	return err
}

// becomeState applies a staged state. It reports whether unavailable contents
// may be in packages that were not searched.
func (r *setRun) becomeState(ctx context.Context, st *restore.State) (again bool, err error) {
	return r.carryOut(ctx, work{
		Mode: ModeBaseline, Via: viaOf(st), Complete: true, Files: true, Prune: true, Past: st,
		Done: func() {
			r.set.RestoreTo(st.Watermark, saved.Time(st.At))
			r.set.Complete, r.set.Selection = !st.Watermark.IsZero(), r.d.selects.Key
		},
	})
}

// viaOf returns how a past state was found, as the Report names it.
func viaOf(st *restore.State) string {
	switch st.Source {
	case restore.Dump:
		return ViaDump
	case restore.Mirror:
		return ViaHistory
	}
	return ViaList
}

// ownState stages the past state of the set from the history of the mirror
// itself, or of the mirror that is the Source.
func (r *setRun) ownState(ctx context.Context, none *restore.Unknown) (*restore.State, error) {
	number := r.set.Number
	if r.past.only {
		number = r.set.SourceNumber
	}
	return restore.FromMirror(ctx, r.stage, r.past.from.journal, number, r.past.at, none)
}
