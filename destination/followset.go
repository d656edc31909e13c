package destination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/websub"
)

const (
	// holdFor is how long the first look at a set waits for its channel to
	// work (RN-RX-05).
	holdFor = 3 * time.Second

	// fallbackAfter is how long a hub may take before a stream of events is
	// opened in its place.
	fallbackAfter = 10 * time.Second

	// againAfter is how many pauses lie between hubs that would not call us and
	// their being asked again because the Source came back: its hub may have
	// learned to, but a stream that keeps breaking must not annoy it.
	againAfter = 10

	// maxEventStreams is for how many sets streams of events are kept open: each is
	// a connection.
	maxEventStreams = 200

	// maxVain is how often the distance between looks that were asked for, and
	// found nothing, is doubled.
	maxVain = 6

	// wires is how many channels are looked up at a time.
	wires = 4
)

// A channel is where notifications of changes of a set come from.
type channel struct {
	topic  string   // of its hubs; "": it has none
	hubs   []string // named in the Capability List; RN-CH-09: there may be none
	events string   // address of its stream; "": it has none
}

// channelOf returns what the set offers.
func channelOf(f *discover.Set) channel {
	return channel{topic: f.URI(resourcesync.ChangeNotification), hubs: f.Hubs, events: f.Link(relEvents)}
}

func (c *channel) equal(o *channel) bool {
	return c.topic == o.topic && c.events == o.events && slices.Equal(c.hubs, o.hubs)
}

// A followed is one set that is followed. What is not said to be the worker's is
// guarded by the Follower's mu.
type followed struct {
	uri     string
	name    string
	offered *discover.Set // as it was last found; never changed

	state *setState // the worker's: nil: to be loaded
	up    upChecker // the worker's

	channel  channel
	since    time.Time          // when the channel was found
	wired    context.CancelFunc // ends what belongs to it
	hub      bool               // a hub is subscribed to, and has verified it; see setHub
	turns    chan struct{}      // closed when hub changes; nil: nothing is waiting
	stream   bool               // the stream is open
	listener *byte              // identifies the goroutine that reads it
	trouble  string             // with the channel
	spurned  string             // why no hub is subscribed to; "": nothing speaks against it
	retry    time.Time          // when hubs may be asked again, should the Source come back
	reminded time.Time          // when its hub was last asked whether it remembers

	resume struct{ stream, event string } // where the stream was left: the last event that was processed

	queue    []*inbox.Message
	queued   int64     // their weight
	busy     int       // how many of them, the first, are being applied
	overload *overload // nil: there is none

	pulled  bool           // since Run began: messages may be processed
	due     time.Time      // when to look at it
	asked   bool           // because of something that came, or failed
	last    time.Time      // when the last look ended
	took    time.Duration  // and how long it took
	vain    int            // how many looks in a row found nothing
	pause   time.Duration  // before what failed is tried again
	again   time.Time      // when messages may be processed, after a failure
	changed push.Overtaken // resources whose content is waited for
	waiting bool           // a look is waited for until the channel works
	refused bool           // for safety, when it was last pulled

	pausedUntil   time.Time // until then notifications are not used
	pausedBecause string
	turn          time.Duration // how long it may be at work while others wait

	status SetStatus
}

// isLive reports whether notifications come, and all of them are used.
func (s *followed) isLive() bool {
	return (s.hub || s.stream) && s.overload == nil && s.usesPush(time.Now())
}

// usesPush reports whether notifications are used: not while a document of the
// Source has contradicted one, nor while the set is refused. What they say is
// found by pulling.
func (s *followed) usesPush(now time.Time) bool { return !s.refused && !now.Before(s.pausedUntil) }

// ask schedules an early look at the set, because of an event: looks that are
// requested repeatedly keep a minimum distance, so that the peers that cause
// them do not determine our load. The caller holds mu.
func (f *Follower) ask(s *followed, now time.Time) {
	at := now
	if !s.last.IsZero() {
		at = saved.Latest(now, s.last.Add(f.distance(s)))
	}
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
	s.asked, s.waiting = true, false
	f.wakeUp()
}

// distance is how long after a look the next may be requested: the more looks
// in a row found nothing, the longer, so that forged messages cannot make us
// send requests to the Source forever. The caller holds mu.
func (f *Follower) distance(s *followed) time.Duration {
	d := f.opts.Pause << min(s.vain, maxVain)
	return max(min(d, max(f.opts.Poll, f.opts.Pause)), 10*s.took)
}

// wire connects the set to the best of its channels. It is called when the
// channel was found, or has changed.
func (f *Follower) wire(ctx context.Context, s *followed, c channel) {
	f.mu.Lock()
	if s.wired != nil {
		s.wired()
	}
	ctx, s.wired = context.WithCancel(ctx)
	s.stream = false
	was := s.channel
	s.channel, s.since, s.trouble, s.spurned = c, time.Now(), "", ""
	f.mu.Unlock()
	if f.sub != nil && c.topic == "" && was.topic != "" || f.sub != nil && !f.uses(ChannelHub) {
		// WS-L-07: the channel is gone.
		f.run(func() { f.drop(ctx, s) })
	}
	byHub := f.sub != nil && c.topic != "" && f.uses(ChannelHub)
	if byHub {
		f.run(func() { f.want(ctx, s, c) })
	}
	if c.events == "" || !f.uses(ChannelEvents) {
		return
	}
	f.run(func() {
		if byHub {
			f.standIn(ctx, s, c.events)
		} else {
			f.listen(ctx, s, c.events)
		}
	})
}

// uses reports whether a channel of the kind may be used.
func (f *Follower) uses(kind string) bool { return f.opts.Channel == "" || f.opts.Channel == kind }

// run starts something that ends with Run.
func (f *Follower) run(do func()) { f.started.Go(do) }

// drop unsubscribes.
func (f *Follower) drop(ctx context.Context, s *followed) {
	if err := f.sub.Drop(ctx, s.uri); err != nil && ctx.Err() == nil {
		f.d.log.WarnContext(ctx, "unsubscribe", slog.String("set", s.name), slog.Any("err", err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setHub(s, false, "")
}

// want subscribes to the channel of a set.
func (f *Follower) want(ctx context.Context, s *followed, c channel) {
	select {
	case f.wiring <- struct{}{}:
		defer func() { <-f.wiring }()
	case <-ctx.Done():
		return
	}
	w := f.discovered(ctx, websub.Wish{ID: s.uri, Topic: c.topic, Hubs: c.hubs})
	err := errors.New("neither its Capability List nor its topic name a hub")
	if len(w.Hubs) > 0 {
		err = f.sub.Want(ctx, w)
	}
	if err != nil && ctx.Err() == nil {
		f.mu.Lock()
		s.trouble = fmt.Sprintf("subscribe to %s: %v", fetch.Printable(c.topic), err)
		s.since = time.Time{} // the next look tries again
		if s.waiting {
			f.ask(s, time.Now())
		}
		f.mu.Unlock()
	}
}

// discovered asks the topic where it and its hubs are: that wins over what the
// Capability List says (WS-D-14).
func (f *Follower) discovered(ctx context.Context, w websub.Wish) websub.Wish {
	found, err := websub.Discover(ctx, &patient{f.d.client}, w.Topic)
	if err != nil || found == nil || len(found.Hubs) == 0 || found.Topic == "" {
		return w
	}
	if found.Topic != w.Topic || !sameStrings(found.Hubs, w.Hubs) && len(w.Hubs) > 0 {
		f.d.log.WarnContext(ctx, "the topic names other addresses than its Capability List, and is right", slog.String("topic", fetch.Printable(w.Topic)))
	}
	w.Topic, w.Hubs = found.Topic, found.Hubs
	return w
}

func sameStrings(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// rediscover looks where the channel of a wish is now: in the Capability List
// and at the topic (WS-L-06).
func (f *Follower) rediscover(ctx context.Context, w websub.Wish) (websub.Wish, error) {
	f.mu.Lock()
	var offered discover.Set
	known := false
	if s := f.find(w.ID); s != nil {
		offered, known = *s.offered, true
	}
	f.mu.Unlock()
	if !known {
		return w, errors.New("the set was not found yet")
	}
	offered.Validators = discover.Validators{} // all of it
	now, _, err := discover.Refresh(ctx, f.d.client, &discover.Found{Sets: []discover.Set{offered}})
	if err == nil {
		err = now.Sets[0].Err
	}
	if err != nil {
		return w, err
	}
	c := channelOf(&now.Sets[0])
	if c.topic == "" {
		w.Hubs = nil // WS-L-07
		return w, nil
	}
	return f.discovered(ctx, websub.Wish{ID: w.ID, Topic: c.topic, Hubs: c.hubs}), nil
}

// enqueue puts a message into the queue of its set. The caller holds mu.
func (f *Follower) enqueue(s *followed, m *inbox.Message) {
	if !s.usesPush(m.At) {
		f.discard(s, m)
		return
	}
	s.queued += m.Weight()
	if s.queue = append(s.queue, m); !m.Hello {
		s.status.Notifications++
		s.status.Notified = m.At
	}
	f.limitBacklog(s, time.Now())
	f.wakeUp()
}

// discard leaves out messages of a set, which is going to be pulled in their
// place. The caller holds mu.
func (f *Follower) discard(s *followed, ms ...*inbox.Message) {
	f.discardNoting(s, ms, map[string][]byte{})
}

// discardNoting does so and saves docs in the same transaction. The caller holds
// mu.
func (f *Follower) discardNoting(s *followed, ms []*inbox.Message, docs map[string][]byte) {
	f.inbox.Remove(ms, docs)
	if len(docs) > 0 {
		f.journal.Later(docs)
	}
	for _, m := range ms {
		if m.Hello {
			continue
		}
		s.status.Discarded++
		s.status.Notified = m.At
	}
}

// pausePush copies whether notifications of the set are used. The caller holds
// mu.
func (f *Follower) pausePush(s *followed, p *push.State, now time.Time) {
	if p != nil {
		s.status.Contradicted = p.Lies
		s.pausedUntil, s.pausedBecause = p.Paused, p.Reason
	}
	if s.usesPush(now) {
		return
	}
	f.discard(s, s.queue...)
	s.queue, s.queued = nil, 0
}
