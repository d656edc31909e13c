// Package writebehind saves documents of little urgency with the next transaction of a Journal.
package writebehind

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"lockstep/destination/journal"
)

// A Journal is a Journal that saves some documents together with the next
// transaction: a pass over notifications needs no transaction of its own for
// documents that may be lost because the work can be repeated.
type Journal struct {
	journal.Journal

	record chan struct{} // holds a token while a transaction is written: documents keep their order

	mu  sync.Mutex // guards due
	due map[string][]byte
}

// New returns a Journal that records in j.
func New(j journal.Journal) *Journal {
	return &Journal{Journal: j, record: make(chan struct{}, 1)}
}

// Later saves docs with the next transaction.
func (j *Journal) Later(docs map[string][]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.due == nil {
		j.due = map[string][]byte{}
	}
	maps.Copy(j.due, docs)
}

// Flush saves these documents now.
func (j *Journal) Flush(ctx context.Context) error { return j.write(ctx, journal.Batch{}, true) }

// Record implements [journal.Journal].
func (j *Journal) Record(ctx context.Context, b journal.Batch) error {
	return j.write(ctx, b, false)
}

func (j *Journal) write(ctx context.Context, b journal.Batch, onlyDue bool) error {
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
func (j *Journal) Load(ctx context.Context, name string) ([]byte, error) {
	j.mu.Lock()
	doc, ok := j.due[name]
	j.mu.Unlock()
	if ok {
		return bytes.Clone(doc), ctx.Err()
	}
	return j.Journal.Load(ctx, name)
}

// ScratchDir implements [journal.Scratcher].
func (j *Journal) ScratchDir() (dir string, own bool) {
	if s, ok := j.Journal.(journal.Scratcher); ok {
		return s.ScratchDir()
	}
	return "", false
}
