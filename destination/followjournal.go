package destination

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"lockstep/destination/journal"
)

// A lateJournal is a Journal that some documents are saved in when there is
// something else to be recorded, in the same transaction: a pass over
// notifications costs no transaction of its own for what may as well be lost,
// and done again.
type lateJournal struct {
	journal.Journal

	record chan struct{} // holds a token while a transaction is written: documents keep their order

	mu  sync.Mutex // guards due
	due map[string][]byte
}

func newLateJournal(j journal.Journal) *lateJournal {
	return &lateJournal{Journal: j, record: make(chan struct{}, 1)}
}

// later has docs saved with the next transaction.
func (j *lateJournal) later(docs map[string][]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due == nil {
		j.due = map[string][]byte{}
	}
	maps.Copy(j.due, docs)
}

// flush saves what is due, now.
func (j *lateJournal) flush(ctx context.Context) error { return j.write(ctx, journal.Batch{}, true) }

// Record implements [journal.Journal].
func (j *lateJournal) Record(ctx context.Context, b journal.Batch) error {
	return j.write(ctx, b, false)
}

func (j *lateJournal) write(ctx context.Context, b journal.Batch, onlyDue bool) error {
	select {
	case j.record <- struct{}{}:
		defer func() { <-j.record }()
	case <-ctx.Done():
		return ctx.Err()
	}
	j.mu.Lock()
	due := maps.Clone(j.due)
	j.mu.Unlock()
	if len(due) == 0 && onlyDue {
		return nil
	}
	if len(due) > 0 {
		save := maps.Clone(due)
		maps.Copy(save, b.Save)
		b.Save = save
	}
	if err := j.Journal.Record(ctx, b); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, doc := range due {
		if now, ok := j.due[name]; ok && bytes.Equal(now, doc) && (now == nil) == (doc == nil) {
			delete(j.due, name)
		}
	}
	return nil
}

// Load implements [journal.Journal].
func (j *lateJournal) Load(ctx context.Context, name string) ([]byte, error) {
	j.mu.Lock()
	doc, ok := j.due[name]
	j.mu.Unlock()
	if ok {
		return bytes.Clone(doc), ctx.Err()
	}
	return j.Journal.Load(ctx, name)
}

// ScratchDir implements [journal.Scratcher].
func (j *lateJournal) ScratchDir() (dir string, own bool) {
	if s, ok := j.Journal.(journal.Scratcher); ok {
		return s.ScratchDir()
	}
	return "", false
}
