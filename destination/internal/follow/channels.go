package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

const (
	// holdFor is how long the first pull of a set waits for its channel to work
	// (RN-RX-05).
	holdFor = 3 * time.Second

	// fallbackAfter is how long a hub may take to respond before a stream of events
	// is opened instead.
	fallbackAfter = 10 * time.Second

	// againAfter is how many pauses pass before hubs that refused a subscription
	// are asked again because the Source is reachable again: its hub may have
	// changed, but a stream that keeps breaking must not cause many requests to it.
	againAfter = 10

	// maxEventStreams limits the sets with an open stream of events: each is a
	// connection.
	maxEventStreams = 200

	// lookups is the number of channels looked up concurrently.
	lookups = 4

	// remindEvery is the minimum time between two early renewals of a subscription.
	remindEvery = 10 * time.Minute
)

// channels connects the sets of a Follower to their hubs and streams.
type channels struct {
	opts    *Options
	reg     *registry
	sub     *websub.Subscriber // nil: no hub can reach the Follower
	wiring  chan struct{}      // holds a token for each channel being looked up
	started sync.WaitGroup
	streams int    // open streams of events; guarded by the registry's mu
	ownHub  string // the last hub that was found to be the callback; likewise
}

// uses reports whether a channel of the kind may be used.
func (c *channels) uses(kind string) bool { return c.opts.Channel == "" || c.opts.Channel == kind }

// usesHub reports whether hubs of the channel may be subscribed to.
func (c *channels) usesHub(ch *channel) bool {
	return c.sub != nil && ch.topic != "" && c.uses(ByHub)
}

// usesStream reports whether the stream of the channel may be read.
func (c *channels) usesStream(ch *channel) bool { return ch.events != "" && c.uses(ByEvents) }

// run runs do in a goroutine that ends with Run.
func (c *channels) run(do func()) { c.started.Go(do) }

// subscriptions returns the state of the subscriptions.
func (c *channels) subscriptions() []websub.SubscriptionState {
	if c.sub == nil {
		return nil
	}
	return c.sub.Subscriptions()
}

// wire connects the set to the best of its channels. It is called when the channel
// was found or has changed.
func (c *channels) wire(ctx context.Context, s *set, ch channel) {
	c.reg.mu.Lock()
	if s.wired != nil {
		s.wired()
	}
	ctx, s.wired = context.WithCancel(ctx)
	s.stream = false
	was := s.channel
	s.channel, s.since, s.trouble, s.hubError = ch, time.Now(), "", ""
	c.reg.mu.Unlock()
	if c.sub != nil && ch.topic == "" && was.topic != "" || c.sub != nil && !c.uses(ByHub) {
		// WS-L-07: the channel is gone.
		c.run(func() { c.drop(ctx, s) })
	}
	byHub := c.usesHub(&ch)
	if byHub {
		c.run(func() { c.subscribe(ctx, s, ch) })
	}
	if !c.usesStream(&ch) {
		return
	}
	c.run(func() {
		if byHub {
			c.replaceHub(ctx, s, ch.events)
		} else {
			c.listen(ctx, s, ch.events)
		}
	})
}

// unwire disconnects a set that is no longer followed from its channel.
func (c *channels) unwire(ctx context.Context, s *set) {
	s.wired()
	if c.sub != nil {
		c.run(func() { c.drop(ctx, s) })
	}
}

// drop unsubscribes from the hubs of a set.
func (c *channels) drop(ctx context.Context, s *set) {
	if err := c.sub.Drop(ctx, s.uri); err != nil && ctx.Err() == nil {
		c.opts.Log.WarnContext(ctx, "unsubscribe", slog.String("set", s.name), slog.Any("err", err))
	}
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	c.setHub(s, false, "")
}

// setHub records whether a hub is subscribed to, and if not, why. The caller holds
// the registry's mu.
func (c *channels) setHub(s *set, is bool, why string) { s.setHub(is, why, againAfter*c.opts.Pause) }

// subscribe subscribes to the channel of a set.
func (c *channels) subscribe(ctx context.Context, s *set, ch channel) {
	select {
	case c.wiring <- struct{}{}:
		defer func() { <-c.wiring }()
	case <-ctx.Done():
		return
	}
	w := c.discovered(ctx, websub.Wish{ID: s.uri, Topic: ch.topic, Hubs: ch.hubs})
	err := errors.New("neither its Capability List nor its topic name a hub")
	if len(w.Hubs) > 0 {
		others := c.withoutOwn(ctx, &w)
		if len(others) == 0 {
			c.drop(ctx, s)
			c.reg.mu.Lock()
			c.setHub(s, false, "hub "+fetch.Printable(w.Hubs[0])+": it is the callback of this Destination")
			c.reg.mu.Unlock()
			return
		}
		w.Hubs = others
		err = c.sub.Want(ctx, w)
	}
	if err != nil && ctx.Err() == nil {
		c.reg.mu.Lock()
		s.trouble = fmt.Sprintf("subscribe to %s: %v", fetch.Printable(ch.topic), err)
		s.since = time.Time{} // the next look tries again
		if s.waiting {
			c.reg.ask(s, time.Now())
		}
		c.reg.mu.Unlock()
	}
}

// discovered returns the topic and hubs that the topic itself states, which take
// precedence over those in the Capability List (WS-D-14).
func (c *channels) discovered(ctx context.Context, w websub.Wish) websub.Wish {
	found, err := websub.Discover(ctx, &Patient{c.opts.Client}, w.Topic)
	if err != nil || found == nil || len(found.Hubs) == 0 || found.Topic == "" {
		return w
	}
	if found.Topic != w.Topic || !sameStrings(found.Hubs, w.Hubs) && len(w.Hubs) > 0 {
		c.opts.Log.WarnContext(ctx, "the topic names other addresses than its Capability List, and is right", slog.String("topic", fetch.Printable(w.Topic)))
	}
	w.Topic, w.Hubs = found.Topic, found.Hubs
	return w
}

// withoutOwn returns the hubs of a wish without those that are this Destination's own
// callback, and logs that there are some, once.
func (c *channels) withoutOwn(ctx context.Context, w *websub.Wish) []string {
	return slices.DeleteFunc(slices.Clone(w.Hubs), func(hub string) bool {
		if !isCallback(hub, c.opts.Callback) {
			return false
		}
		c.reg.mu.Lock()
		known := c.ownHub == hub
		c.ownHub = hub
		c.reg.mu.Unlock()
		if !known {
			c.opts.Log.WarnContext(ctx, "the Source names the callback of this Destination as its hub; it is not used", slog.String("source", fetch.Printable(w.ID)), slog.String("hub", fetch.Printable(hub)))
		}
		return true
	})
}

// isCallback reports whether a hub is at or below a callback.
func isCallback(hub, callback string) bool {
	h, err := url.Parse(hub)
	if err != nil {
		return false
	}
	c, err := url.Parse(callback)
	return err == nil && strings.EqualFold(h.Host, c.Host) && strings.HasPrefix(strings.TrimSuffix(h.Path, "/")+"/", strings.TrimSuffix(c.Path, "/")+"/")
}

func sameStrings(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// rediscover looks up the current channel of a wish in the Capability List and at
// the topic (WS-L-06).
func (c *channels) rediscover(ctx context.Context, w websub.Wish) (websub.Wish, error) {
	c.reg.mu.Lock()
	var offered discover.Set
	known := false
	if s := c.reg.find(w.ID); s != nil {
		offered, known = *s.offered, true
	}
	c.reg.mu.Unlock()
	if !known {
		return w, errors.New("the set was not found yet")
	}
	offered.Validators = discover.Validators{} // read all of it
	now, _, err := discover.Refresh(ctx, c.opts.Client, &discover.Found{Sets: []discover.Set{offered}})
	if err == nil {
		err = now.Sets[0].Err
	}
	if err != nil {
		return w, err
	}
	ch := channelOf(&now.Sets[0])
	if ch.topic == "" {
		w.Hubs = nil // WS-L-07
		return w, nil
	}
	w = c.discovered(ctx, websub.Wish{ID: w.ID, Topic: ch.topic, Hubs: ch.hubs})
	w.Hubs = c.withoutOwn(ctx, &w)
	return w, nil
}

// onSubscription records the result of a subscription request.
func (c *channels) onSubscription(e websub.SubscriberEvent) {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	s := c.reg.find(e.ID)
	if s == nil {
		return
	}
	why := fmt.Sprintf("hub %s: %s: %s", fetch.Printable(e.Hub), e.Kind, fetch.Printable(e.Reason))
	now := time.Now()
	switch e.Kind {
	case websub.Verified:
		s.trouble = ""
		c.setHub(s, true, "")
		c.reg.ask(s, now) // RN-RX-04
	case websub.Renewed:
		first := !s.hub
		s.trouble = ""
		if c.setHub(s, true, ""); first && s.waiting {
			c.reg.ask(s, now)
		}
	case websub.Denied: // WS-V-03
		s.trouble = why
		c.setHub(s, false, why)
		c.reg.ask(s, now) // RN-RX-04
	case websub.Refused:
		s.trouble = why
		c.setHub(s, s.hub, why)
		if s.waiting && !c.usesStream(&s.channel) { // otherwise the stream is tried now
			c.reg.ask(s, now)
		}
	case websub.Expired, websub.Ended:
		s.trouble = why
		c.setHub(s, false, why)
	case websub.Forged:
		s.status.Forged++
		c.reg.ask(s, now) // RN-RX-04
	case websub.Weak:
		c.opts.Log.Warn("a hub signs with sha1", slog.String("set", s.name), slog.String("hub", fetch.Printable(e.Hub))) // WS-X-08
	}
	c.reg.replan(s)
}

// askAgain requests a subscription again from hubs that refused one: the Source is
// reachable again, and its hub may be, too. The caller holds the registry's mu.
func (c *channels) askAgain(ctx context.Context, s *set) {
	if c.sub == nil || s.hub || s.hubError == "" || s.retry.IsZero() || time.Now().Before(s.retry) {
		return
	}
	s.retry = time.Time{}
	c.run(func() {
		if err := c.sub.Retry(ctx, s.uri); err != nil && ctx.Err() == nil {
			c.opts.Log.WarnContext(ctx, "subscribe again", slog.String("set", s.uri), slog.Any("err", err))
		}
	})
}

// remind renews the subscription of a set in which a routine pull has found
// changes: its hub should have sent notifications about them, and may have lost the
// subscription. The caller holds the registry's mu.
func (c *channels) remind(ctx context.Context, s *set, now time.Time) {
	if c.sub == nil || !s.hub || now.Sub(s.reminded) < remindEvery {
		return
	}
	s.reminded = now
	ctx = context.WithoutCancel(ctx) // the context of the pull ends with it
	c.run(func() {
		if err := c.sub.Renew(ctx, s.uri); err != nil {
			c.opts.Log.WarnContext(ctx, "renew the subscription", slog.String("set", s.uri), slog.Any("err", err))
		}
	})
}
