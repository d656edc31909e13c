package destination

import (
	"context"
	"errors"

	"lockstep/blob"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/report"
)

// applyMirror is the mirror that an Applier changes.
func (d *Destination) applyMirror(keep *history.Keeper, out *outbox.Box[Change]) apply.Mirror {
	m := apply.Mirror{Store: d.store, Journal: d.journal, Keep: keep, Out: applyOutbox{out}, Forgetful: d.isForgetful(),
		In: d.inDest(), Jobs: d.jobs, Open: d.open,
		Errors:   apply.Errors{IsFatal: isFatal, IsFull: isFull, IsPassing: isPassing, NotBefore: plan.NotBefore},
		Describe: describe}
	if s, ok := d.store.(withdrawer); ok {
		m.Withdraw = func(ctx context.Context, cs []apply.Change) error { return s.Withdraw(ctx, publicChanges(cs)) }
	}
	return m
}

// describe passes a Writer that wants one the description of what it writes.
func describe(w blob.Writer, c apply.Change) {
	if w, ok := w.(described); ok {
		w.Describe(Change(c))
	}
}

func publicChanges(cs []apply.Change) []Change {
	changes := make([]Change, len(cs))
	for i, c := range cs {
		changes[i] = Change(c)
	}
	return changes
}

// An applyOutbox is the outbox of a run as an Applier uses it.
type applyOutbox struct{ box *outbox.Box[Change] }

func (o applyOutbox) Delivers() bool     { return o.box.Delivers() }
func (o applyOutbox) Waiting() bool      { return o.box.Waiting() }
func (o applyOutbox) Add(c apply.Change) { o.box.Add(Change(c)) }
func (o applyOutbox) Take() apply.Taken  { return takenChanges{o.box, o.box.Take()} }

func (o applyOutbox) Note(docs map[string][]byte, next []apply.Change) {
	o.box.Note(docs, publicChanges(next))
}

// takenChanges are changes that one transaction saves.
type takenChanges struct {
	box     *outbox.Box[Change]
	changes []Change
}

func (t takenChanges) Save(docs map[string][]byte)     { t.box.Save(docs, t.changes) }
func (t takenChanges) Saved(ctx context.Context) error { return t.box.Saved(ctx, t.changes) }

// An applyReport counts the results of the actions of one set in the report of
// the run, and emits their events.
type applyReport struct {
	report *counting.Report
	set    string // its name
	emit   func(Event)
}

func (r *applyReport) Count(e apply.Effect) {
	switch e {
	case apply.Created:
		r.report.Created++
	case apply.Updated:
		r.report.Updated++
	case apply.Deleted:
		r.report.Deleted++
	default:
		r.report.Unchanged++
	}
}

func (r *applyReport) CountContent(o *transfer.Outcome) { countContent(&r.report.By, o) }

func (r *applyReport) CountRepaired() {
	if l := r.report.Local; l != nil && l.Repaired < l.Damaged() {
		l.Repaired++
	}
}

func (r *applyReport) CountFailure(uri string, err error, later bool) {
	r.report.Failed++
	r.report.FailResource(uri, err, notBeforeOf(err), later)
}

func (r *applyReport) WithdrawFailure(uri string, err error) {
	r.report.Failed--
	r.report.WithdrawFailure(uri, err.Error())
	r.report.WithdrawMissing(uri)
}

func (r *applyReport) Missing(uri string, err error) { r.report.AddMissing(uri, err.Error()) }

func (r *applyReport) Failed(uri string, err error, later bool) {
	r.emit(Event{Kind: EventFailed, Set: r.set, URI: uri, Err: err, Later: later})
}

func (r *applyReport) Refused(uri string, err error) {
	r.report.Refused++
	r.report.FailResource(uri, err, notBeforeOf(err), false)
	r.emit(Event{Kind: EventRefused, Set: r.set, URI: uri, Err: err})
}

func (r *applyReport) NotKept(uri, text string) {
	r.report.NotKept++
	r.Warn(uri, text)
}

func (r *applyReport) Applied(c apply.Change) {
	change := Change(c)
	r.emit(report.AppliedEvent(&change))
}

func (r *applyReport) Warn(uri, text string) {
	if r.report.Warn(text) {
		r.emit(Event{Kind: EventWarning, Set: r.set, URI: uri, Err: errors.New(text)})
	}
}

func (r *applyReport) Progress(p apply.Progress) {
	r.emit(Event{Kind: EventProgress, Set: r.set, Progress: Progress{
		Done: p.Done, Total: p.Total, Bytes: p.Bytes, TotalBytes: p.TotalBytes, Applied: p.Applied, Failed: p.Failed}})
}

// inDest names the mirror in the middle of a sentence.
func (d *Destination) inDest() string {
	if d.opts.Dest == "" {
		return ""
	}
	return " in " + d.opts.Dest
}

// countContent counts the content of an outcome by the method that brought it.
func countContent(b *By, o *transfer.Outcome) {
	switch {
	case o.Action.Verb != plan.Fetch:
	case o.Unchanged:
		b.Unchanged++
	case o.Adopted:
		b.Adopted++
	case o.By == transfer.ByPackage:
		b.Package++
	case o.By == transfer.ByOnDemand:
		b.OnDemand++
	case o.By == transfer.ByPatch:
		b.Patch++
	case o.By == transfer.ByMirror:
		b.Mirror++
	case o.By == transfer.ByMemento:
		b.Memento++
	case o.By == transfer.ByKept:
		b.Kept++
	case o.By == transfer.ByHarvest:
		b.Harvest++
	default:
		b.Request++
	}
}
