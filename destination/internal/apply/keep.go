package apply

import (
	"context"
	"fmt"

	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// keepBatch keeps what the contents of a shipment are to replace. What cannot
// be kept is not replaced.
func (c *committer) keepBatch(ctx context.Context, l *shipment) {
	if !c.mirror.Keep.IsOn() {
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
	for i, kept := range c.mirror.Keep.Capture(ctx, hs) {
		l.batch[at[i]].Past = &kept.Past
		switch {
		case kept.Err != nil:
			failed[at[i]] = kept.Err
		case kept.Lost != nil && plan.SameContent(kept.Lost, &l.batch[at[i]].Held): // it was repaired
		case kept.Warning != "":
			l.unkept = append(l.unkept, unkept{kept.Past.URI, kept.Warning})
		}
	}
	if len(failed) == 0 {
		return
	}
	rest := make([]transfer.Outcome, 0, len(l.batch))
	for i := range l.batch {
		if err := failed[i]; err != nil {
			c.drop(l, l.batch[i], err, true)
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
func (p *Applier) keepRemoved(ctx context.Context, batch []plan.Action) ([]plan.Action, error) {
	if !p.mirror.Keep.IsOn() || len(batch) == 0 {
		return batch, nil
	}
	hs := make([]journal.Held, len(batch))
	for i := range batch {
		hs[i] = batch[i].Held
	}
	var b journal.Batch
	var rest []plan.Action
	for i, c := range p.mirror.Keep.Capture(ctx, hs) {
		switch {
		case c.Err != nil && (ctx.Err() != nil || failure.IsFatal(c.Err)):
			return nil, c.Err
		case c.Err != nil:
			p.Recorder.fail(&batch[i], fmt.Errorf("remove %s%s: %w", fetch.Printable(batch[i].URI), p.mirror.In, c.Err))
			continue
		case c.Warning != "":
			p.Recorder.Report.NotKept(c.Past.URI, c.Warning)
		}
		b.Past, rest = append(b.Past, c.Past), append(rest, batch[i])
	}
	if err := p.mirror.Keep.Record(ctx, p.mirror.Journal, b); err != nil {
		return nil, fmt.Errorf("record what is removed: %w", err)
	}
	return rest, nil
}
