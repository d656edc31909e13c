package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// Limits of one transaction and of the queue; each comment says what the limit prevents.
const (
	groupUpdates = 10_000  // the first call of a group waiting for a long transaction
	maxWaiting   = 100_000 // updates waiting: memory filled while the disk is slow
)

// A call is a request waiting to be applied to the catalog.
type call struct {
	updates []catalog.Update
	batch   bool
	key     string   // Idempotency-Key; "" for none
	request [32]byte // SHA-256 of the requested change, if there is a key

	done chan struct{} // closed when the following fields are set
	lead chan struct{} // closed when this call is to carry out the waiting calls

	reply  *reply
	err    error
	asked  keyRecord // record of the request in the log of keys
	events []event   // resulting changes
}

// An event is one numbered change, as responses report it.
type event struct {
	uri    string
	change resourcesync.Change
	seq    catalog.Seq
	at     time.Time
}

// do carries out a call and returns the response, or the reason why the call was
// not carried out.
//
// A caller that arrives while no other leads becomes the leader: it carries out
// all waiting calls in one transaction and then hands the lead to the first of the
// calls that arrived meanwhile. So many requests share the cost of a transaction,
// and a single request never waits for others. A call is carried out even if its
// client has disconnected: work that has begun is finished.
func (s *Set) do(ctx context.Context, c *call) (*reply, error) {
	c.done, c.lead = make(chan struct{}), make(chan struct{})
	if err := s.enter(c); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
	case <-c.lead:
		s.carryOut(context.WithoutCancel(ctx), s.group())
		s.handOver()
	}
	return c.reply, c.err
}

// enter adds a call to the queue.
func (s *Set) enter(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.key != "" && s.inflight[c.key] {
		return refuse(http.StatusConflict, "a request with the same Idempotency-Key is being carried out")
	}
	if s.waiting > 0 && s.waiting+len(c.updates) > maxWaiting {
		return refuse(http.StatusServiceUnavailable, "too many changes are waiting to be written")
	}
	if c.key != "" {
		s.inflight[c.key] = true
	}
	s.queue = append(s.queue, c)
	s.waiting += len(c.updates)
	if !s.leading {
		s.leading = true
		close(c.lead)
	}
	return nil
}

// group takes from the queue, in order, the calls that are applied together. The
// second of two calls about the same resource waits, so that each change can be
// attributed to one call. For the same reason a batch with a key is applied alone.
func (s *Set) group() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, updates := 0, 0
	taken := make(map[string]bool)
	for i, c := range s.queue {
		alone := c.batch && c.key != ""
		if i > 0 && (alone || updates+len(c.updates) > groupUpdates || c.meets(taken)) {
			break
		}
		for j := range c.updates {
			taken[c.updates[j].URI] = true
		}
		n, updates = i+1, updates+len(c.updates)
		if alone {
			break
		}
	}
	group := s.queue[:n:n]
	s.queue = s.queue[n:]
	s.waiting -= updates
	return group
}

// meets reports whether c changes one of the resources.
func (c *call) meets(taken map[string]bool) bool {
	for i := range c.updates {
		if taken[c.updates[i].URI] {
			return true
		}
	}
	return false
}

// handOver makes the next call the leader.
func (s *Set) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue, s.leading = nil, false
		return
	}
	close(s.queue[0].lead)
}

// carryOut answers the calls of a group.
//
// Order of writes: the requests that have a key, durably, together with the
// answers of the previous group; then the changes, in one transaction; then the
// answers, which need not be durable, because until the next group is written they
// can be derived from the catalog.
func (s *Set) carryOut(ctx context.Context, group []*call) {
	err := s.apply(ctx, group)
	if err != nil {
		s.api.o.Logger.ErrorContext(ctx, "cannot apply changes", slog.String("set", s.name), slog.Any("err", err))
	}
	s.mu.Lock()
	for _, c := range group {
		delete(s.inflight, c.key)
	}
	s.mu.Unlock()
	for _, c := range group {
		if c.reply == nil && c.err == nil {
			c.err = err
		}
		close(c.done)
	}
}

// apply sets the replies or errors of the calls of a group. The error that it
// returns applies to all calls that have neither.
func (s *Set) apply(ctx context.Context, group []*call) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	fresh, err := s.fresh(group)
	if err != nil || len(fresh) == 0 {
		return err
	}
	before, err := s.cat.Status(ctx, s.set)
	if err != nil {
		return err
	}
	var asked []keyRecord
	var updates []catalog.Update
	for _, c := range fresh {
		if c.key != "" {
			c.asked.after = before.Last
			asked = append(asked, c.asked)
		}
		updates = append(updates, c.updates...)
	}
	if err := s.keys.ask(asked); err != nil {
		return err
	}
	applied, err := s.cat.Apply(ctx, s.set, updates)
	if err != nil {
		// The result is unknown. The catalog's present state decides, once it can be read.
		now, e := s.cat.Status(ctx, s.set)
		if e != nil {
			now = before
		}
		s.applied(catalog.Applied{Updated: int(now.Last - before.Last)}, true)
		return errors.Join(err, s.settle(ctx))
	}
	s.applied(applied, false)
	events, err := s.eventsAfter(ctx, before.Last)
	if err != nil {
		return fmt.Errorf("the changes were applied, but their results cannot be read: %w", err)
	}
	s.answer(fresh, events)
	return nil
}

// prepare makes the set ready for changes: the first time, and after an error.
func (s *Set) prepare(ctx context.Context) error {
	if !s.keys.opened {
		if err := s.keys.open(); err != nil {
			return err
		}
		st, err := s.cat.Status(ctx, s.set)
		if err == nil && st.Kept.At.IsZero() { // from now on the catalog can report the result of an Apply
			_, err = s.cat.Mark(ctx, s.set)
		}
		if err != nil {
			s.keys.forget()
			return err
		}
		if s.keys.highest() > st.Last {
			s.api.o.Logger.WarnContext(ctx, "catalog is older than the idempotency keys kept for it; they are forgotten", slog.String("set", s.name))
			if err := s.keys.reset(); err != nil {
				return err
			}
			if err := s.keys.open(); err != nil {
				return err
			}
		}
	}
	return s.settle(ctx)
}

// fresh returns the calls to be carried out. Calls whose key is known get the
// recorded answer.
func (s *Set) fresh(group []*call) ([]*call, error) {
	var fresh []*call
	for _, c := range group {
		if c.key == "" {
			fresh = append(fresh, c)
			continue
		}
		sum := sha256.Sum256([]byte(c.key))
		c.asked = keyRecord{kind: keyAsked, at: s.api.o.Now(), id: keyID(sum[:16]), request: c.request, changes: len(c.updates)}
		if !c.batch {
			c.asked.uri = c.updates[0].URI
		}
		known, ok, err := s.keys.find(c.asked.id)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			fresh = append(fresh, c)
		case known.request != c.request:
			c.err = refuse(http.StatusUnprocessableEntity, "the Idempotency-Key was used before, for another request")
		default:
			c.reply = &reply{status: known.status, body: known.body, replayed: true}
		}
	}
	return fresh, nil
}

// settle determines the results of requests that were recorded and not answered.
// All of them belong to one Apply, after which nothing was applied. If the catalog
// has no change since they were recorded, they had no visible effect and may be
// carried out again.
//
// That is certain once the results are recorded, which only the process can do that
// owns the catalog: in what a former owner reads, the changes of its successor look
// like those of its last Apply.
func (s *Set) settle(ctx context.Context) error {
	if len(s.keys.asked) == 0 {
		return nil
	}
	st, err := s.cat.Status(ctx, s.set)
	if err != nil {
		return err
	}
	var settled []keyRecord
	for _, r := range s.keys.asked {
		if st.Last <= r.after {
			settled = append(settled, r.dropped())
			continue
		}
		events, err := s.eventsAfter(ctx, r.after)
		if err != nil {
			return err
		}
		reply := batchReply(r.changes, events)
		if r.uri != "" {
			reply = singleReply(r.uri, find(events, r.uri))
		}
		settled = append(settled, r.answered(reply.status, reply.body))
	}
	return s.keys.settle(settled)
}

func find(events []event, uri string) *event {
	for i := range events {
		if events[i].uri == uri {
			return &events[i]
		}
	}
	return nil
}

// eventsAfter returns the changes of the set after a change number.
func (s *Set) eventsAfter(ctx context.Context, after catalog.Seq) ([]event, error) {
	var events []event
	for c, err := range s.cat.Changes(ctx, s.set, after) {
		if err != nil {
			return nil, err
		}
		events = append(events, event{c.URI, c.Change, c.Seq, c.EventTime})
	}
	return events, nil
}

// answer assigns the events to their calls and sets the replies.
func (s *Set) answer(calls []*call, events []event) {
	owner := make(map[string]*call)
	for _, c := range calls {
		for i := range c.updates {
			owner[c.updates[i].URI] = c
		}
	}
	for _, e := range events {
		if c := owner[e.uri]; c != nil { // else another writer changed the set, which is not allowed
			c.events = append(c.events, e)
		}
	}
	for _, c := range calls {
		if c.batch {
			c.reply = batchReply(len(c.updates), c.events)
		} else {
			c.reply = singleReply(c.updates[0].URI, find(c.events, c.updates[0].URI))
		}
		if c.key != "" {
			s.keys.answer(c.asked.answered(c.reply.status, c.reply.body))
		}
	}
}

// A changeAnswer is the result of one change.
type changeAnswer struct {
	URI      string      `json:"uri"`
	Change   string      `json:"change"` // created, updated, deleted or unchanged
	Seq      catalog.Seq `json:"seq,omitempty"`
	Datetime string      `json:"datetime,omitempty"`
}

// singleReply returns the reply to a call about one resource; e is nil if nothing changed.
func singleReply(uri string, e *event) *reply {
	v := changeAnswer{URI: uri, Change: "unchanged"}
	status := http.StatusOK
	if e != nil {
		v.Change, v.Seq, v.Datetime = e.change.String(), e.seq, datetime(e.at)
		if e.change == resourcesync.Created {
			status = http.StatusCreated
		}
	}
	return jsonReply(status, v)
}

// A batchAnswer is the result of a batch.
type batchAnswer struct {
	Changes   int         `json:"changes"` // requested changes
	Created   int         `json:"created"`
	Updated   int         `json:"updated"`
	Deleted   int         `json:"deleted"`
	Unchanged int         `json:"unchanged"`
	Seq       catalog.Seq `json:"seq,omitempty"` // of the last change that had an effect
	Datetime  string      `json:"datetime,omitempty"`
}

// batchReply returns the reply to a call with that many changes.
func batchReply(changes int, events []event) *reply {
	v := batchAnswer{Changes: changes, Unchanged: changes - len(events)}
	for i := range events {
		switch e := &events[i]; e.change {
		case resourcesync.Created:
			v.Created++
		case resourcesync.Updated:
			v.Updated++
		case resourcesync.Deleted:
			v.Deleted++
		}
	}
	if n := len(events); n > 0 {
		v.Seq, v.Datetime = events[n-1].seq, datetime(events[n-1].at)
	}
	return jsonReply(http.StatusOK, v)
}

// datetime formats t as documents do.
func datetime(t time.Time) string { return resourcesync.NewDatetime(t).String() }
