package reconcile

import (
	"errors"

	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/counting"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/report"
)

// results counts the results of the actions of one set in the report of the run,
// and emits their events.
type results struct {
	report *counting.Report
	set    string // its name
	emit   func(report.Event)
	again  bool // what is in step was fetched in this run, and counted
}

func (r *results) Count(e apply.Effect) {
	switch e {
	case apply.InStep:
		if !r.again {
			r.report.Unchanged++
		}
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

// CountContent counts the content of an outcome by the method that brought it.
func (r *results) CountContent(o *transfer.Outcome) {
	b := &r.report.By
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

func (r *results) CountRepaired() {
	if l := r.report.Local; l != nil && l.Repaired < l.Damaged() {
		l.Repaired++
	}
}

func (r *results) CountFailure(uri string, err error, later bool) {
	r.report.Failed++
	r.report.FailResource(uri, err, plan.NotBefore(err), later)
}

func (r *results) WithdrawFailure(uri string, err error) {
	r.report.Failed--
	r.report.WithdrawFailure(uri, err.Error())
	r.report.WithdrawMissing(uri)
}

func (r *results) Missing(uri string, err error) { r.report.AddMissing(uri, err.Error()) }

func (r *results) Failed(uri string, err error, later bool) {
	r.emit(report.Event{Kind: report.EventFailed, Set: r.set, URI: uri, Err: err, Later: later})
}

func (r *results) Refused(uri string, err error) {
	r.report.Refused++
	r.report.FailResource(uri, err, plan.NotBefore(err), false)
	r.emit(report.Event{Kind: report.EventRefused, Set: r.set, URI: uri, Err: err})
}

func (r *results) NotKept(uri, text string) {
	r.report.NotKept++
	r.Warn(uri, text)
}

func (r *results) Applied(c report.Change) {
	r.emit(report.AppliedEvent(&c))
}

func (r *results) Warn(uri, text string) {
	if r.report.Warn(text) {
		r.emit(report.Event{Kind: report.EventWarning, Set: r.set, URI: uri, Err: errors.New(text)})
	}
}

func (r *results) Progress(p report.Progress) {
	r.emit(report.Event{Kind: report.EventProgress, Set: r.set, Progress: p})
}
