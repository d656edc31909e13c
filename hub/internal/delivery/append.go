package delivery

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/group"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/tally"
)

// An appender accepts messages, and notices if the store has lost some.
type appender struct {
	registry  *registry
	store     hubstore.Store
	logs      *logs
	scheduler *scheduler
	deliverer *deliverer
	tally     *tally.Tally
	progress  *progressSaver
	log       *slog.Logger
	now       func() time.Time
	grain     time.Duration // the precision of ages
	maxLog    int64         // bytes of a topic's stored messages
	batches   *group.Group[*appending]
}

// An appending is a message that is being appended to the log.
type appending struct {
	message hubstore.Message
	seq     int64
	err     error
	done    chan struct{}
}

func (a *appending) Size() int { return len(a.message.Body) }

func newAppender(x appender) *appender {
	x.batches = group.New(x.commit)
	return &x
}

// append writes a message to the log of its topic and wakes the topic's
// subscriptions. It sets ID and At if they are empty. When append returns nil the
// message is durable; with an error of ctx it may be. It returns [refusal.ErrNotReady],
// [refusal.ErrFull], or the error of the store. The hub retains the memory that the
// message refers to: the caller must not change it.
func (x *appender) append(ctx context.Context, m hubstore.Message) (seq int64, err error) {
	if m.ID == "" {
		m.ID = rand.Text()
	}
	if m.At.IsZero() {
		m.At = x.now()
	}
	if err := x.admit(m); err != nil {
		return 0, err
	}
	return x.add(ctx, m)
}

// add is append for a message that has its ID and At, whatever the size of the
// log.
func (x *appender) add(ctx context.Context, m hubstore.Message) (seq int64, err error) {
	a := &appending{message: m, done: make(chan struct{})}
	if !x.batches.Add(a) {
		return 0, refusal.ErrNotReady
	}
	select {
	case <-a.done:
		return a.seq, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// admit returns an error if a message cannot be accepted now.
func (x *appender) admit(m hubstore.Message) error {
	x.registry.mu.Lock()
	defer x.registry.mu.Unlock()
	if !x.registry.open {
		return refusal.ErrNotReady
	}
	if t := x.registry.topics[m.Topic]; t != nil && t.bytes+int64(len(m.Body)) > x.maxLog {
		return refusal.ErrFull
	}
	return nil
}

// commit appends a batch to the store, then to the logs in memory.
func (x *appender) commit(batch []*appending) {
	messages := make([]hubstore.Message, len(batch))
	for i, a := range batch {
		messages[i] = a.message
	}
	step := x.registry.step.Add(1)
	seqs, err := x.store.Append(context.Background(), messages) // the batch has many callers, none of whom may cancel it
	entries := make([]*entry, len(batch))
	for i := range messages {
		if err == nil {
			messages[i].Seq = seqs[i]
			entries[i] = x.logs.entry(nil, messages[i])
		}
	}
	x.registry.mu.Lock()
	for i, a := range batch {
		if a.err = err; err == nil {
			a.seq = seqs[i]
			x.accepted(entries[i], step)
		}
	}
	x.deliverer.spawn()
	x.registry.mu.Unlock()
	for _, a := range batch {
		close(a.done)
	}
}

// accepted adds a message, which was stored by an operation that began at a step, to its topic in memory.
func (x *appender) accepted(e *entry, step int64) {
	t := x.registry.topic(e.Topic)
	if t.isLost(e.Seq-1, step) {
		if err := x.rewind(context.Background(), t, e.Seq-1); err != nil {
			x.log.Error("messages could not be compared", slog.String("topic", t.url), slog.Any("err", err))
			x.cut(t, e.Seq-1, e.Seq-1)
		}
	}
	e.log = t
	t.row, t.bytes = true, t.bytes+int64(len(e.Body))
	t.ages.add(e.At, e.Seq, x.grain)
	if e.Whole {
		t.whole = max(t.whole, e.Seq)
	}
	if len(t.subs) > 0 {
		x.logs.add(e)
	}
	x.tally.Accept(len(e.Body))
	x.arrived(t, e.Seq, step)
}

// heard records that another hub has accepted messages, up to the one numbered last, as an operation
// found that began at a step. The caller holds the lock of the registry, which is released if messages were lost.
func (x *appender) heard(ctx context.Context, uri string, last, step int64) error {
	t := x.registry.topic(uri)
	t.row = true
	x.grown(t, last, step)
	if t.isLost(last, step) {
		return x.rewind(ctx, t, last)
	}
	return nil
}

// grown records that another hub has accepted messages of t, up to the one numbered last, if that is new, as
// an operation found that began at a step.
func (x *appender) grown(t *topic, last, step int64) {
	if last > t.last {
		t.ages.add(x.now(), last, x.grain)
		x.arrived(t, last, step)
	}
}

// arrived wakes the subscriptions of a topic if the message numbered last is
// new, as an operation found that began at a step.
func (x *appender) arrived(t *topic, last, step int64) {
	if last <= t.last {
		return
	}
	t.last, t.found, t.since = last, step, x.registry.step.Load()
	for i, s := range t.idle {
		x.scheduler.enqueue(s)
		t.idle[i] = nil
	}
	t.idle = t.idle[:0]
}
