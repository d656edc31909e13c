package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/internal/newerstate"
	"lockstep/internal/sleep"
	"lockstep/source/internal/names"
)

// stateVersion numbers the layout of storedChannel. Older layouts are read, newer ones
// refused.
const stateVersion = 1

// keepEvery is the shortest interval at which the positions of hubs are stored.
// Notifications whose position was not stored before a crash are sent again.
const keepEvery = time.Second

// keepAtEnd is how long storing them may take when the process ends.
const keepAtEnd = 5 * time.Second

// A storedChannel is the state of a channel, stored in one JSON blob. If it is lost,
// hubs start with what is published then, and their subscribers see a gap.
type storedChannel struct {
	Version        int                     `json:"version"`
	CapabilityList string                  `json:"capability_list"` // of the set; positions in another one are not valid
	Hubs           map[string]storedCursor `json:"hubs"`            // by URL
	Topic          *storedTopic            `json:"topic,omitempty"`
}

// A storedCursor is the position of a hub.
type storedCursor struct {
	Notified Place   `json:"told"`
	Acked    []Place `json:"acked"` // two in older states
}

func (k *storedCursor) acked() (a acked) {
	for i := range a { // if there are fewer, the oldest stands in for those before
		if n := len(k.Acked); n > 0 {
			a[i] = k.Acked[max(0, n-len(a)+i)]
		}
	}
	return a
}

// A storedTopic is the content of a topic without its bytes, which are rebuilt from the
// catalog.
type storedTopic struct {
	From   Place     `json:"from"`
	To     Place     `json:"to"`
	Window bool      `json:"window,omitempty"`
	Sum    string    `json:"sum"`
	Mod    time.Time `json:"modified"`
}

// openQueues makes the queues of all channels, with what is remembered of them,
// unless that has been done.
func (s *Channels) openQueues(ctx context.Context) error {
	for _, c := range s.channels {
		if c.hubs() != nil {
			continue
		}
		stored, data, err := s.loadChannel(ctx, c)
		if err != nil {
			return err
		}
		queues := []*queue{}
		for i := range s.opts.Hubs {
			h := &s.opts.Hubs[i]
			if h.Notifier == nil {
				continue
			}
			k := stored.Hubs[h.URL]
			queues = append(queues, &queue{hub: h, notified: k.Notified, acked: k.acked()})
		}
		if len(queues) > 0 {
			s.restore(ctx, c, stored.Topic)
		}
		c.mu.Lock()
		c.queues, c.stored = queues, data
		c.mu.Unlock()
	}
	return nil
}

// hubs returns the queues; nil: they are not open.
func (c *Channel) hubs() []*queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues
}

// loadChannel reads what is remembered of a channel.
func (s *Channels) loadChannel(ctx context.Context, c *Channel) (*storedChannel, []byte, error) {
	data, _, err := s.opts.Docs.ReadBlob(ctx, names.Set(c.set.Name).NotifyState())
	if err != nil || data == nil {
		return &storedChannel{}, nil, err
	}
	stored := new(storedChannel)
	if err := json.Unmarshal(data, stored); err != nil {
		s.opts.Docs.Log.WarnContext(ctx, "record of notifications sent to hubs is unreadable; it restarts", slog.String("set", c.set.Name), slog.Any("err", err))
		return &storedChannel{}, nil, nil
	}
	if stored.Version > stateVersion {
		return nil, nil, newerstate.Document(names.Set(c.set.Name).NotifyState(), stored.Version, stateVersion)
	}
	if stored.CapabilityList != s.opts.Docs.CapabilityList(c.set.Name) {
		return &storedChannel{}, nil, nil
	}
	return stored, data, nil
}

// saveChannel stores the state of a channel if it has changed.
func (s *Channels) saveChannel(ctx context.Context, c *Channel) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	k := storedChannel{Version: stateVersion, CapabilityList: s.opts.Docs.CapabilityList(c.set.Name), Hubs: make(map[string]storedCursor)}
	for _, q := range c.hubs() {
		q.mu.Lock()
		if !q.notified.Until.IsZero() {
			k.Hubs[q.hub.URL] = storedCursor{q.notified, slices.Clone(q.acked[:])}
		}
		q.mu.Unlock()
	}
	if len(k.Hubs) == 0 {
		return nil
	}
	c.mu.Lock()
	if t := c.topic; t != nil {
		k.Topic = &storedTopic{From: t.from, To: t.to, Window: t.window, Sum: t.sum, Mod: t.mod}
	}
	old := c.stored
	c.mu.Unlock()
	data, err := json.MarshalIndent(&k, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", names.Set(c.set.Name).NotifyState(), err)
	}
	if data = append(data, '\n'); bytes.Equal(data, old) {
		return nil
	}
	if err := s.opts.Docs.CommitBlob(ctx, names.Set(c.set.Name).NotifyState(), data, time.Time{}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = data
	return nil
}

// keepChannel stores the positions of hubs when they change, at most once in
// keepEvery, until ctx ends.
func (s *Channels) keepChannel(ctx context.Context, c *Channel) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.moved:
		}
		if err := s.saveChannel(ctx, c); err != nil && ctx.Err() == nil {
			s.opts.Docs.Log.WarnContext(ctx, "cannot record the notifications sent to hubs", slog.String("set", c.set.Name), slog.Any("err", err))
			c.move() // try again
		}
		if sleep.For(ctx, keepEvery) != nil {
			return
		}
	}
}

// move says that there is something to remember.
func (c *Channel) move() {
	select {
	case c.moved <- struct{}{}:
	default: // already said
	}
}

// keepAll remembers all there is to remember, now that ctx has ended.
func (s *Channels) keepAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepAtEnd)
	defer cancel()
	for _, c := range s.channels {
		if err := s.saveChannel(ctx, c); err != nil {
			s.opts.Docs.Log.WarnContext(ctx, "cannot record the notifications sent to hubs", slog.String("set", c.set.Name), slog.Any("err", err))
		}
	}
}
