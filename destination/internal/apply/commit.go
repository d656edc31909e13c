package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/sleep"
)

// A shipment is what goes to the disk together: rows to be recorded, those of the
// batch before, and a batch of contents to be committed. What it needs is
// handed over with it, so that the next one can collect meanwhile.
type shipment struct {
	batch       []transfer.Outcome
	rows        journal.Batch
	counts      []byte          // to be saved with rows; nil: nothing changed
	changes     []report.Change // those of rows
	restated    []report.Change // those of rows whose content is the same, for a store that takes them
	places      bool            // a change of places is done
	doubts      []byte          // the beginning of the intent: what else it has to name
	staleIntent bool            // the Journal holds an intent that is no longer needed
	unkept      []unkept        // versions that could not be kept

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

// An unkept is a version that could not be kept.
type unkept struct{ uri, warning string }

// A committer brings shipments to the disk.
type committer struct {
	mirror   *Mirror
	fetch    *transfer.Fetcher
	set      int           // number of the set
	name     string        // of the set
	room     *room         // of the transfers under way
	patience time.Duration // how long it may still wait for room
}

// carry records and commits a shipment. It is all that happens to it outside of
// collect, and touches nothing of the Applier that changes.
func (c *committer) carry(ctx context.Context, l *shipment) {
	c.keepBatch(ctx, l)
	if l.err = ctx.Err(); l.err == nil {
		l.err = c.saveIntent(ctx, l)
	}
	if l.err != nil {
		l.rest = l.batch
		return
	}
	batch := l.batch
	c.describe(batch)
	l.ends = slices.Grow(l.ends, len(batch))
	ws := make([]blob.Writer, len(batch))
	for i := range batch {
		ws[i] = batch[i].Writer
	}
	for full, waits := 0, 0; len(batch) > 0; {
		err := c.mirror.Store.Commit(ctx, ws...)
		if n, again := content.CommittedBefore(err, len(ws)); again && waits < content.MaxFileWaits && sleep.For(ctx, content.FileWait) == nil {
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
		if err != nil && (!errors.As(err, &ce) || ce.Done >= len(ws) || failure.IsFatal(err) || isOpen(err)) {
			// Some may be visible. The intent stays: the next run looks.
			l.rest, l.err = batch, fmt.Errorf("store resources%s: %w", c.mirror.In, err)
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
		c.drop(l, batch[bad], err, false)
		batch, ws = slices.Delete(batch, bad, bad+1), slices.Delete(ws, bad, bad+1)
		if full++; failure.IsFull(err) && full > maxFull || isDown(err) && full >= maxDown {
			l.rest, l.err = batch, fmt.Errorf("store resources%s: %w", c.mirror.In, err)
			return
		}
	}
}

// drop discards a content that the store rejected.
func (c *committer) drop(l *shipment, o transfer.Outcome, err error, together bool) {
	_ = o.Writer.Close() // it takes room, and would fail again
	c.fetch.Names.Release(o.Held.Path)
	l.ends = append(l.ends, ending{Outcome: o, err: err, together: together})
}

const (
	// roomPatience is how long, in all, the records of a set wait for room that transfers
	// under way have taken. A transfer that takes the last of it mostly fails within seconds,
	// and gives it back; on a disk that stays full, nothing is gained by waiting longer.
	roomPatience = 10 * time.Second

	roomWait = 50 * time.Millisecond
)

// waitForRoom waits a moment for transfers under way, which may have taken the room until
// they fail. It returns false if its patience has ended.
func (c *committer) waitForRoom(ctx context.Context) bool {
	if c.patience <= 0 {
		return false
	}
	c.patience -= roomWait
	return sleep.For(ctx, roomWait) == nil
}

// saveIntent records the rows and the intent of a shipment. When there is no room
// for it, and none comes from transfers under way, the larger half of the batch gives up
// its own, and so on.
func (c *committer) saveIntent(ctx context.Context, l *shipment) error {
	for {
		others := c.room.underWay.Load() > 0 // before, since one that fails meanwhile gives back its room
		err := c.save(ctx, l)
		if err == nil || !failure.IsFull(err) {
			return err
		}
		if others && c.waitForRoom(ctx) {
			continue
		}
		if len(l.batch) == 0 {
			return err
		}
		sort.Stable(byLength(l.batch))
		half := len(l.batch) / 2
		for _, o := range l.batch[half:] {
			c.drop(l, o, err, true)
		}
		l.batch = l.batch[:half]
	}
}

// byLength sorts contents. It is not a comparison for package slices, whose code for this type would make the
// program larger by 7 KB.
type byLength []transfer.Outcome

func (b byLength) Len() int           { return len(b) }
func (b byLength) Less(i, j int) bool { return b[i].Held.Length < b[j].Held.Length }
func (b byLength) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// save writes the rows and the intent of a shipment in one transaction.
func (c *committer) save(ctx context.Context, l *shipment) error {
	b := l.rows
	b.Past = l.past()
	b.Save = map[string][]byte{}
	if len(l.batch) > 0 || l.staleIntent {
		b.Save[saved.DocIntent] = intentOf(l.doubts, l.batch)
		c.mirror.Out.Note(b.Save, c.changes(l.batch))
	}
	c.mirror.Out.Save(b.Save, l.changes)
	if l.counts != nil {
		b.Save[saved.DocCounts] = l.counts
	}
	if l.places {
		b.Save[places.DocChange] = nil
	}
	if err := c.doubtOthers(ctx, l.batch, b.Save); err != nil {
		return err
	}
	if len(b.Put)+len(b.Drop)+len(b.Owe)+len(b.Settle)+len(b.Save)+len(b.Past) == 0 {
		return nil
	}
	if s, ok := c.mirror.Store.(describer); ok && len(l.restated) > 0 {
		if err := s.Redescribe(ctx, l.restated); err != nil {
			return err
		}
		l.restated = nil // not again if there is no room for the rows
	}
	if err := c.mirror.Keep.Record(ctx, c.mirror.Journal, b); err != nil {
		return fmt.Errorf("record what is held: %w", err)
	}
	l.intent = len(l.batch) > 0
	return c.mirror.Out.Saved(ctx, l.changes)
}

// doubtOthers adds to docs that other sets, which share resources of a batch
// that return to a past state, have to be compared as a whole: nothing those
// sets receive says that the resources have changed.
func (c *committer) doubtOthers(ctx context.Context, batch []transfer.Outcome, docs map[string][]byte) error {
	if !c.fetch.OfPast {
		return nil
	}
	looked := map[int]bool{c.set: true}
	for i := range batch {
		for _, n := range batch[i].Held.Sets {
			if looked[n] {
				continue
			}
			looked[n] = true
			var st saved.Set
			name := saved.DocSet(n)
			known, err := saved.Load(ctx, c.mirror.Journal, name, &st)
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

// intentOf returns the document that says what a batch is, after what is in doubt; nil of none.
func intentOf(intent []byte, batch []transfer.Outcome) []byte {
	for i := range batch {
		intent = desired.AppendHeld(intent, &batch[i].Held)
	}
	return intent
}

// changes returns what a batch is going to change, where that is wanted.
func (c *committer) changes(batch []transfer.Outcome) (changes []report.Change) {
	if !c.mirror.Out.Delivers() {
		return nil
	}
	for i := range batch {
		changes = append(changes, changeOf(c.name, batch[i].Action, &batch[i].Held))
	}
	return changes
}

// describe passes the Writers of a batch that receive one the description of their
// content.
func (c *committer) describe(batch []transfer.Outcome) {
	for i := range batch {
		if w, ok := batch[i].Writer.(described); ok {
			w.Describe(changeOf(c.name, batch[i].Action, &batch[i].Held))
		}
	}
}

// withdraw removes the resources of the actions from the store.
func (c *committer) withdraw(ctx context.Context, batch ...plan.Action) error {
	if s, ok := c.mirror.Store.(withdrawer); ok {
		changes := make([]report.Change, len(batch))
		for i := range batch {
			changes[i] = changeOf(c.name, &batch[i], &batch[i].Held)
		}
		return s.Withdraw(ctx, changes)
	}
	paths := make([]string, len(batch))
	for i := range batch {
		paths[i] = batch[i].Held.Path
	}
	return c.mirror.Store.Remove(ctx, paths...)
}

// isOpen reports whether err, a time limit or the end of the run, leaves open whether the
// store has what it was given.
func isOpen(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
