package destination

import (
	"context"
	"maps"

	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/run"
	"lockstep/internal/fetch"
)

// AuditOptions says what an audit looks at, and does about it. The zero value
// compares without reading more than it must, and changes nothing.
type AuditOptions struct {
	// Content reads and hashes every file. Without it, a file is read only if
	// something shows that it was touched since it was written: its
	// modification time is another one.
	Content bool

	// Fix repairs what is found, in the same manner as Sync and under the same
	// guards. Foreign files are left alone.
	Fix bool
}

// Audit compares the mirror with what the Source at address states: its
// Resource List and all changes since, last change first (RS-DST-41): coverage,
// which resources are missing or extra, and accuracy, by hash, length and last
// modification (RS-DST-40).
//
// The mirror is in sync when nothing is missing, stale, corrupt or extra. Files
// in it that we did not write are reported separately, as foreign: they are not
// copies of a resource, and do not put the mirror out of step. Neither do
// resources for which the Source states nothing to compare with.
//
// A directory that was never synced has nothing to compare with but its
// content: then each file that a resource would have is read and compared.
//
// Findings are passed to Options.OnEvent, in the order of the resources. The
// error is an [ErrIncomplete] if documents could not be read or, with Fix, not
// everything could be repaired, and an [ErrRefused] if the repair was refused.
func (d *Destination) Audit(ctx context.Context, address string, o AuditOptions) (AuditReport, error) {
	begun := newMeter(d.client)
	s, err := d.observe(address, d.opts.Baseline)
	if err != nil {
		return AuditReport{}, err // unreachable: d was made with these options
	}
	quiet := s.d
	out := AuditReport{Source: fetch.WithoutUser(address), Destination: d.opts.Dest, Content: o.Content}
	a := &auditor{session: s, exam: audit.Audit{Store: quiet.store, Forgetful: quiet.isForgetful(), Journal: quiet.journal, Partial: len(quiet.opts.Sets) > 0, Restricts: quiet.selects.Restricts(),
		Content: o.Content, Hashers: content.Hashers{All: quiet.opts.VerifyAll}, Fix: o.Fix, Report: &out, Emit: quiet.emit, Quiet: quiet.opts.OnEvent == nil}}
	err = a.run(ctx, address)
	s.countWarnings()
	out.Sets, out.Failures, out.Warnings, out.Withdrawn = s.report.Sets, s.report.Failures, s.report.Warnings, s.report.Withdrawn
	out.InSync = err == nil && out.Differences() == 0
	out.Unproven = s.report.Unproven
	mirrorOf(s).SettleAudit(&out, err)
	if o.Fix && err == nil && !out.InSync {
		err = a.repair(ctx, d, address)
	}
	out.Complete = out.InSync && len(out.Unproven) == 0
	out.Requests, _, out.Elapsed = begun.since(d.client)
	return out, err
}

// with returns a Destination of other options for the same mirror.
func (d *Destination) with(o Options) (*Destination, error) {
	other, err := New(d.store, d.journal, d.client, o)
	if err != nil {
		return nil, err
	}
	other.jobs, other.clock = d.jobs, d.clock
	return other, nil
}

// observe returns a session for the Source at address that changes nothing. With
// baseline, it ignores what the Journal knows.
func (d *Destination) observe(address string, baseline bool) (*session, error) {
	o := d.opts
	o.DryRun, o.Baseline = true, baseline
	quiet, err := d.with(o)
	if err != nil {
		return nil, err
	}
	return newSession(quiet, address, nil, nil), nil
}

// An auditor is one audit in progress.
type auditor struct {
	session *session
	exam    audit.Audit
}

func (a *auditor) run(ctx context.Context, address string) (err error) {
	s, d := a.session, a.session.d
	if err := a.read(ctx); err != nil {
		return err
	}
	all, err := s.locate(ctx, address)
	if err != nil {
		return err
	}
	if a.exam.Fix {
		if err := a.exam.CheckRepair(all, d.opts.Dest, d.selects.Key); err != nil {
			return err
		}
	}
	if a.exam.Plain {
		s.warn(d.opts.Dest, "there is no mirror of ours here: its files were compared by what they are")
	}
	a.exam.Incomplete, a.exam.Withdrawn = len(s.report.Failures) > 0, s.withdrawn
	return a.exam.Run(ctx, all, a.auditSet)
}

// repair brings the mirror of d into step after an audit found differences.
func (a *auditor) repair(ctx context.Context, d *Destination, address string) error {
	o := d.opts
	o.DryRun, o.Baseline, o.CheckLocal = false, false, CheckNever // the audit has checked the files
	m, err := d.with(o)
	if err != nil {
		return err // unreachable: d was made with these options
	}
	m.compare = true
	r, err := m.Sync(ctx, address)
	return a.exam.AddRepair(&r, err, o.Delete == DeleteKeep)
}

// read loads the state. Without Fix, what a killed run left is understood, and is not
// changed.
func (a *auditor) read(ctx context.Context) (err error) {
	s, d := a.session, a.session.d
	if a.exam.Fix {
		if err := s.state.Open(ctx); err != nil {
			return err
		}
		if err := s.state.OpenKeeper(ctx); err != nil { // the session itself is of a dry run
			return err
		}
		a.exam.Plain = s.state.Source.Found == nil
		a.exam.Marks = audit.Marks{Store: d.store, Journal: d.journal, Keep: s.state.Keep, Counts: s.state.Counts, Known: maps.Clone(s.state.Source.Numbers),
			Offered: s.state.Source.OfferedNumbers()}
		return nil
	}
	known, err := s.state.Read(ctx)
	if err != nil {
		return err
	}
	a.exam.Plain = !known
	a.exam.Halfway, err = s.state.Halfway(ctx)
	return err
}

// auditSet compares one set. It reports whether all of its documents could be read.
func (a *auditor) auditSet(ctx context.Context, set *setState) (complete bool, err error) {
	s, d := a.session, a.session.d
	r := newReadRun(s, set)
	defer r.reader.Release(ctx, &err)
	snap, err := expected(ctx, r)
	if err != nil {
		return false, err
	}
	s.report.AddUnproven(reasonsOf(s, set))
	paths, err := pathsOf(ctx, s, r.stage)
	if err != nil {
		return false, err
	}
	p := newPlanner(d, set.Number)
	p.Dated, p.Prune, p.Settled = set.Foreign != nil, r.failed.Count == 0, set.Complete && !r.reselects()
	p.PreferOther, p.Refuse = set.Foreign == nil && d.selects.PrefersOther(set.Selection), r.reader.Refuse
	err = a.exam.Examine(ctx, &audit.Set{State: &set.Set, Held: s.state.Counts[set.Number], Paths: paths, Planner: p, Stage: r.stage,
		Listed: (set.Lists != "" || set.Foreign != nil) && (!snap.Sitemap || d.opts.Delete == DeleteApply)}) // RS-RL-12: a plain Sitemap does not say what it covers
	return r.failed.Count == 0, err
}

// expected stages what the set should contain.
func expected(ctx context.Context, r *setRun) (snap entries.Snapshot, err error) {
	if r.set.Foreign != nil {
		return expectedHarvest(ctx, r)
	}
	if r.docs.Outages, err = outage.Load(ctx, r.d.journal, r.set.Number, r.d.clock); err != nil {
		return snap, err
	}
	return run.Expect(ctx, r.docs)
}
