package destination

import (
	"context"
	"fmt"
	"maps"
	"time"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/audit"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/proof"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/stage"
	"lockstep/internal/extsort"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
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
	start, requests := time.Now(), d.client.Requests()
	look := d.opts
	look.DryRun = true
	quiet, err := d.with(look)
	if err != nil {
		return AuditReport{}, err // unreachable: d was made with these options
	}
	a := &auditor{session: &session{d: quiet, report: counting.Report{Report: Report{Source: fetch.WithoutUser(address), Sets: []string{}}}, out: newOutbox(d.journal, nil)}, opts: o}
	a.out = AuditReport{Source: fetch.WithoutUser(address), Destination: d.opts.Dest, Content: o.Content}
	a.exam = audit.Audit{Store: quiet.store, Journal: quiet.journal, Partial: len(quiet.opts.Sets) > 0, Marks: &a.marks, Find: a.find, Step: a.step}
	err = a.run(ctx, address)
	a.countWarnings()
	r := &a.out
	r.Resources, r.Verified, r.Read = a.exam.Resources, a.exam.Verified, a.exam.Read
	r.Sets, r.Failures, r.Warnings, r.Withdrawn = a.report.Sets, a.report.Failures, a.report.Warnings, a.report.Withdrawn
	r.InSync = err == nil && r.Differences() == 0
	r.Unproven = a.report.Unproven
	mirrorOf(a.session).SettleAudit(r, err)
	if o.Fix && err == nil && !r.InSync {
		err = d.mend(ctx, address, r)
		r.InSync = r.InSync && a.exam.Orphans == 0
	}
	r.Complete = r.InSync && len(r.Unproven) == 0
	r.Requests, r.Elapsed = d.client.Requests()-requests, time.Since(start).Seconds()
	return *r, err
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

// An auditor is one audit in progress.
type auditor struct {
	*session
	opts AuditOptions
	sums content.Hashers
	out  AuditReport

	exam  audit.Audit
	marks audit.Marks // with Fix: what is to be repaired

	plain    bool      // there is no Journal: the files are all there is
	total    int64     // resources to be looked at, as far as it is known
	done     int64     // resources that were looked at
	lastTick time.Time // when progress was reported
}

func (a *auditor) run(ctx context.Context, address string) (err error) {
	if err := a.read(ctx); err != nil {
		return err
	}
	sets, err := a.locate(ctx, address)
	if err != nil {
		return err
	}
	if a.opts.Fix {
		if err := a.mayFix(sets); err != nil {
			return err
		}
	}
	if a.plain {
		a.warn(a.d.opts.Dest, "there is no mirror of ours here: its files were compared by what they are")
	}
	names := scratch.RoomOf(a.d.journal).Sorter()
	defer func() {
		if cerr := names.Close(); err == nil {
			err = cerr
		}
	}()
	incomplete := len(a.report.Failures) > 0
	a.exam.Numbers = make(map[int]bool, len(sets))
	for _, set := range sets {
		a.exam.Numbers[set.Number] = true
	}
	for i, set := range sets {
		complete, err := a.auditSet(ctx, set, sets[:i], names)
		if err != nil {
			return err
		}
		incomplete = incomplete || !complete
	}
	if !a.d.isForgetful() {
		if err := a.exam.FindForeign(ctx, names, a.plain); err != nil {
			return err
		}
	}
	if incomplete {
		return fmt.Errorf("%w: documents could not be read", ErrIncomplete)
	}
	if a.d.selects.Restricts() && a.exam.Offered > 0 && a.exam.Selected == 0 {
		return &SelectionError{Listed: a.exam.Offered}
	}
	return nil
}

// read loads the state. Without Fix, what a killed run left is understood, and
// left as it is.
func (a *auditor) read(ctx context.Context) error {
	if a.opts.Fix {
		if err := a.session.open(ctx); err != nil {
			return err
		}
		var err error
		if a.keep, err = openKeeper(ctx, a.d, &a.mirror, !a.resume); err != nil { // the session itself is of a dry run
			return err
		}
		a.plain = a.mirror.Found == nil
		a.marks = audit.Marks{Store: a.d.store, Journal: a.d.journal, Keep: a.keep, Counts: a.counts, Known: maps.Clone(a.mirror.Numbers)}
		return nil
	}
	a.counts = saved.Counts{}
	known, err := saved.Load(ctx, a.d.journal, saved.DocMirror, &a.mirror)
	if err != nil {
		return err
	}
	a.plain = !known
	if a.mirror.Numbers == nil {
		a.mirror.Numbers = map[string]int{}
	}
	if _, err := saved.Load(ctx, a.d.journal, saved.DocCounts, &a.counts); err != nil {
		return err
	}
	killed := killedRun(a.d)
	a.exam.Halfway, err = killed.Read(ctx)
	return err
}

// auditSet compares one set. Files that a set before contains have been
// looked at.
func (a *auditor) auditSet(ctx context.Context, set *setState, before []*setState, names *extsort.Sorter) (complete bool, err error) {
	r := &setRun{session: a.session, set: set, stage: stage.New(a.d.journal), outages: outage.New(a.d.clock)}
	r.reader = newSetReader(a.d, set, a.home, a.file, r.stage, a.warn, r.fail)
	defer r.reader.Packages.Shelf.Clear()
	defer func() {
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	snap, err := r.expected(ctx)
	if err != nil {
		return false, err
	}
	addReasons(a.session, set, &SetReport{})
	if err := findOrigin(ctx, r.session, r.stage); err != nil {
		return false, err
	}
	paths, err := a.paths()
	if err != nil {
		return false, err
	}
	checker := audit.Checker{Number: set.Number, Name: set.Name, Plain: a.plain, Content: a.opts.Content, Fix: a.opts.Fix,
		Withdrawn: a.withdrawn, Store: a.d.store, Forgetful: a.d.isForgetful(), Paths: paths, Sums: &a.sums}
	// RS-RL-12: a plain Sitemap does not say what it covers.
	checker.Listed = (set.Lists != "" || set.Foreign != nil) && (!snap.Sitemap || a.d.opts.Delete == DeleteApply)
	for _, b := range before {
		checker.Before = append(checker.Before, b.Number)
	}
	p := newPlanner(a.d, set.Number)
	p.Dated, p.Prune, p.Settled = set.Foreign != nil, r.failed == 0, set.Complete && !r.reselects()
	p.PreferOther, p.Refuse = set.Foreign == nil && a.d.selects.PrefersOther(set.Selection), r.reader.Refuse
	if set.Foreign != nil {
		if checker.Excused, err = a.excusedOf(ctx, set.Number); err != nil {
			return false, err
		}
	}
	a.total = max(a.done, a.counts[set.Number])
	a.d.emit(Event{Kind: EventPlan, Set: set.Name, Progress: Progress{Total: a.total}})
	w := names.Writer()
	defer names.Release(w)
	if err := a.exam.Add(&set.Set, checker, p).Examine(ctx, r.stage, w); err != nil {
		return false, err
	}
	return r.failed == 0, a.marks.Flush(ctx)
}

// excusedOf returns the optional representations of a set that sync has reported as
// not served. Of those beyond the limit an audit says that they are missing.
func (a *auditor) excusedOf(ctx context.Context, n int) (map[string]bool, error) {
	excused := map[string]bool{}
	for o, err := range a.d.journal.Owed(ctx, n) {
		if err != nil {
			return nil, err
		}
		w, _, err := desired.Decode(o.URI, string(o.Entry))
		if err != nil {
			return nil, err
		}
		if w.Excused && len(excused) < apply.MaxStale {
			excused[o.URI] = true
		}
	}
	return excused, nil
}

// expected stages what the set should contain: for a set without a Resource
// List, the result of its changes.
func (r *setRun) expected(ctx context.Context) (snap entries.Snapshot, err error) {
	if r.set.Foreign != nil {
		return expectedHarvest(ctx, r)
	}
	if r.set.Lists == "" && r.set.Changes == "" {
		r.reader.Fail(r.set.URI, fmt.Errorf("read %s: the set offers none of Resource List, Resource Dump, Change List and Change Dump", fetch.Printable(r.set.URI)))
		return snap, nil
	}
	if r.outages, err = outage.Load(ctx, r.d.journal, r.set.Number, r.d.clock); err != nil {
		return snap, err
	}
	r.compared = true
	var at resourcesync.Datetime
	if r.set.Lists != "" {
		if snap, err = r.readSetList(ctx); err != nil {
			return snap, err
		}
		at = snap.At
	}
	fresh := *r.set
	fresh.Cursor, fresh.Seen, fresh.SeenTime = saved.Cursor{}, nil, time.Time{}
	c, err := r.readSetChanges(ctx, at, &fresh, false)
	if err != nil {
		return snap, err
	}
	if len(r.noChanges) > 0 {
		c = r.useList(&snap, &c)
	}
	if len(r.listCause) > 0 {
		if (r.set.Changes == "" || len(r.noChanges) > 0) && !r.isFresh(at) {
			r.failAll(r.listCause)
		} else {
			r.useDump(at)
		}
	}
	if r.set.Changes == "" || len(r.noChanges) > 0 {
		return snap, nil
	}
	proof.Review(&r.set.Set, &c, at)
	if gap := c.GapAfter(at); gap != "" {
		r.warn(r.set.Changes, fmt.Sprintf("set %s: %s", r.set.Name, gap))
	}
	return snap, nil
}

// find counts and reports a finding.
func (a *auditor) find(found *audit.Finding) {
	found.Printable()
	f := publicFinding(found)
	a.out.Count(&f)
	a.d.emit(Event{Kind: EventFinding, Set: f.Set, URI: f.URI, Path: f.Path, Finding: f})
}

// step reports progress, at intervals.
func (a *auditor) step(set string) {
	a.done++
	if a.d.opts.OnEvent == nil || a.done%64 != 0 || time.Since(a.lastTick) < tickEvery {
		return
	}
	a.lastTick = time.Now()
	a.d.emit(Event{Kind: EventProgress, Set: set, Progress: Progress{Done: a.done, Total: max(a.total, a.done), Bytes: a.exam.Read}})
}
