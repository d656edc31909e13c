package hub

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/hub/hubstore"
)

const (
	commitPace  = 5 * time.Millisecond // maximum time from the start of a commit to the next, while more items are expected
	commitCount = 1000                 // items of one commit
	commitBytes = 16 << 20             // bytes of messages in one commit, unless a single message has more
)

// A group commits items together: items that arrive while a commit is under way
// share the next one. It begins as soon as there are as many items as in the
// previous commit, but waits for them no longer than commitPace. A caller that
// adds one item after the other therefore never waits for others.
type group[T sized] struct {
	commit func([]T)

	mu      sync.Mutex // guards what follows
	items   []T
	want    int           // number of items that run waits for; 0: it does not wait
	came    chan struct{} // they have arrived
	busy    bool          // run is running
	closed  bool
	workers sync.WaitGroup
}

type sized interface{ size() int }

func newGroup[T sized](commit func([]T)) *group[T] {
	return &group[T]{commit: commit, came: make(chan struct{}, 1)}
}

// add adds an item. It returns false if the group is closed.
func (g *group[T]) add(item T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.items = append(g.items, item)
	if g.want > 0 && len(g.items) >= g.want {
		wake(g.came)
	}
	if !g.busy {
		g.busy = true
		g.workers.Go(g.run)
	}
	return true
}

// run commits until the group is empty.
func (g *group[T]) run() {
	for {
		start := time.Now()
		batch := g.take()
		if batch == nil {
			return
		}
		g.commit(batch)
		g.gather(len(batch), commitPace-time.Since(start))
	}
}

// gather waits until there are n items, but at most for longest.
func (g *group[T]) gather(n int, longest time.Duration) {
	g.mu.Lock()
	enough := len(g.items) >= n
	g.want = n
	g.mu.Unlock()
	if enough || longest <= 0 {
		return
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-g.came: // now, or left over from an earlier wait
	case <-timer.C:
	}
}

// take returns the items of the next commit.
func (g *group[T]) take() []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want = 0
	n, bytes := 0, 0
	for n < len(g.items) && n < commitCount {
		if bytes += g.items[n].size(); n > 0 && bytes > commitBytes {
			break
		}
		n++
	}
	if n == 0 {
		g.busy, g.items = false, nil
		return nil
	}
	batch := g.items[:n:n]
	g.items = g.items[n:]
	return batch
}

// close refuses further items and waits until those already added are
// committed.
func (g *group[T]) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.workers.Wait()
}

// An appending is a message that is being appended to the log.
type appending struct {
	message hubstore.Message
	seq     int64
	err     error
	done    chan struct{}
}

func (a *appending) size() int { return len(a.message.Body) }

// append writes a message to the log of its topic and wakes the topic's
// subscriptions. It sets ID and At if they are empty. When append returns nil the
// message is durable; with an error of ctx it may be. It returns [ErrNotReady],
// [ErrFull], or the error of the store. The hub retains the memory that the
// message refers to: the caller must not change it.
func (h *Hub) append(ctx context.Context, m hubstore.Message) (seq int64, err error) {
	if m.ID == "" {
		m.ID = rand.Text()
	}
	if m.At.IsZero() {
		m.At = h.now()
	}
	if err := h.admit(m); err != nil {
		return 0, err
	}
	a := &appending{message: m, done: make(chan struct{})}
	if !h.appends.add(a) {
		return 0, ErrNotReady
	}
	select {
	case <-a.done:
		return a.seq, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// admit returns an error if a message cannot be accepted now.
func (h *Hub) admit(m hubstore.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		return ErrNotReady
	}
	if t := h.registry.topics[m.Topic]; t != nil && t.bytes+int64(len(m.Body)) > h.opts.MaxLog {
		return ErrFull
	}
	return nil
}

// commitMessages appends a batch to the store, then to the logs in memory.
func (h *Hub) commitMessages(batch []*appending) {
	messages := make([]hubstore.Message, len(batch))
	for i, a := range batch {
		messages[i] = a.message
	}
	seqs, err := h.store.Append(context.Background(), messages) // the batch has many callers, none of whom may cancel it
	entries := make([]*entry, len(batch))
	for i := range messages {
		if err == nil {
			messages[i].Seq = seqs[i]
			entries[i] = h.entry(nil, messages[i])
		}
	}
	h.mu.Lock()
	for i, a := range batch {
		if a.err = err; err == nil {
			a.seq = seqs[i]
			h.accepted(entries[i])
		}
	}
	h.spawn()
	h.mu.Unlock()
	for _, a := range batch {
		close(a.done)
	}
}

// accepted adds a stored message to its topic in memory.
func (h *Hub) accepted(e *entry) {
	t := h.registry.topic(e.Topic)
	e.log = t
	t.row, t.bytes = true, t.bytes+int64(len(e.Body))
	t.ages.add(e.At, e.Seq, h.grain())
	if e.Whole {
		t.whole = max(t.whole, e.Seq)
	}
	if len(t.subs) > 0 {
		h.cache.add(e)
	}
	h.tally.accept(len(e.Body))
	h.arrived(t, e.Seq)
}

// arrived wakes the subscriptions of a topic if the message numbered last is
// new.
func (h *Hub) arrived(t *topic, last int64) {
	if last <= t.last {
		return
	}
	t.last = last
	for i, s := range t.idle {
		h.enqueue(s)
		t.idle[i] = nil
	}
	t.idle = t.idle[:0]
}

// A saving is a set of changes that is being saved.
type saving struct {
	changes hubstore.Changes
	err     error
	done    chan struct{}
}

func (s *saving) size() int { return 0 }

// save writes changes, together with those of other callers. It does not update
// the hub's memory for subscriptions that are put or removed: subscribe and end
// do that. If it returns an error of ctx, the changes may still be written.
func (h *Hub) save(ctx context.Context, c hubstore.Changes) error {
	if err := h.enter(c).wait(ctx); err != nil {
		return err
	}
	for _, r := range c.Ask {
		if err := h.notifyOwner(ctx, r.Key); err != nil {
			return err
		}
	}
	return nil
}

// enter begins to save changes, after those entered before. It returns nil if
// the hub is shutting down.
func (h *Hub) enter(c hubstore.Changes) *saving {
	s := &saving{changes: c, done: make(chan struct{})}
	if !h.saves.add(s) {
		return nil
	}
	return s
}

// wait returns the result.
func (s *saving) wait(ctx context.Context) error {
	if s == nil {
		return ErrNotReady
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commitChanges saves a batch as one.
func (h *Hub) commitChanges(batch []*saving) {
	all := make([]hubstore.Changes, len(batch))
	for i, s := range batch {
		all[i] = s.changes
	}
	c := merge(all)
	err := h.store.Save(context.Background(), c) // the batch has many callers, none of whom may cancel it
	if err == nil && len(c.Topics) > 0 {
		h.mu.Lock()
		for _, t := range c.Topics {
			known := h.registry.topic(t.URL)
			known.row, known.state = true, t.State
		}
		h.mu.Unlock()
	}
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
}

// merge returns changes that do what all of them do one after the other.
func merge(all []hubstore.Changes) hubstore.Changes {
	if len(all) == 1 {
		return all[0]
	}
	topics, put, ask := map[string]hubstore.Topic{}, map[hubstore.Key]hubstore.Subscription{}, map[hubstore.Key]hubstore.Request{}
	remove, settle, progress := map[hubstore.Key]bool{}, map[hubstore.Key]bool{}, map[hubstore.Key]hubstore.Progress{}
	for _, c := range all {
		for _, t := range c.Topics {
			topics[t.URL] = t
		}
		for _, s := range c.Put {
			put[s.Key] = s
			delete(remove, s.Key)
			delete(progress, s.Key)
		}
		for _, k := range c.Remove {
			remove[k] = true
			delete(put, k)
		}
		for k, p := range c.Progress {
			if s, ok := put[k]; ok {
				s.Progress = p
				put[k] = s
				continue
			}
			progress[k] = p
		}
		for _, r := range c.Ask {
			ask[r.Key] = r
			delete(settle, r.Key)
		}
		for _, k := range c.Settle {
			settle[k] = true
			delete(ask, k)
		}
	}
	return hubstore.Changes{
		Topics: slices.Collect(maps.Values(topics)), Put: slices.Collect(maps.Values(put)), Remove: slices.Collect(maps.Keys(remove)),
		Progress: progress, Ask: slices.Collect(maps.Values(ask)), Settle: slices.Collect(maps.Keys(settle)),
	}
}
