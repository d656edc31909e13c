package destination

import (
	"context"

	"lockstep/blob"
	"lockstep/destination/internal/apply"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/plan"
)

// applyMirror is the mirror that an Applier changes.
func (d *Destination) applyMirror(keep *history.Keeper, out *outbox.Box[Change]) apply.Mirror {
	m := apply.Mirror{Store: d.store, Journal: d.journal, Keep: keep, Out: applyOutbox{out}, Forgetful: d.isForgetful(),
		In: d.inDest(), Jobs: d.jobs, Open: d.open,
		Errors:   apply.Errors{IsFatal: failure.IsFatal, IsFull: failure.IsFull, IsPassing: failure.IsPassing, NotBefore: plan.NotBefore},
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

// inDest names the mirror in the middle of a sentence.
func (d *Destination) inDest() string {
	if d.opts.Dest == "" {
		return ""
	}
	return " in " + d.opts.Dest
}
