package destination

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// An outbox delivers changes, each at least once. The changes of a batch are
// saved in the transaction that records its rows, and removed when they were
// delivered: after a crash, or a failed delivery, the next run delivers them.
// Changes of a batch that is being committed are recorded next to its intent,
// for the run that may have to settle it.
//
// The two documents are JSON lines.
type outbox struct {
	journal journal.Journal
	deliver func(context.Context, []Change) (taken int, err error) // nil: there is no consumer

	news  []Change // applied, to be saved with the next transaction
	due   []Change // saved
	err   error    // a delivery failed: none is tried again in this run
	noted bool     // there is a note beside an intent
}

// A DeliveryError reports that [Options.Deliver] did not take a batch. The run
// stopped; what was applied is kept, and handed over again by the next run.
type DeliveryError struct{ Err error }

func (e *DeliveryError) Error() string { return fmt.Sprintf("hand over changes: %v", e.Err) }

// Unwrap returns what Deliver said.
func (e *DeliveryError) Unwrap() error { return e.Err }

// load reads what earlier runs left.
func (o *outbox) load(ctx context.Context) error {
	b, err := o.journal.Load(ctx, saved.DocOutbox)
	if err != nil {
		return err
	}
	o.due, err = parseChanges(b)
	return err
}

// add adds a change that was applied.
func (o *outbox) add(c *Change) {
	if o.deliver != nil {
		o.news = append(o.news, *c)
	}
}

// waiting reports whether there are changes to be saved.
func (o *outbox) waiting() bool { return len(o.news) > 0 }

// take returns the changes that are to be saved with the next transaction. It
// may be called concurrently with other methods, except that save, note and
// saved belong to one goroutine at a time.
func (o *outbox) take() []Change {
	news := o.news
	o.news = nil
	return news
}

// save adds to a transaction what has to be remembered.
func (o *outbox) save(docs map[string][]byte, news []Change) {
	if len(news) > 0 {
		docs[saved.DocOutbox] = changeLines(o.due, news)
	}
}

// note adds to a transaction the batch whose intent it saves; without a batch,
// that there is none any more.
func (o *outbox) note(docs map[string][]byte, batch []Change) {
	switch {
	case len(batch) > 0 && o.deliver != nil:
		docs[saved.DocNews], o.noted = changeLines(batch), true
	case o.noted:
		docs[saved.DocNews], o.noted = nil, false
	}
}

// saved is called after a transaction that save has seen. It hands over all
// that is due, and blocks while it is taken.
func (o *outbox) saved(ctx context.Context, news []Change) error {
	o.due = append(o.due, news...)
	return o.send(ctx)
}

// send delivers what is due.
func (o *outbox) send(ctx context.Context) error {
	if len(o.due) == 0 || o.deliver == nil || o.err != nil {
		return o.err
	}
	n, err := o.deliver(ctx, o.due)
	o.err = err
	if n > 0 {
		o.due = o.due[n:]
		save := map[string][]byte{saved.DocOutbox: changeLines(o.due)}
		if rerr := o.journal.Record(context.WithoutCancel(ctx), journal.Batch{Save: save}); rerr != nil && err == nil {
			return fmt.Errorf("record what was handed over: %w", rerr)
		}
	}
	return err
}

// changeLines encodes changes; none are nil.
func changeLines(lists ...[]Change) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, list := range lists {
		for i := range list {
			if err := enc.Encode(list[i].line()); err != nil {
				panic(err) // unreachable: strings and numbers
			}
		}
	}
	return b.Bytes()
}

// parseChanges undoes changeLines.
func parseChanges(b []byte) ([]Change, error) {
	var changes []Change
	for line := range bytes.Lines(b) {
		var c Change
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("read what is to be handed over from journal: %w", err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}
