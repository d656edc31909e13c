package websub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// memoryVersion is that of the document a Keeper keeps.
const memoryVersion = 1

// maxEnded caps the callbacks remembered as retired (WS-C-07).
const maxEnded = 1000

// A memory is all a Subscriber knows: what is wanted, and the subscriptions
// that were made of it. One that was published is never changed.
type memory struct {
	Version       int                      `json:"version"`
	Wishes        map[string]*wish         `json:"wishes"`        // by ID
	Subscriptions map[string]*subscription `json:"subscriptions"` // by name

	made map[string][]*subscription // by ID of the wish; may name some that are gone
}

// A wish is a Wish, and how asking for it goes.
type wish struct {
	Wish
	Dropped bool      `json:",omitempty"` // not wanted any more; it goes when its subscriptions have ended
	At      int       `json:",omitempty"` // which of Hubs is asked next
	Round   int       `json:",omitempty"` // how often all of them were asked in vain
	Next    time.Time `json:",omitzero"`  // no new subscription is made before
	Denied  bool      `json:",omitempty"` // the last hub that answered did not want it
	Error   string    `json:",omitempty"` // what came of the last subscription that did not work
}

// The states of a subscription.
const (
	pending = "pending" // asked for, not verified yet
	active  = "active"  // verified
	ending  = "ending"  // not wanted any more, unsubscribing
	ended   = "ended"   // its callback is retired
)

// A subscription is one callback, known to one hub.
type subscription struct {
	Name     string `json:"name"` // unguessable, last segment of Callback
	WishID   string `json:"wish"`
	Callback string `json:"callback"`
	Topic    string `json:"topic"`
	Named    string `json:"named"`         // the hub as the Wish has it
	Hub      string `json:"hub,omitempty"` // where redirects for good led (WS-S-09); default Named
	State    string `json:"state"`
	Stale    bool   `json:"stale,omitempty"` // another one is to take its place

	Secret    string    `json:"secret,omitempty"`
	NewSecret string    `json:"newSecret,omitempty"` // from when it is sent until it is verified
	OldSecret string    `json:"oldSecret,omitempty"` // good until OldUntil (WS-X-11)
	OldUntil  time.Time `json:"oldUntil,omitzero"`

	Asked    time.Time `json:"asked,omitzero"`    // when the last request was sent
	Since    time.Time `json:"since,omitzero"`    // when the hub verified first
	Verified time.Time `json:"verified,omitzero"` // when it did last
	Expires  time.Time `json:"expires,omitzero"`  // of an ended one: when it may be forgotten
	Renew    time.Time `json:"renew,omitzero"`
	Next     time.Time `json:"next,omitzero"` // no request is sent before
	Waiting  bool      `json:"waiting,omitempty"`
	Attempts int       `json:"attempts,omitempty"` // in vain
	Renewals int       `json:"renewals,omitempty"`
	Error    string    `json:"error,omitempty"` // of the last of them
	Left     bool      `json:"left,omitempty"`  // ended because we unsubscribed
}

func (l *subscription) hub() string { return cmp.Or(l.Hub, l.Named) }

// secrets returns those with which a delivery may be signed now; one that is
// empty lets everything pass (WS-X-11).
func (l *subscription) secrets(now time.Time) []string {
	s := []string{l.Secret}
	if l.NewSecret != "" {
		s = append(s, l.NewSecret)
	}
	if now.Before(l.OldUntil) {
		s = append(s, l.OldSecret)
	}
	return s
}

// end retires the callback. Its secrets are forgotten, its topic is not: a hub
// may verify once more (WS-I-06).
func (l *subscription) end(now time.Time) {
	*l = subscription{
		Name: l.Name, WishID: l.WishID, Topic: l.Topic, Named: l.Named, State: ended, Left: l.State == ending,
		Asked: now, Expires: now.Add(keepEnded),
	}
}

// limitWaits ends waits that are longer than the longest: they were saved by a clock
// that was ahead.
func (m *memory) limitWaits(now time.Time) {
	most := now.Add(denialPause + denialPause/denialSpread)
	for _, w := range m.Wishes {
		if w.Next.After(most) {
			w.Next = now
		}
	}
	for _, l := range m.Subscriptions {
		if l.Next.After(most) {
			l.Next = now
		}
	}
}

func newMemory() *memory {
	return &memory{
		Version: memoryVersion,
		Wishes:  map[string]*wish{}, Subscriptions: map[string]*subscription{}, made: map[string][]*subscription{},
	}
}

func (m *memory) clone() *memory {
	c := newMemory()
	for id, w := range m.Wishes {
		own := *w
		own.Hubs = slices.Clone(w.Hubs)
		c.Wishes[id] = &own
	}
	for _, l := range m.Subscriptions {
		own := *l
		c.add(&own)
	}
	return c
}

func (m *memory) add(l *subscription) {
	m.Subscriptions[l.Name] = l
	if l.State != ended {
		m.made[l.WishID] = append(m.made[l.WishID], l)
	}
}

// remove forgets a subscription of which no hub can know that it was wanted.
func (m *memory) remove(l *subscription) {
	l.State = ended
	delete(m.Subscriptions, l.Name)
}

// of returns the subscriptions made of a wish, those that are active first,
// the newest first.
func (m *memory) of(id string) []*subscription {
	var out []*subscription
	for _, l := range m.made[id] {
		if l.State != ended {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *subscription) int {
		return cmp.Or(cmp.Compare(a.State, b.State), b.Verified.Compare(a.Verified), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// forget lets go of what ended long ago, or too often.
func (m *memory) forget(now time.Time) {
	var old []*subscription
	for name, l := range m.Subscriptions {
		switch {
		case l.State != ended:
		case !now.Before(l.Expires):
			delete(m.Subscriptions, name)
		default:
			old = append(old, l)
		}
	}
	slices.SortFunc(old, func(a, b *subscription) int { return b.Asked.Compare(a.Asked) })
	for i := maxEnded; i < len(old); i++ {
		delete(m.Subscriptions, old[i].Name)
	}
}

// readMemory reads the document of a Keeper.
func readMemory(document []byte) (*memory, error) {
	m := newMemory()
	if len(document) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(document, m); err != nil {
		return nil, fmt.Errorf("read state of subscriptions: %w", err)
	}
	if m.Version != memoryVersion {
		return nil, fmt.Errorf("read state of subscriptions: it is of version %d, made by another release; this one knows %d", m.Version, memoryVersion)
	}
	maps.DeleteFunc(m.Wishes, func(id string, w *wish) bool { return w == nil || len(w.Hubs) == 0 || w.ID != id })
	maps.DeleteFunc(m.Subscriptions, func(name string, l *subscription) bool {
		switch {
		case l == nil || l.Name != name:
			return true
		case l.State == pending || l.State == active || l.State == ending:
			return m.Wishes[l.WishID] == nil
		}
		return l.State != ended
	})
	if m.Wishes == nil || m.Subscriptions == nil {
		return nil, errors.New("read state of subscriptions: it is damaged")
	}
	return m.clone(), nil
}

// A change is one step from a memory to the next.
type change struct {
	*memory
	s      *Subscriber
	now    time.Time
	events []SubscriberEvent // told when it is durable
	jobs   []job             // begun when it is durable
}

// tell notes what happened to l. That it ended, or was denied, is told only if
// no other subscription of the wish stands: what took its place goes on.
func (c *change) tell(kind EventKind, l *subscription, reason string) {
	replaced := slices.ContainsFunc(c.of(l.WishID), func(o *subscription) bool { return o != l && o.State == active })
	switch {
	case !replaced:
	case kind == Ended || kind == Expired:
		return
	case kind == Denied:
		kind = Refused
	}
	e := SubscriberEvent{Kind: kind, ID: l.WishID, Topic: l.Topic, Hub: l.hub(), Reason: reason, At: c.now}
	if kind == Verified || kind == Renewed {
		e.Expires = l.Expires
	}
	c.events = append(c.events, e)
}

// current returns what is known, reading it first if it was not read yet.
func (s *Subscriber) current(ctx context.Context) (*memory, error) {
	if m := s.memory.Load(); m != nil {
		return m, nil
	}
	if _, err := s.update(ctx, func(*change) bool { return false }); err != nil {
		return nil, err
	}
	return s.memory.Load(), nil
}

// An update is a change of the memory that waits for its turn.
type update struct {
	f    func(*change) bool
	c    *change
	err  error
	done chan struct{} // closed when c and err are there
}

// update changes the memory: f changes a copy, which is saved and only then
// becomes what is known. f returns false if it changed nothing. Those that come
// at a time are saved as one.
func (s *Subscriber) update(ctx context.Context, f func(*change) bool) (*change, error) {
	u := &update{f: f, done: make(chan struct{})}
	s.mu.Lock()
	s.updates = append(s.updates, u)
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		s.mu.Lock()
		together := s.updates
		s.updates = nil
		s.mu.Unlock()
		if len(together) > 0 {
			err := s.commit(context.WithoutCancel(ctx), together)
			for _, u := range together {
				u.err = err
				close(u.done)
			}
		}
		<-s.turn
	case <-u.done:
	case <-ctx.Done():
		s.mu.Lock()
		i := slices.Index(s.updates, u)
		if i >= 0 {
			s.updates = slices.Delete(s.updates, i, i+1)
		}
		s.mu.Unlock()
		if i >= 0 {
			return nil, ctx.Err()
		}
	}
	<-u.done // whoever has the turn does it
	return u.c, u.err
}

// commit carries out updates, all or none. The caller has the turn.
func (s *Subscriber) commit(ctx context.Context, updates []*update) error {
	m := s.memory.Load()
	if m == nil {
		document, err := s.opts.State.Load(ctx)
		if err != nil {
			return fmt.Errorf("load state of subscriptions: %w", err)
		}
		if m, err = readMemory(document); err != nil {
			return err
		}
		m.limitWaits(s.opts.Clock())
		s.memory.Store(m)
	}
	next, now, changed := m.clone(), s.opts.Clock(), false
	for _, u := range updates {
		u.c = &change{memory: next, s: s, now: now}
		changed = u.f(u.c) || changed
	}
	if !changed {
		return nil
	}
	next.forget(now)
	document, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("save state of subscriptions: %w", err)
	}
	if err := s.opts.State.Save(ctx, document); err != nil {
		return fmt.Errorf("save state of subscriptions: %w", err)
	}
	s.memory.Store(next)
	for _, u := range updates {
		for _, e := range u.c.events {
			s.tell(e)
		}
	}
	return nil
}
