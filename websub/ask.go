package websub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxAsking  = 32                   // requests under way at a time
	gathering  = 5 * time.Millisecond // for which updates are gathered before the next check
	longestNap = 10 * time.Minute     // between checks of what is due, in case the clock is set
	savePause  = 5 * time.Second      // after a state that could not be saved
	lookTime   = 5 * time.Minute      // for a rediscovery, or half of the rest of the lease
)

// Run sends requests, retries them, and renews subscriptions until ctx ends;
// then it returns nil. It returns an error if the state cannot be read.
func (s *Subscriber) Run(ctx context.Context) error {
	if _, err := s.current(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	room := make(chan struct{}, maxAsking)
	for ctx.Err() == nil {
		looked := time.Now()
		c, err := s.update(ctx, func(c *change) bool {
			changed := false
			for _, w := range c.Wishes {
				changed = c.step(w) || changed
			}
			return changed
		})
		nap := savePause
		if err == nil {
			for _, j := range c.jobs {
				s.busy.add(j.name)
				asking.Go(func() { s.work(ctx, room, j) })
			}
			nap = s.nap()
		} else if ctx.Err() == nil {
			s.opts.Logger.ErrorContext(ctx, "subscriptions stand still", slog.Any("err", err))
		}
		timer := time.NewTimer(nap)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wake:
		}
		timer.Stop()
		select {
		case <-ctx.Done():
		case <-time.After(gathering - time.Since(looked)):
		}
	}
	return nil
}

// nap returns the time until the next action.
func (s *Subscriber) nap() time.Duration {
	m, now := s.memory.Load(), s.opts.Clock()
	nap := longestNap
	until := func(t time.Time) { nap = min(nap, max(t.Sub(now), time.Millisecond)) }
	for id, w := range m.Wishes {
		open := !w.Dropped // nothing is requested, now or later
		for _, l := range m.of(id) {
			if l.State != pending {
				until(l.Expires)
			}
			held := l.State == active && s.holds(w, l)
			open = open && l.State != pending && !held
			switch {
			case s.busy.has(l.Name): // the job wakes Run when it is done
			case held:
				until(later(l.Renew, l.Next))
			case l.State != active:
				until(l.Next)
			}
		}
		if open {
			until(w.Next)
		}
	}
	return nap
}

// busyNames are the names of subscriptions with a request under way. The zero
// value is ready to use.
type busyNames struct {
	mu    sync.Mutex // guards names
	names map[string]bool
}

func (b *busyNames) has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[name]
}

func (b *busyNames) add(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names == nil {
		b.names = map[string]bool{}
	}
	b.names[name] = true
}

func (b *busyNames) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names, name)
}

// work does one job and records the result.
func (s *Subscriber) work(ctx context.Context, room chan struct{}, j job) {
	defer s.poke()
	defer s.busy.remove(j.name)
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
		return
	}
	if j.look && !s.look(ctx, j) {
		return
	}
	l := s.memory.Load().Subscriptions[j.name]
	if l == nil || l.State == ended {
		return
	}
	moved, err := s.request(ctx, l, j.mode)
	if ctx.Err() != nil {
		return // the next process sends it again
	}
	_, uerr := s.update(ctx, func(c *change) bool { return c.answered(j, moved, err) })
	if uerr != nil && ctx.Err() == nil {
		s.opts.Logger.ErrorContext(ctx, "answer of a hub is lost", slog.Any("err", uerr))
	}
}

// request sends one request for l (WS-S-01). moved is the hub's new address, if
// it returned one.
func (s *Subscriber) request(ctx context.Context, l *subscription, mode string) (moved string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	form := url.Values{"hub.callback": {l.Callback}, "hub.mode": {mode}, "hub.topic": {l.Topic}}
	if mode == ModeSubscribe {
		if lease := int64(s.opts.Lease / time.Second); lease > 0 {
			form.Set("hub.lease_seconds", strconv.FormatInt(lease, 10))
		}
		if l.NewSecret != "" {
			form.Set("hub.secret", l.NewSecret)
		} else if l.Secret != "" {
			form.Set("hub.secret", l.Secret)
		}
	}
	if s.opts.OldHubs {
		form["hub.verify"] = []string{"async", "sync"}
	}
	x := &exchange{
		client: s.client, method: http.MethodPost, address: l.hub(), redirects: maxPostRedirects,
		header: http.Header{"Content-Type": {formType}, "User-Agent": {s.opts.UserAgent}},
		body:   []byte(form.Encode()),
	}
	a, err := x.do(ctx)
	if err != nil {
		return "", fmt.Errorf("hub %s: %w", plain(l.hub()), err)
	}
	if a.StatusCode/100 != 2 {
		return "", refusal(l.hub(), a, s.opts.Clock())
	}
	drain(a.Response)
	return a.moved, nil
}

// answered records a hub's answer to a request. Verification may have come
// before, and takes precedence.
func (c *change) answered(j job, moved string, err error) bool {
	l := c.Subscriptions[j.name]
	if l == nil || l.State == ended || !l.Asked.Equal(j.ask) || (j.mode == ModeUnsubscribe) != (l.State == ending) {
		return false
	}
	if moved != "" {
		l.Hub = moved
	}
	if err == nil || !l.Waiting {
		return moved != ""
	}
	var refused *RefusedError
	var wait time.Duration
	final := false
	if errors.As(err, &refused) {
		final, wait = refused.final(), refused.RetryAfter
	}
	reason := strings.TrimPrefix(err.Error(), "hub "+plain(l.hub())+": ") // the event already has it
	c.failed(l, l.hide(reason), final, wait, triesPerHub)
	return true
}

// hide removes secrets shared with the hub from text, in case the hub repeats
// them (WS-SEC-07).
func (l *subscription) hide(text string) string {
	for _, secret := range []string{l.Name, l.Secret, l.NewSecret, l.OldSecret} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// look discovers the current topic and hubs. It reports whether the job is
// still needed.
func (s *Subscriber) look(ctx context.Context, j job) bool {
	m := s.memory.Load()
	l := m.Subscriptions[j.name]
	if l == nil || m.Wishes[l.WishID] == nil {
		return false
	}
	before := m.Wishes[l.WishID].Wish
	patience := lookTime
	if l.State == active {
		patience = min(patience, l.Expires.Sub(s.opts.Clock())/2)
	}
	found, err := s.rediscover(ctx, before, patience)
	if ctx.Err() != nil {
		return false
	}
	gone := err == nil && len(found.Hubs) == 0
	if err == nil && !gone {
		found, err = checkWish(found)
	}
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "subscription is renewed where it was", slog.String("set", before.ID), slog.Any("err", err))
		return true
	}
	stays := true
	_, err = s.update(ctx, func(c *change) bool {
		w, l := c.Wishes[before.ID], c.Subscriptions[j.name]
		if w == nil || w.Dropped || l == nil || w.Topic != before.Topic {
			stays = false
			return false
		}
		if gone { // WS-L-07
			stays = false
			return c.drop(before.ID)
		}
		found.ID = before.ID
		if !c.want(found) {
			return false
		}
		if stays = s.holds(c.Wishes[before.ID], l); !stays {
			l.Waiting, l.Next = false, time.Time{}
		}
		return true
	})
	return stays && err == nil
}

func (s *Subscriber) rediscover(ctx context.Context, w Wish, patience time.Duration) (Wish, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.opts.Rediscover != nil {
		return s.opts.Rediscover(ctx, w)
	}
	d, err := Discover(ctx, s.client, w.Topic)
	if err != nil {
		return w, err
	}
	w.Topic, w.Hubs = d.Topic, d.Hubs
	return w, nil
}
