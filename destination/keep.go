package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/history"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// A Keep says which versions a mirror keeps of resources that are replaced or
// removed. At most one field is set. If none is, the mirror keeps its recorded
// setting; a mirror without one keeps no versions.
type Keep struct {
	All   bool          `json:"all,omitempty"`
	Count int           `json:"count,omitempty"` // this many versions of each resource, the newest
	Age   time.Duration `json:"age,omitempty"`   // every version that was current within this time
	None  bool          `json:"none,omitempty"`  // no version, not even those kept so far
}

func (k Keep) check() error {
	set := 0
	for _, is := range []bool{k.All, k.Count != 0, k.Age != 0, k.None} {
		if is {
			set++
		}
	}
	if set > 1 || k.Count < 0 || k.Age < 0 {
		return errors.New("which versions to keep: want all, a number of them above 0, or an age")
	}
	return nil
}

// openKeeper starts to record versions if the mirror is to keep any. whole says
// that the mirror is in the state that a completed run left.
func openKeeper(ctx context.Context, d *Destination, mirror *saved.Mirror, whole bool) (*history.Keeper, error) {
	m := history.Mirror{Journal: d.journal, Files: d.store, Versions: d.vault, Log: d.log, Clock: d.clock, Open: d.kept,
		Unavailable: isUnreadable}
	return history.Open(ctx, m, history.Rule(d.opts.Keep), whole, func(mark func(int, time.Time)) (known bool, err error) {
		if mirror.Found == nil {
			return false, nil
		}
		for _, n := range mirror.Numbers {
			var st saved.Set
			if _, err := saved.Load(ctx, d.journal, saved.DocSet(n), &st); err != nil {
				return false, err
			}
			mark(st.Number, st.Watermark)
		}
		return true, nil
	})
}

// endKeeping records that a run has completed, and reports the versions that are
// kept.
func endKeeping(ctx context.Context, k *history.Keeper, r *Report) error {
	if err := k.End(ctx); err != nil {
		return err
	}
	if k.IsOn() {
		versions, bytes, since := k.Kept()
		r.Kept = &Kept{Versions: versions, Bytes: bytes, Since: since}
	}
	return nil
}

// keptContent opens the contents that the mirror holds or has kept.
func keptContent(d *Destination) *history.Content {
	return &history.Content{Journal: d.journal, Files: d.store, Versions: d.vault}
}

// keepBatch keeps what the contents of a shipment are to replace. What cannot
// be kept is not replaced.
func (p *applier) keepBatch(ctx context.Context, l *shipment) {
	if !p.keep.IsOn() {
		return
	}
	var at []int // of those that replace something
	var hs []journal.Held
	for i := range l.batch {
		o := &l.batch[i]
		before, after := &o.Action.Held, &o.Held
		if o.Action.IsHeld() && !plan.SameContent(before, after) {
			at, hs = append(at, i), append(hs, *before)
		}
		if history.Differs(before, after) {
			past := history.Before(o.Action.URI, before)
			o.Past = &past
		}
	}
	failed := map[int]error{}
	for i, c := range p.keep.Capture(ctx, hs) {
		l.batch[at[i]].Past = &c.Past
		switch {
		case c.Err != nil:
			failed[at[i]] = c.Err
		case c.Lost != nil && plan.SameContent(c.Lost, &l.batch[at[i]].Held): // it was repaired
		case c.Warning != "":
			l.unkept = append(l.unkept, Failure{URI: c.Past.URI, Cause: c.Warning})
		}
	}
	if len(failed) == 0 {
		return
	}
	rest := make([]transfer.Outcome, 0, len(l.batch))
	for i := range l.batch {
		if err := failed[i]; err != nil {
			l.drop(p, l.batch[i], err, true)
		} else {
			rest = append(rest, l.batch[i])
		}
	}
	l.batch = rest
}

// past returns what a shipment says of the past.
func (l *shipment) past() []journal.Past {
	ps := l.rows.Past
	for i := range l.batch {
		if past := l.batch[i].Past; past != nil {
			ps = append(ps, *past)
		}
	}
	return ps
}

// keepRemoved keeps what is to be removed, and notes it. It returns what may be
// removed; the rest has failed.
func (p *applier) keepRemoved(ctx context.Context, batch []plan.Action) ([]plan.Action, error) {
	if !p.keep.IsOn() || len(batch) == 0 {
		return batch, nil
	}
	hs := make([]journal.Held, len(batch))
	for i := range batch {
		hs[i] = batch[i].Held
	}
	var b journal.Batch
	var rest []plan.Action
	for i, c := range p.keep.Capture(ctx, hs) {
		switch {
		case c.Err != nil && (ctx.Err() != nil || isFatal(c.Err)):
			return nil, c.Err
		case c.Err != nil:
			p.fail(&batch[i], fmt.Errorf("remove %s%s: %w", fetch.Printable(batch[i].URI), p.d.inDest(), c.Err))
			continue
		case c.Warning != "":
			p.notKept(c.Past.URI, c.Warning)
		}
		b.Past, rest = append(b.Past, c.Past), append(rest, batch[i])
	}
	if err := p.keep.Record(ctx, p.d.journal, b); err != nil {
		return nil, fmt.Errorf("record what is removed: %w", err)
	}
	return rest, nil
}

// notKept warns of a version of which nothing was left to keep.
func (p *applier) notKept(uri, text string) {
	p.report.NotKept++
	p.warn(uri, text)
}
