package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// The bounds of a batch. A larger one costs fewer synchronisations of the disk
// and transactions; all of it is fetched again if we are killed before it is
// committed, unless the store can resume what was left. It is committed when it
// has one of these; while the batch before is being committed, it grows.
const (
	batchCount = 1024
	batchBytes = 64 << 20
	batchAge   = 200 * time.Millisecond
)

// The outcomes that wait for the batch before are bounded, too: beyond that,
// fetchers block.
const (
	mostCount = 4 * batchCount
	mostBytes = 2 * batchBytes
	mostOpen  = 256 // files
	mostRows  = 16 * batchCount
)

// A shipment is what goes to the disk together: rows to be recorded, those of the
// batch before, and a batch of contents to be committed. What it needs is
// handed over with it, so that the next one can collect meanwhile.
type shipment struct {
	batch  []transfer.Outcome
	rows   journal.Batch
	counts []byte // to be saved with rows; nil: nothing changed
	news   []Change
	places bool      // a change of places is done
	stands bool      // the Journal holds an intent that is of no use any more
	unkept []Failure // versions that could not be kept

	// The result.
	intent bool     // the Journal holds its intent
	ends   []ending // in the order in which they came about
	rest   []transfer.Outcome
	err    error // nothing more can be done; it is unknown which part of rest was committed
}

// An ending is the result for one content of a shipment: it was committed, or
// the store rejected it.
type ending struct {
	transfer.Outcome
	err      error
	together bool // with others, for one reason
}

// nextShipment takes what has gathered. Without a batch, keep says that the
// existing intent is still needed.
func (p *applier) nextShipment(keep bool) *shipment {
	l := &shipment{batch: p.batch, rows: p.pending, news: p.out.Take(), stands: p.intent && !keep, places: p.places}
	p.places = false
	if len(l.rows.Put)+len(l.rows.Drop) > 0 {
		l.counts = saved.Encode(p.counts)
	}
	p.batch, p.bytes, p.open, p.pending = nil, 0, 0, journal.Batch{}
	p.many.Store(false)
	return l
}

// isRipe reports whether it is time for the next shipment; end says that nothing
// more will come.
func (p *applier) isRipe(end bool) bool {
	switch n := len(p.batch); {
	case end && (n > 0 || p.intent || p.rows() > 0 || p.out.Waiting()):
		return true
	case n >= batchCount || p.bytes >= batchBytes || p.open >= p.d.open || p.rows() >= 4*batchCount:
		return true
	default:
		return n > 0 && time.Since(p.begun) >= batchAge
	}
}

// isCrowded reports whether the one before has to come back first.
func (p *applier) isCrowded() bool {
	return len(p.batch) >= mostCount || p.bytes >= mostBytes || p.open >= p.d.open || p.rows() >= mostRows
}

func (p *applier) rows() int {
	return len(p.pending.Put) + len(p.pending.Drop) + len(p.pending.Owe) + len(p.pending.Settle)
}

// bookShipment records the result of a shipment.
func (p *applier) bookShipment(l *shipment) error {
	p.intent = l.intent
	err := l.err
	for _, f := range l.unkept {
		p.notKept(f.URI, f.Cause)
	}
	for i := range l.ends {
		e := &l.ends[i]
		if e.err == nil {
			p.full = 0
			if v, ok := e.Writer.(blob.Versioned); ok {
				e.Held.Tag = v.Version()
			}
			p.settled(&e.Outcome)
			p.step(e.Action, e.Held.Length)
			continue
		}
		if e.together {
			p.full = min(p.full, maxFull-1) // they failed together, not in a row
		}
		if uerr := p.unkept(e.Action, e.err); err == nil {
			err = uerr
		}
	}
	if l.err != nil {
		p.broken = true
		p.abandon(l.rest)
		p.abandon(p.batch)
		p.batch, p.bytes, p.open = nil, 0, 0
	}
	return err
}

// record writes pending rows at once.
func (p *applier) record(ctx context.Context, keep bool) error {
	l := p.nextShipment(keep)
	err := p.save(ctx, l)
	p.intent = p.intent && !l.stands
	return err
}

// carry records and commits a shipment. It is all that happens to it outside of
// collect, and touches nothing of the applier that changes.
func (p *applier) carry(ctx context.Context, l *shipment) {
	p.keepBatch(ctx, l)
	if l.err = ctx.Err(); l.err == nil {
		l.err = p.saveIntent(ctx, l)
	}
	if l.err != nil {
		l.rest = l.batch
		return
	}
	batch := l.batch
	p.describe(batch)
	ws := make([]blob.Writer, len(batch))
	for i := range batch {
		ws[i] = batch[i].Writer
	}
	for full, waits := 0, 0; len(batch) > 0; {
		err := p.d.store.Commit(ctx, ws...)
		if n, again := content.CommittedBefore(err, len(ws)); again && waits < content.MaxFileWaits && content.Pause(ctx, content.FileWait) {
			for i := range batch[:n] {
				l.ends = append(l.ends, ending{Outcome: batch[i]})
			}
			batch, ws = batch[n:], ws[n:]
			if waits++; n > 0 {
				waits = 0
			}
			continue
		}
		var ce *blob.CommitError
		if err != nil && (!errors.As(err, &ce) || ce.Done >= len(ws) || isFatal(err) || isCanceled(err)) {
			// Some may be visible. The intent stays: the next run looks.
			l.rest, l.err = batch, fmt.Errorf("store resources%s: %w", p.d.inDest(), err)
			return
		}
		n := len(ws)
		if err != nil {
			n = ce.Done
		}
		for i := range batch[:n] {
			full = 0
			l.ends = append(l.ends, ending{Outcome: batch[i]})
		}
		batch, ws = batch[n:], ws[n:]
		if err == nil {
			break
		}
		// One cannot be; the others may.
		bad := max(slices.IndexFunc(ws, func(w blob.Writer) bool { return w.Name() == ce.Name }), 0)
		l.drop(p, batch[bad], err, false)
		batch, ws = slices.Delete(batch, bad, bad+1), slices.Delete(ws, bad, bad+1)
		if full++; isFull(err) && full > maxFull || isDown(err) && full >= maxDown {
			l.rest, l.err = batch, fmt.Errorf("store resources%s: %w", p.d.inDest(), err)
			return
		}
	}
}

// drop discards a content that the store rejected.
func (s *shipment) drop(p *applier, o transfer.Outcome, err error, together bool) {
	_ = o.Writer.Close() // it takes room, and would fail again
	p.fetch.Names.Release(o.Held.Path)
	s.ends = append(s.ends, ending{Outcome: o, err: err, together: together})
}

// saveIntent records the rows and the intent of a shipment. When there is no room
// for it the larger half of the batch gives up its own, and so on.
func (p *applier) saveIntent(ctx context.Context, l *shipment) error {
	for {
		err := p.save(ctx, l)
		if err == nil || !isFull(err) || len(l.batch) == 0 {
			return err
		}
		slices.SortFunc(l.batch, func(a, b transfer.Outcome) int { return cmp.Compare(a.Held.Length, b.Held.Length) })
		half := len(l.batch) / 2
		for _, o := range l.batch[half:] {
			l.drop(p, o, err, true)
		}
		l.batch = l.batch[:half]
	}
}

// save writes the rows and the intent of a shipment in one transaction.
func (p *applier) save(ctx context.Context, l *shipment) error {
	b := l.rows
	b.Past = l.past()
	b.Save = map[string][]byte{}
	if len(l.batch) > 0 || l.stands {
		b.Save[saved.DocIntent] = intentOf(l.batch)
		p.out.Note(b.Save, p.changes(l.batch))
	}
	p.out.Save(b.Save, l.news)
	if l.counts != nil {
		b.Save[saved.DocCounts] = l.counts
	}
	if l.places {
		b.Save[places.DocChange] = nil
	}
	if err := p.doubtOthers(ctx, l.batch, b.Save); err != nil {
		return err
	}
	if len(b.Put)+len(b.Drop)+len(b.Owe)+len(b.Settle)+len(b.Save)+len(b.Past) == 0 {
		return nil
	}
	if err := p.keep.Record(ctx, p.d.journal, b); err != nil {
		return fmt.Errorf("record what is held: %w", err)
	}
	l.intent = len(l.batch) > 0
	return p.out.Saved(ctx, l.news)
}

// doubtOthers adds to docs that other sets, which share resources of a batch
// that return to a past state, have to be compared as a whole: nothing those
// sets receive says that the resources have changed.
func (p *applier) doubtOthers(ctx context.Context, batch []transfer.Outcome, docs map[string][]byte) error {
	if !p.fetch.OfPast {
		return nil
	}
	looked := map[int]bool{p.set.Number: true}
	for i := range batch {
		for _, n := range batch[i].Held.Sets {
			if looked[n] {
				continue
			}
			looked[n] = true
			var st setState
			name := saved.DocSet(n)
			known, err := saved.Load(ctx, p.d.journal, name, &st)
			if err != nil {
				return err
			}
			if known && st.Complete {
				st.Complete = false
				docs[name] = saved.Encode(&st)
			}
		}
	}
	return nil
}

// intentOf returns the document that says what a batch is; nil of none.
func intentOf(batch []transfer.Outcome) []byte {
	var intent []byte
	for i := range batch {
		intent = desired.AppendHeld(intent, &batch[i].Held)
	}
	return intent
}

// changes returns what a batch is going to change, where that is wanted.
func (p *applier) changes(batch []transfer.Outcome) (changes []Change) {
	if !p.out.Delivers() {
		return nil
	}
	for i := range batch {
		changes = append(changes, p.change(batch[i].Action, &batch[i].Held))
	}
	return changes
}

const (
	// maxFull is how many resources in a row may fail for lack of space,
	// perhaps smaller ones each time, before no more are requested.
	maxFull = 64

	// maxLater caps those that are tried once more when there may be room, or
	// when they have got another place.
	maxLater = 10_000
)

// unkept records content that the store rejected. It returns an error if the
// store will reject everything else, too.
func (p *applier) unkept(a *plan.Action, err error) error {
	err = fmt.Errorf("store %s%s: %w", fetch.Printable(a.URI), p.d.inDest(), err)
	if isFatal(err) {
		return err
	}
	if down := isDown(err); down || isFull(err) {
		if p.full++; p.full > maxFull || down && p.full >= maxDown {
			return err
		}
	}
	if !p.last && len(p.later) < maxLater {
		switch {
		case isFull(err):
			p.later, p.tight = append(p.later, *a), true
			return nil
		case reserve.InTheWay(err): // a run that was killed may have removed its file
			again := *a
			again.Moves = a.IsHeld()
			p.later = append(p.later, again)
			return nil
		}
	}
	p.fail(a, err)
	p.step(a, 0)
	return nil
}

// inDest names the mirror in the middle of a sentence.
func (d *Destination) inDest() string {
	if d.opts.Dest == "" {
		return ""
	}
	return " in " + d.opts.Dest
}

// abandon discards a batch of which nothing was recorded yet.
func (p *applier) abandon(batch []transfer.Outcome) {
	for i := range batch {
		p.discard(&batch[i])
	}
}

// discard gives up content that is right but cannot be committed now. It is
// left for the next run, if the store can.
func (p *applier) discard(o *transfer.Outcome) {
	if o.Err != nil || o.Action.Verb != plan.Fetch {
		return
	}
	p.fetch.Names.Release(o.Held.Path)
	if o.Writer == nil {
		return
	}
	if k, ok := o.Writer.(blob.Keeper); ok && k.Keep() == nil {
		return
	}
	_ = o.Writer.Close() // not wanted any more
}
