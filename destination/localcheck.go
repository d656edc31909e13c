package destination

import (
	"context"

	"lockstep/destination/internal/localcheck"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// CheckLocal says when a run examines the files of the mirror itself.
type CheckLocal string

// Values of Options.CheckLocal. The default is each run of mirrors with fewer than
// 100,000 resources, and once a day for larger ones.
const (
	CheckAuto   CheckLocal = localcheck.Auto
	CheckAlways CheckLocal = localcheck.Always
	CheckDaily  CheckLocal = localcheck.Daily
	CheckNever  CheckLocal = localcheck.Never
)

// checkLocal examines the files of all resources that are held, if a check is due.
// Damaged files become pending for their sets.
func checkLocal(ctx context.Context, s *session) error {
	s.damaged, s.unrepaired = nil, 0
	if s.d.isForgetful() {
		return nil
	}
	o := &s.d.opts
	out, err := localcheck.RunIfDue(ctx, localcheck.Mirror{Journal: s.d.journal, Files: s.d.store, Keep: s.state.Keep, Counts: s.state.Counts, Offered: s.state.Source.OfferedNumbers(),
		In: s.d.inDest(), DryRun: o.DryRun, Baseline: o.Baseline, Warn: s.warn, Fail: s.report.Fail,
		Planned: func(h *journal.Held) {
			if o.NamePlans {
				s.d.emit(Event{Kind: EventPlanned, URI: h.URI, Path: h.Path, Length: h.Length, Change: resourcesync.Updated})
			}
		}},
		string(o.CheckLocal), s.state.Source.Found != nil && s.past == nil, s.d.clock())
	s.report.Local, s.damaged, s.unrepaired = out.Report, out.Damaged, out.Unrepaired
	if err == nil && o.DryRun && out.Report != nil && out.Report.Checked {
		s.report.Updated += out.Report.Damaged()
	}
	return err
}
