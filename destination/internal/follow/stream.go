package follow

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/internal/eventstream"
	"lockstep/internal/fetch"
)

// replaceHub keeps a stream of events open while no hub is subscribed to: immediately
// when a hub has refused, and after a delay when it does not respond.
func (c *channels) replaceHub(ctx context.Context, s *set, uri string) {
	for ctx.Err() == nil {
		is, failed, changed := c.hubOf(s)
		if is {
			waitFor(ctx, changed, 0)
			continue
		}
		if !failed {
			if waitFor(ctx, changed, fallbackAfter) {
				continue
			}
			c.hubIsSilent(s)
		}
		own, cancel := context.WithCancel(ctx)
		c.run(func() {
			defer cancel()
			for is, _, changed := c.hubOf(s); !is && own.Err() == nil; is, _, changed = c.hubOf(s) {
				waitFor(own, changed, 0)
			}
		})
		c.listen(own, s, uri)
		<-own.Done() // a stream that may not be opened is not tried again until something changes
	}
}

// hubOf returns whether a hub is subscribed to, whether one has refused, and a
// channel that is closed when either changes.
func (c *channels) hubOf(s *set) (is, failed bool, changed <-chan struct{}) {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	if s.hubChanged == nil {
		s.hubChanged = make(chan struct{})
	}
	return s.hub, s.hubError != "", s.hubChanged
}

// hubIsSilent records that a hub was asked for a subscription and did not verify it.
func (c *channels) hubIsSilent(s *set) {
	why := fmt.Sprintf("no hub has called %s within %s of being asked to: can it, and does that URL lead here?", fetch.Printable(c.opts.Callback), fallbackAfter)
	for _, sub := range c.sub.Subscriptions() {
		if sub.ID == s.uri && sub.LastError != "" { // it may be from an earlier process
			why = fetch.Printable(sub.LastError)
		}
	}
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	if !s.hub && s.hubError == "" {
		s.hubError = why
	}
}

// waitFor waits until ch is closed, but no longer than most, unless most is zero.
// It reports whether ch was closed.
func waitFor(ctx context.Context, ch <-chan struct{}, most time.Duration) bool {
	var late <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-ch:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// listen keeps the stream of events of a set open until ctx ends.
func (c *channels) listen(ctx context.Context, s *set, uri string) {
	allow := func(uri string) error { return c.opts.Allow(s.uri, uri) }
	me := new(byte) // identifies this goroutine; a successor may start soon
	c.reg.mu.Lock()
	c.streams++
	s.listener = me
	many, last := c.streams > maxEventStreams, s.lastEvent(uri)
	c.reg.mu.Unlock()
	defer func() {
		c.reg.mu.Lock()
		defer c.reg.mu.Unlock()
		if c.streams--; s.listener == me {
			s.stream, s.listener = false, nil
		}
	}()
	lost := func(err error) { c.lost(s, me, uri, err) }
	if many {
		lost(fmt.Errorf("more than %d streams of events would be open", maxEventStreams))
		return
	}
	if err := allow(uri); err != nil {
		lost(err)
		return
	}
	stream := &eventstream.Stream{Client: c.opts.Client, URI: uri, LastID: last, First: min(eventstream.FirstWait, c.opts.Pause), Idle: eventstream.Idle, Allow: allow, Lost: lost}
	stream.Opened = func(resumed bool) {
		c.reg.mu.Lock()
		defer c.reg.mu.Unlock()
		if s.listener != me {
			return
		}
		s.stream, s.trouble = true, ""
		c.askAgain(ctx, s)
		if !resumed || s.waiting {
			c.reg.ask(s, time.Now()) // RN-RX-04
		}
		c.reg.replan(s)
	}
	stream.Event = func(e eventstream.Event) { c.reg.receiveEvent(s, uri, e) }
	stream.Run(ctx)
}

// lost records why the stream that the listener reads is not open.
func (c *channels) lost(s *set, listener *byte, uri string, err error) {
	if err == nil {
		return
	}
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	if s.listener != listener {
		return
	}
	s.trouble = fmt.Sprintf("read %s: %s", fetch.Printable(uri), fetch.Printable(err.Error()))
	if s.stream = false; s.waiting {
		c.reg.ask(s, time.Now())
	}
	c.reg.replan(s)
}

// receiveEvent queues an event. It locks mu.
func (r *registry) receiveEvent(s *set, uri string, e eventstream.Event) {
	m := &inbox.Message{Topic: uri, At: time.Now(), EventID: e.ID, Stream: uri}
	switch e.Type {
	case "notification":
		m.Body, m.Size = e.Data, int64(len(e.Data))
	case "gap":
		m.Gap = true
	case "hello":
		m.Hello = true
	default:
		return // a type of a later version
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue(s, m)
}
