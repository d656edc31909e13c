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

// memoryVersion is the version of the document that a Keeper stores.
const memoryVersion = 1

// maxEnded caps the remembered retired callbacks (WS-C-07).
const maxEnded = 1000

// A memory is the state of a Subscriber: the Wishes and their subscriptions. A
// published memory is immutable.
type memory struct {
	Version       int                      `json:"version"`
	Wishes        map[string]*wish         `json:"wishes"`        // by ID
	Subscriptions map[string]*subscription `json:"subscriptions"` // by name

	made map[string][]*subscription // by ID of the Wish; may contain removed ones
}

// A wish is a Wish with the state of its requests.
type wish struct {
	Wish
	Dropped bool      `json:",omitempty"` // dropped by the caller; removed when its subscriptions have ended
	At      int       `json:",omitempty"` // index of the next hub in Hubs
	Round   int       `json:",omitempty"` // how often all hubs were tried without success
	Next    time.Time `json:",omitzero"`  // earliest time of a new subscription
	Denied  bool      `json:",omitempty"` // the last hub that answered denied it
	Error   string    `json:",omitempty"` // the last failure of a subscription
}

// The states of a subscription.
const (
	pending = "pending" // requested, not verified yet
	active  = "active"  // verified
	ending  = "ending"  // dropped, unsubscribing
	ended   = "ended"   // its callback is retired
)

// A subscription is one callback registered with one hub.
type subscription struct {
	Name     string `json:"name"` // unguessable, last segment of Callback
	WishID   string `json:"wish"`
	Callback string `json:"callback"`
	Topic    string `json:"topic"`
	Named    string `json:"named"`         // the hub as named in the Wish
	Hub      string `json:"hub,omitempty"` // target of permanent redirects (WS-S-09); default Named
	State    string `json:"state"`
	Stale    bool   `json:"stale,omitempty"` // to be replaced

	Secret    string    `json:"secret,omitempty"`
	NewSecret string    `json:"newSecret,omitempty"` // from when it is sent until it is verified
	OldSecret string    `json:"oldSecret,omitempty"` // valid until OldUntil (WS-X-11)
	OldUntil  time.Time `json:"oldUntil,omitzero"`

	Asked    time.Time `json:"asked,omitzero"`    // when the last request was sent
	Since    time.Time `json:"since,omitzero"`    // when the hub first verified
	Verified time.Time `json:"verified,omitzero"` // when it last verified
	Expires  time.Time `json:"expires,omitzero"`  // for an ended one: when it may be removed
	Renew    time.Time `json:"renew,omitzero"`
	Next     time.Time `json:"next,omitzero"` // earliest time of the next request
	Waiting  bool      `json:"waiting,omitempty"`
	Attempts int       `json:"attempts,omitempty"` // failed attempts
	Renewals int       `json:"renewals,omitempty"`
	Error    string    `json:"error,omitempty"` // of the last of them
	Left     bool      `json:"left,omitempty"`  // ended by unsubscribing
}

func (l *subscription) hub() string { return cmp.Or(l.Hub, l.Named) }

// secrets returns the secrets with which a delivery may be signed now; an empty
// one accepts everything (WS-X-11).
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

// end retires the callback. It removes the secrets, but keeps the topic: a hub
// may verify once more (WS-I-06).
func (l *subscription) end(now time.Time) {
	*l = subscription{
		Name: l.Name, WishID: l.WishID, Topic: l.Topic, Named: l.Named, State: ended, Left: l.State == ending,
		Asked: now, Expires: now.Add(keepEnded),
	}
}

// limitWaits ends waits that are longer than the longest, and renews what was verified in
// the future: they were saved by a clock that was ahead.
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
		if l.State == active && l.Verified.After(now) {
			l.Renew = now
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

// remove removes a subscription that no hub has verified.
func (m *memory) remove(l *subscription) {
	l.State = ended
	delete(m.Subscriptions, l.Name)
}

// of returns the subscriptions of a Wish, active ones first, the newest first.
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

// forget removes subscriptions that ended long ago, or are too many.
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

// readMemory parses the document of a Keeper.
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
	events []SubscriberEvent // reported when the change is durable
	jobs   []job             // started when the change is durable
}

// report adds an event of l. Ended and denied subscriptions are reported only
// if the Wish has no other subscription: a replacement continues.
func (c *change) report(kind EventKind, l *subscription, reason string) {
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

// current returns the state, which it loads on the first call.
func (s *Subscriber) current(ctx context.Context) (*memory, error) {
	if m := s.memory.Load(); m != nil {
		return m, nil
	}
	if _, err := s.update(ctx, func(*change) bool { return false }); err != nil {
		return nil, err
	}
	return s.memory.Load(), nil
}

// An update is a pending change of the memory.
type update struct {
	f    func(*change) bool
	c    *change
	err  error
	done chan struct{} // closed when c and err are set
}

// update changes the memory: f changes a copy, which is saved before it becomes
// current. f returns false if it changed nothing. Concurrent updates are saved
// together.
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
	<-u.done // the goroutine that has the turn commits it
	return u.c, u.err
}

// commit applies updates, all or none. The caller has the turn.
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
			s.report(e)
		}
	}
	return nil
}
