package notify

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"lockstep/internal/newerstate"
	"lockstep/internal/sleep"
)

// Pauses after a hub did not accept a notification. They double with each attempt and
// vary at random by up to a fifth; a hub can request longer ones.
const (
	notifyRetryFirst = time.Second
	notifyRetryMost  = time.Minute
	notifyRetryAsked = time.Hour

	// notifyTimeout limits an attempt, so that a hub that does not respond cannot
	// block its queue.
	notifyTimeout = time.Minute

	// notifyTries is how often NotifyOnce tries to send a notification.
	notifyTries = 3
)

// acked are the places at which the last three pings that a hub accepted ended, oldest
// first. The content of the topic reaches back to the oldest: a hub may merge two pings,
// and the changes of the third are at the topic before it is sent.
type acked [3]Place

// A queue is the position of one hub in the changes of one set.
type queue struct {
	hub *Hub

	mu       sync.Mutex // guards the following fields
	notified Place      // zero: the position of the hub is not known yet
	acked    acked
	accepted int64
	refused  int64
	failures int64 // attempts that are repeated
	err      error // of the last attempt; nil: it was accepted
}

// position returns the last change that the hub was notified of.
func (q *queue) position() Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.notified
}

func (q *queue) pingOnly() bool {
	t, ok := q.hub.Notifier.(pingNotifier)
	return ok && t.Thin()
}

// Notify notifies every hub of all that is published, until ctx ends; then it
// returns nil. Each hub and set has a queue of its own, which is the catalog.
// It must not run twice at a time.
func (s *Channels) Notify(ctx context.Context) error {
	for retry := notifyRetryFirst; ; retry = min(2*retry, notifyRetryMost) {
		err := s.openQueues(ctx)
		if err == nil {
			break
		}
		if errors.Is(err, newerstate.Err) {
			return err
		}
		if ctx.Err() == nil {
			s.opts.Docs.Log.WarnContext(ctx, "cannot read which notifications hubs were sent", slog.Duration("retry", retry), slog.Any("err", err))
		}
		if sleep.For(ctx, retry) != nil {
			return nil
		}
	}
	var wg sync.WaitGroup
	for _, c := range s.channels {
		if len(c.hubs()) == 0 {
			continue
		}
		for _, q := range c.hubs() {
			wg.Go(func() { s.serveQueue(ctx, c, q) })
		}
		wg.Go(func() { s.keepChannel(ctx, c) })
	}
	wg.Wait()
	<-ctx.Done()
	s.keepAll(ctx)
	return nil
}

// NotifyOnce sends every hub the published changes that it has not received yet. If
// that fails for a hub, it returns the reason, and the next call sends them.
func (s *Channels) NotifyOnce(ctx context.Context) error {
	if err := s.openQueues(ctx); err != nil {
		return err
	}
	var (
		mu   sync.Mutex // guards errs
		errs []error
		wg   sync.WaitGroup
	)
	for _, c := range s.channels {
		for _, q := range c.hubs() {
			wg.Go(func() {
				if err := s.emptyQueue(ctx, c, q); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for _, c := range s.channels {
		errs = append(errs, s.saveChannel(ctx, c))
	}
	return errors.Join(errs...)
}

// serveQueue notifies a hub of a set's changes as they are published.
func (s *Channels) serveQueue(ctx context.Context, c *Channel, q *queue) {
	retry := notifyRetryFirst
	for ctx.Err() == nil { // else the catalog cannot be read any more
		e, grown := c.look()
		n, gap, err := s.due(ctx, c, q, e)
		if err == nil && n == nil {
			select {
			case <-ctx.Done():
				return
			case <-grown:
			}
			continue
		}
		wait := time.Duration(0)
		if err == nil {
			wait, _ = s.notify(ctx, c, q, n, gap, retry) // the error has been reported
		} else if ctx.Err() == nil { // the catalog cannot be read
			s.opts.Docs.Log.ErrorContext(ctx, "cannot notify", slog.String("set", c.set.Name), slog.Any("err", err))
			wait = jittered(retry)
		}
		if wait == 0 {
			retry = notifyRetryFirst
			continue
		}
		if sleep.For(ctx, wait) != nil {
			return
		}
		retry = min(2*retry, notifyRetryMost)
	}
}

// emptyQueue notifies a hub of all changes of a set that it has not received yet.
func (s *Channels) emptyQueue(ctx context.Context, c *Channel, q *queue) error {
	var refused error
	for tries := 1; ; {
		e, _ := c.look()
		n, gap, err := s.due(ctx, c, q, e)
		if err != nil || n == nil {
			return errors.Join(refused, err)
		}
		wait, err := s.notify(ctx, c, q, n, gap, notifyRetryFirst<<(tries-1))
		switch {
		case wait == 0 && err != nil:
			refused, tries = err, 1 // the last refusal is reported
		case wait == 0:
			tries = 1
		case tries == notifyTries, sleep.For(ctx, wait) != nil:
			return errors.Join(refused, err)
		default:
			tries++
		}
	}
}

// due returns the next notification for a hub; nil: there is none yet.
func (s *Channels) due(ctx context.Context, c *Channel, q *queue, e extent) (n *notification, gap bool, err error) {
	if e.after.Until.IsZero() {
		return nil, false, nil
	}
	notified := q.position()
	if notified.Until.IsZero() {
		q.begin(c.start())
		if err := s.saveChannel(ctx, c); err != nil {
			return nil, false, err
		}
		notified = q.position()
	}
	for {
		n, gap, err = s.next(ctx, c, notified)
		if n == nil || !n.empty() {
			return n, gap, err
		}
		notified = n.to
		q.pass(n)
		c.move()
	}
}

// notify sends n to a hub. It returns how long to wait before it is sent again; 0 if it
// is not.
func (s *Channels) notify(ctx context.Context, c *Channel, q *queue, n *notification, gap bool, retry time.Duration) (time.Duration, error) {
	to, pingOnly := n.to, q.pingOnly()
	shown, err := s.show(ctx, c, n)
	if err != nil {
		s.opts.Docs.Log.ErrorContext(ctx, "cannot write the document at the topic", slog.String("set", c.set.Name), slog.Any("err", err))
		return jittered(retry), err
	}
	if pingOnly && shown.Seq > to.Seq {
		to = shown
	}
	attempt, cancel := context.WithTimeout(ctx, notifyTimeout)
	err = q.hub.Notifier.Publish(attempt, s.opts.Docs.Base.URI(c.Name), s.notifyHeader(c, q.hub), n.body)
	cancel()
	if err != nil && ctx.Err() != nil {
		return notifyRetryFirst, ctx.Err()
	}
	notified := Notification{Set: c.set.Name, Hub: q.hub.URL, Entries: n.entries, Bytes: len(n.body), From: n.from.Until, Until: n.to.Until,
		Seq: n.to.Seq, Gap: gap, Err: err}
	switch {
	case err == nil:
		q.accept(to)
	case permanent(err): // RN-PB-06: reported, and not sent again; the next one begins where this one ends, so that subscribers see a gap
		notified.Refused = true
		q.refuse(n, err)
		s.logNotify(ctx, slog.LevelError, "hub refused a notification", slog.String("set", c.set.Name), slog.String("hub", q.hub.URL), slog.Any("err", err))
	default:
		notified.Retry = pauseFor(err, retry)
		q.fail(err)
		s.logNotify(ctx, slog.LevelWarn, "hub did not take a notification", slog.String("set", c.set.Name), slog.String("hub", q.hub.URL),
			slog.Duration("retry", notified.Retry), slog.Any("err", err))
	}
	c.move()
	if s.opts.OnNotify != nil {
		s.opts.OnNotify(notified)
	}
	return notified.Retry, err
}

// logNotify logs the failure of a notification, at level debug if OnNotify reports it.
func (s *Channels) logNotify(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	if s.opts.OnNotify != nil {
		level = slog.LevelDebug
	}
	s.opts.Docs.Log.LogAttrs(ctx, level, msg, attrs...)
}

// notifyHeader returns the header of a notification (RN-PB-01).
func (s *Channels) notifyHeader(c *Channel, h *Hub) http.Header {
	return http.Header{"Content-Type": {MediaType}, "Link": {s.topicLinks(c, *h)}}
}

func (q *queue) begin(p Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notified, q.acked = p, acked{p, p, p}
}

func (q *queue) accept(to Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notified, q.acked = to, acked{q.acked[1], q.acked[2], to}
	q.accepted, q.err = q.accepted+1, nil
}

// window returns the time since which changes must be at the topic for the hub.
func (q *queue) window() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.acked[0].Until
}

func (q *queue) refuse(n *notification, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notified = n.to
	q.refused, q.err = q.refused+1, err
}

func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failures, q.err = q.failures+1, err
}

func (q *queue) pass(n *notification) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notified = n.to
}

// permanent reports whether err says that the hub would refuse the notification again,
// whatever an operator corrects.
func permanent(err error) bool {
	p, ok := errors.AsType[interface {
		error
		Permanent() bool
	}](err)
	return ok && p.Permanent()
}

// pauseFor returns how long to wait after err: the usual pause, or what the hub
// requests if that is longer.
func pauseFor(err error, retry time.Duration) time.Duration {
	wait := jittered(retry)
	if asking, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		wait = max(wait, min(asking.RetryAfter(), notifyRetryAsked))
	}
	return wait
}

// jittered returns d, varied at random by up to a fifth.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
