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

// What goes into the catalog at once; each says what it prevents.
const (
	groupUpdates = 10_000  // the first of a group waiting for a long transaction
	maxWaiting   = 100_000 // updates that wait: memory filled while the disk is slow
)

// A call is a request on its way into the catalog.
type call struct {
	updates []catalog.Update
	batch   bool
	key     string   // Idempotency-Key; "" for none
	request [32]byte // SHA-256 of what is asked, if there is a key

	done chan struct{} // closed when what follows is set
	lead chan struct{} // closed when this call is to carry out those that wait

	reply  *reply
	err    error
	asked  keyRecord // what the log of keys has of it
	events []event   // what it came to
}

// An event is one numbered change, as answers tell of it.
type event struct {
	uri    string
	change resourcesync.Change
	seq    catalog.Seq
	at     time.Time
}

// do carries a call out and returns the answer, or why it was not carried out.
//
// Whoever comes while nobody leads does so: carries out all that wait, in one
// transaction, and hands over to the first of those that came meanwhile. So
// many requests share what a transaction costs, and one alone waits for nobody.
// A call is carried out even if its client has gone: what was begun is finished.
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

// enter puts a call into the queue.
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

// group takes from the queue, in order, what goes into the catalog together.
// Of two calls about one resource the second waits, so that it is known which
// of them a change came from; so do others when a batch has a key.
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

// meets reports whether c is about one of the resources.
func (c *call) meets(taken map[string]bool) bool {
	for i := range c.updates {
		if taken[c.updates[i].URI] {
			return true
		}
	}
	return false
}

// handOver lets the next one lead.
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
// The order of writes: what is asked with a key, durably, together with the
// answers of the group before; then the changes, in one transaction; then the
// answers, which need not be durable, for until the next group is written they
// can be read off the catalog.
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

// apply gives the calls of a group their replies or errors. Its own error is
// that of all which have neither.
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
		// Nobody knows. What the catalog says now is what happened.
		if now, e := s.cat.Status(ctx, s.set); e == nil && now.Last > before.Last {
			s.applied(catalog.Applied{Updated: int(now.Last - before.Last)})
		}
		return errors.Join(err, s.settle(ctx))
	}
	s.applied(applied)
	events, err := s.eventsAfter(ctx, before.Last)
	if err != nil {
		return fmt.Errorf("the changes are made, but what they came to cannot be read: %w", err)
	}
	s.answer(fresh, events)
	return nil
}

// prepare makes the set ready for changes: the first time, and after something
// went wrong.
func (s *Set) prepare(ctx context.Context) error {
	if !s.keys.opened {
		if err := s.keys.open(); err != nil {
			return err
		}
		st, err := s.cat.Status(ctx, s.set)
		if err == nil && st.Kept.At.IsZero() { // from now on the catalog can say what came of an Apply
			_, err = s.cat.Mark(ctx, s.set)
		}
		var highest catalog.Seq
		if err == nil {
			highest, err = s.keys.highest()
		}
		if err != nil {
			s.keys.forget()
			return err
		}
		if highest > st.Last {
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

// fresh returns the calls that are to be carried out. Those whose key is known
// get their answer.
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

// settle finds out what became of requests that were asked and not answered:
// all of them were to be in one Apply, and nothing was applied since. If the
// catalog has no change since they were asked, nothing was done, or nothing that
// shows: they may be asked again.
func (s *Set) settle(ctx context.Context) error {
	if len(s.keys.asked) == 0 {
		return nil
	}
	st, err := s.cat.Status(ctx, s.set)
	if err != nil {
		return err
	}
	for _, r := range s.keys.asked {
		if st.Last <= r.after {
			s.keys.drop(r)
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
		s.keys.answer(r, reply.status, reply.body)
	}
	return nil
}

func find(events []event, uri string) *event {
	for i := range events {
		if events[i].uri == uri {
			return &events[i]
		}
	}
	return nil
}

// eventsAfter reads what happened in the set after a change.
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

// answer gives each call its share of what happened.
func (s *Set) answer(calls []*call, events []event) {
	owner := make(map[string]*call)
	for _, c := range calls {
		for i := range c.updates {
			owner[c.updates[i].URI] = c
		}
	}
	for _, e := range events {
		if c := owner[e.uri]; c != nil { // else it is of somebody who has no business in this set
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
			s.keys.answer(c.asked, c.reply.status, c.reply.body)
		}
	}
}

// A changeAnswer is what one change came to.
type changeAnswer struct {
	URI      string      `json:"uri"`
	Change   string      `json:"change"` // created, updated, deleted or unchanged
	Seq      catalog.Seq `json:"seq,omitempty"`
	Datetime string      `json:"datetime,omitempty"`
}

// singleReply answers a call about one resource; e is nil if nothing happened.
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

// A batchAnswer is what a batch came to.
type batchAnswer struct {
	Changes   int         `json:"changes"` // asked for
	Created   int         `json:"created"`
	Updated   int         `json:"updated"`
	Deleted   int         `json:"deleted"`
	Unchanged int         `json:"unchanged"`
	Seq       catalog.Seq `json:"seq,omitempty"` // of the last one that came to something
	Datetime  string      `json:"datetime,omitempty"`
}

// batchReply answers a call with so many changes.
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

// datetime returns t as documents have it.
func datetime(t time.Time) string { return resourcesync.NewDatetime(t).String() }
