package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/blob"
	"lockstep/internal/fetch"
)

// relieve records what is pending when it has become much.
func (p *applier) relieve(ctx context.Context) error {
	if len(p.pending.Put)+len(p.pending.Owe)+len(p.pending.Settle) < 4*batchCount {
		return nil
	}
	return p.record(ctx, nil, false)
}

// record writes what is pending, and the intent of the batch to be committed.
// Without one, keep says whether the intent that stands is still needed.
func (p *applier) record(ctx context.Context, intent []byte, keep bool) error {
	b := p.pending
	b.Save = map[string][]byte{}
	if intent != nil || p.intent && !keep {
		b.Save[docIntent] = intent
		p.out.note(b.Save, p.changes(intent != nil))
	}
	p.out.save(b.Save)
	if len(b.Put)+len(b.Drop) > 0 {
		b.Save[docCounts] = encode(p.counts)
	}
	if len(b.Put)+len(b.Drop)+len(b.Owe)+len(b.Settle)+len(b.Save) == 0 {
		return nil
	}
	if err := p.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("record what is held: %w", err)
	}
	p.intent = intent != nil || p.intent && keep
	p.pending = Batch{}
	return p.out.saved(ctx)
}

// changes returns what the batch is going to change, where that is wanted.
func (p *applier) changes(wanted bool) (changes []Change) {
	if !wanted || p.out.deliver == nil {
		return nil
	}
	for i := range p.batch {
		changes = append(changes, p.change(p.batch[i].action, &p.batch[i].held))
	}
	return changes
}

// recordIntent writes the intent of the batch. When there is no room for it the
// larger half of the batch gives up its own, and so on.
func (p *applier) recordIntent(ctx context.Context) error {
	for {
		var intent []byte
		for i := range p.batch {
			intent = appendHeld(intent, &p.batch[i].held)
		}
		err := p.record(ctx, intent, false)
		if err == nil || !isFull(err) || len(p.batch) == 0 {
			return err
		}
		slices.SortFunc(p.batch, func(a, b outcome) int { return cmp.Compare(a.held.Length, b.held.Length) })
		half := len(p.batch) / 2
		drop := p.batch[half:]
		p.batch = p.batch[:half]
		for i := range drop {
			_ = drop[i].writer.Close() // there is no room to keep it
			p.fetch.names.release(drop[i].held.Path)
		}
		p.full = 0
		for i := range drop {
			p.full = min(p.full, maxFull-1) // they failed together, not in a row
			if err := p.unkept(drop[i].action, err); err != nil {
				return err
			}
		}
	}
}

// commit makes a batch visible and durable.
func (p *applier) commit(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	if err := p.recordIntent(ctx); err != nil {
		p.abandon()
		return err
	}
	batch := p.batch
	p.batch, p.bytes = nil, 0
	p.describe(batch)
	ws := make([]blob.Writer, len(batch))
	for i := range batch {
		ws[i] = batch[i].writer
	}
	for len(batch) > 0 {
		err := p.d.store.Commit(ctx, ws...)
		var ce *blob.CommitError
		if err != nil && (!errors.As(err, &ce) || ce.Done >= len(ws) || isFatal(err) || isCanceled(err)) {
			// Some may be visible. The intent stays: the next run looks.
			p.broken = true
			for i := range batch {
				p.discard(&batch[i])
			}
			return fmt.Errorf("store resources%s: %w", p.d.inDest(), err)
		}
		n := len(ws)
		if err != nil {
			n = ce.Done
		}
		for i := range batch[:n] {
			p.full = 0
			p.settled(&batch[i])
			p.step(batch[i].action, batch[i].held.Length)
		}
		batch, ws = batch[n:], ws[n:]
		if err == nil {
			break
		}
		// One cannot be; the others may.
		bad := max(slices.IndexFunc(ws, func(w blob.Writer) bool { return w.Name() == ce.Name }), 0)
		o := batch[bad]
		batch, ws = slices.Delete(batch, bad, bad+1), slices.Delete(ws, bad, bad+1)
		_ = o.writer.Close() // it takes room, and would fail again
		p.fetch.names.release(o.held.Path)
		if err := p.unkept(o.action, err); err != nil {
			p.broken = true
			for i := range batch {
				p.discard(&batch[i])
			}
			return err
		}
	}
	return nil
}

const (
	// maxFull is how many resources in a row may find no room, smaller ones
	// perhaps, before no more are asked for in vain.
	maxFull = 64

	// maxLater caps those that are tried once more when there may be room.
	maxLater = 10_000
)

// unkept books content that the store would not take. It returns an error
// when it will take nothing else either.
func (p *applier) unkept(a *action, err error) error {
	err = fmt.Errorf("store %s%s: %w", fetch.Printable(a.URI), p.d.inDest(), err)
	if isFatal(err) {
		return err
	}
	if isFull(err) {
		if p.full++; p.full > maxFull {
			return err
		}
		if !p.last && len(p.later) < maxLater {
			p.later, p.tight = append(p.later, *a), true
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

// flush commits and records all there is.
func (p *applier) flush(ctx context.Context) error {
	if err := p.commit(ctx); err != nil {
		return err
	}
	if p.broken {
		return nil // the next run puts it right
	}
	return p.record(ctx, nil, false)
}

// abandon gives up a batch that nothing was said of yet.
func (p *applier) abandon() {
	p.broken = true
	for i := range p.batch {
		p.discard(&p.batch[i])
	}
	p.batch, p.bytes = nil, 0
}

// discard gives up content that is right but cannot be committed now. It is
// left for the next run, if the store can.
func (p *applier) discard(o *outcome) {
	if o.err != nil || o.action.verb != verbFetch {
		return
	}
	p.fetch.names.release(o.held.Path)
	if o.writer == nil {
		return
	}
	if k, ok := o.writer.(blob.Keeper); ok && k.Keep() == nil {
		return
	}
	_ = o.writer.Close() // not wanted any more
}
