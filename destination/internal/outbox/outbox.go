// Package outbox delivers changes to a consumer, each at least once.
package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"lockstep/destination/journal"
)

// The documents in the Journal. Both are JSON lines.
const (
	docBatch   = "news"   // the changes of the batch that is being committed
	docPending = "outbox" // changes that are to be delivered
)

// A Box delivers changes, each at least once. The changes of a batch are
// saved in the transaction that records its rows, and removed when they were
// delivered: after a crash, or a failed delivery, the next run delivers them.
// Changes of a batch that is being committed are recorded next to its intent,
// for the run that may have to settle it.
type Box[C any] struct {
	journal journal.Journal
	deliver func(context.Context, []C) (taken int, err error) // nil: there is no consumer
	line    func(*C) any

	applied []C   // to be saved with the next transaction
	pending []C   // saved
	err     error // a delivery failed: none is tried again in this run
	noted   bool  // changes of a batch may be recorded beside its intent
}

// New returns a Box that stores changes in j, each as the JSON of its line. The
// function deliver returns how many changes the consumer took; it is nil if
// there is no consumer.
func New[C any](j journal.Journal, deliver func(context.Context, []C) (int, error), line func(*C) any) *Box[C] {
	return &Box[C]{journal: j, deliver: deliver, line: line}
}

// Load reads the changes that earlier runs have not delivered.
func (b *Box[C]) Load(ctx context.Context) error {
	doc, err := b.journal.Load(ctx, docPending)
	if err != nil {
		return err
	}
	b.pending, err = parse[C](doc)
	return err
}

// Delivers reports whether there is a consumer.
func (b *Box[C]) Delivers() bool { return b.deliver != nil }

// Pending returns how many changes are saved and not delivered.
func (b *Box[C]) Pending() int { return len(b.pending) }

// Add adds a change that was applied, if there is a consumer.
func (b *Box[C]) Add(c C) {
	if b.deliver != nil {
		b.applied = append(b.applied, c)
	}
}

// AddNoted adds a change that an earlier run noted: it has to be delivered, if
// not by this run, by a later one.
func (b *Box[C]) AddNoted(c C) { b.applied = append(b.applied, c) }

// Waiting reports whether there are changes to be saved.
func (b *Box[C]) Waiting() bool { return len(b.applied) > 0 }

// Take returns the changes that are to be saved with the next transaction. It
// may be called concurrently with other methods, except that Save, Note and
// Saved belong to one goroutine at a time.
func (b *Box[C]) Take() []C {
	applied := b.applied
	b.applied = nil
	return applied
}

// Save adds the taken changes to the documents of a transaction.
func (b *Box[C]) Save(docs map[string][]byte, taken []C) {
	if len(taken) > 0 {
		docs[docPending] = b.lines(b.pending, taken)
	}
}

// Note adds the changes of a batch to the transaction that saves its intent;
// without changes, that there is no such batch any more.
func (b *Box[C]) Note(docs map[string][]byte, batch []C) {
	switch {
	case len(batch) > 0 && b.deliver != nil:
		docs[docBatch], b.noted = b.lines(batch), true
	case b.noted:
		docs[docBatch] = nil // again with each later intent, as this transaction may fail
	}
}

// Noted returns the changes of the batch that an earlier run was committing
// when it was killed.
func (b *Box[C]) Noted(ctx context.Context) ([]C, error) {
	doc, err := b.journal.Load(ctx, docBatch)
	if err != nil {
		return nil, err
	}
	return parse[C](doc)
}

// ForgetNoted adds to the documents of a transaction that the batch of Noted is
// settled.
func (b *Box[C]) ForgetNoted(docs map[string][]byte) { docs[docBatch] = nil }

// Keep is called after a transaction that Save has seen, to deliver the changes
// later.
func (b *Box[C]) Keep(taken []C) { b.pending = append(b.pending, taken...) }

// Saved is called after a transaction that Save has seen. It delivers all
// pending changes, and blocks until the consumer has taken them.
func (b *Box[C]) Saved(ctx context.Context, taken []C) error {
	b.Keep(taken)
	return b.Send(ctx)
}

// Send delivers the pending changes.
func (b *Box[C]) Send(ctx context.Context) error {
	if len(b.pending) == 0 || b.deliver == nil || b.err != nil {
		return b.err
	}
	n, err := b.deliver(ctx, b.pending)
	b.err = err
	if n > 0 {
		b.pending = append([]C(nil), b.pending[n:]...) // a slice of it would keep all of them in memory until the next change
		save := map[string][]byte{docPending: b.lines(b.pending)}
		if rerr := b.journal.Record(context.WithoutCancel(ctx), journal.Batch{Save: save}); rerr != nil && err == nil {
			return fmt.Errorf("record what was handed over: %w", rerr)
		}
	}
	return err
}

// lines encodes changes; no changes are nil.
func (b *Box[C]) lines(lists ...[]C) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, list := range lists {
		for i := range list {
			if err := enc.Encode(b.line(&list[i])); err != nil {
				panic(err) // unreachable: strings and numbers
			}
		}
	}
	return buf.Bytes()
}

// parse reverses lines.
func parse[C any](doc []byte) ([]C, error) {
	var changes []C
	for line := range bytes.Lines(doc) {
		var c C
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("read what is to be handed over from journal: %w", err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}
