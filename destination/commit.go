package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
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
	}
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
	return nil
}

// commit makes a batch visible and durable.
func (p *applier) commit(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	var intent []byte
	ws := make([]blob.Writer, len(p.batch))
	for i := range p.batch {
		intent = appendHeld(intent, &p.batch[i].held)
		ws[i] = p.batch[i].writer
	}
	if err := p.record(ctx, intent, false); err != nil {
		p.abandon()
		return err
	}
	batch := p.batch
	p.batch, p.bytes = nil, 0
	for len(batch) > 0 {
		err := p.d.store.Commit(ctx, ws...)
		var ce *blob.CommitError
		if err != nil && (!errors.As(err, &ce) || ce.Done >= len(ws) || isFatal(err) || isCanceled(err)) {
			// Some may be visible. The intent stays: the next run looks.
			p.broken = true
			for i := range batch {
				p.discard(&batch[i])
			}
			return err
		}
		n := len(ws)
		if err != nil {
			n = ce.Done
		}
		for i := range batch[:n] {
			p.settled(&batch[i])
			p.step(batch[i].action, batch[i].held.Length)
		}
		if err != nil { // this one cannot be; the others may
			p.discard(&batch[n])
			p.fail(batch[n].action, err)
			p.step(batch[n].action, 0)
			n++
		}
		batch, ws = batch[n:], ws[n:]
	}
	return nil
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
