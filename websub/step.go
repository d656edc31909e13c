package websub

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"time"
)

const (
	triesPerHub  = 3              // requests to a hub that get no answer, before the next one is asked
	silences     = 2              // requests a hub accepts and never verifies, likewise
	leaveTries   = 4              // requests to end a subscription; after them its lease ends it
	denialPause  = 24 * time.Hour // after hubs that do not want to (WS-V-03)
	denialSpread = 25             // by a random share of 1/25, more or less
	longestAsked = time.Hour      // of a Retry-After
	keepEnded    = 31 * 24 * time.Hour
	keepOld      = 24 * time.Hour // how long a secret is valid after the next one is verified (WS-X-11)
	nameBytes    = 24             // random bytes in a callback; 16 are required (WS-S-05)
	secretBytes  = 32             // random bytes in a secret, written as hex digits (WS-S-04)
)

// A job is a request to send.
type job struct {
	name string // of the subscription
	mode string
	ask  time.Time // when it was decided: distinguishes it from later requests
	look bool      // discover topic and hubs first (WS-L-06)
}

// random returns n random bytes as hex digits.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// jittered returns d, randomly changed by up to a share of it.
func jittered(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * (1 + share*(2*mathrand.Float64()-1)))
}

// backoff returns the wait after that many failed requests; at least what the
// hub requested, up to a limit.
func (o *SubscriberOptions) backoff(attempts int, asked time.Duration) time.Duration {
	d := float64(o.RetryFirst) * math.Pow(2, float64(max(attempts-1, 0)))
	d = min(d, float64(o.RetryMost))
	return max(jittered(time.Duration(d), 0.2), min(asked, longestAsked))
}

// want records a Wish. It reports whether anything changed.
func (c *change) want(w Wish) bool {
	old := c.Wishes[w.ID]
	if old == nil {
		c.Wishes[w.ID] = &wish{Wish: w}
		return true
	}
	same := old.Topic == w.Topic && slices.Equal(old.Hubs, w.Hubs)
	if same && !old.Dropped {
		return false
	}
	c.Wishes[w.ID] = &wish{Wish: w}
	return true
}

// hurry makes all pending actions of a Wish due now.
func (c *change) hurry(id string) {
	w := c.Wishes[id]
	if !w.Denied {
		w.Next = time.Time{}
	}
	for _, l := range c.of(id) {
		if l.State == pending || l.State == active {
			l.Renew, l.Next, l.Waiting = c.now, time.Time{}, false
		}
	}
}

func (c *change) drop(id string) bool {
	w := c.Wishes[id]
	if w == nil || w.Dropped {
		return false
	}
	w.Dropped = true
	return true
}

// step decides the next action for a Wish. It reports whether it changed
// anything, and adds jobs.
func (c *change) step(w *wish) bool {
	changed := c.pass(w)
	var holds, waits *subscription // the subscription that is in effect; the one that is being requested
	for _, l := range c.of(w.ID) {
		fits := c.s.holds(w, l)
		switch {
		case l.State == active && fits && holds == nil:
			holds = l
		case l.State == pending && fits && holds == nil && waits == nil:
			waits = l
		case l.State == pending: // only the hub knows of it, and its verification will fail (WS-I-03)
			c.remove(l)
			changed = true
		case l.State == active && (holds != nil || w.Dropped):
			l.State, l.Attempts, l.Next, l.Waiting = ending, 0, time.Time{}, false
			changed = true
		}
	}
	for _, l := range c.of(w.ID) {
		if l.State == ending && c.due(l) {
			c.ask(l, ModeUnsubscribe, false)
			changed = true
		}
	}
	switch {
	case w.Dropped:
		if len(c.of(w.ID)) == 0 {
			delete(c.Wishes, w.ID)
			changed = true
		}
	case holds != nil:
		if !c.now.Before(holds.Renew) && c.due(holds) {
			c.renew(w, holds)
			changed = true
		}
	case waits != nil:
		if c.due(waits) {
			c.ask(waits, ModeSubscribe, false)
			changed = true
		}
	case !c.now.Before(w.Next):
		c.begin(w)
		changed = true
	}
	return changed
}

// pass handles the passage of time: leases and waits that end.
func (c *change) pass(w *wish) bool {
	changed := false
	for _, l := range c.of(w.ID) {
		switch {
		case (l.State == active || l.State == ending) && !c.now.Before(l.Expires):
			if l.State == active {
				c.report(Expired, l, l.Error)
				w.Error = l.Error
				if i := slices.Index(w.Hubs, l.Named); i >= 0 && !l.Stale {
					w.At, w.Next = i, c.now
				}
			}
			l.end(c.now)
			changed = true
		case l.Waiting && !c.now.Before(l.Next): // WS-S-11
			l.Waiting = false
			c.failed(l, "the hub did not verify in time", false, 0, silences)
			changed = true
		}
	}
	return changed
}

// holds reports whether l fulfills w, with a callback of this Subscriber.
func (s *Subscriber) holds(w *wish, l *subscription) bool {
	return !w.Dropped && !l.Stale && l.Topic == w.Topic && slices.Contains(w.Hubs, l.Named) && l.Callback == s.callback(l.Name)
}

// due reports whether a request for l may be sent now.
func (c *change) due(l *subscription) bool {
	return !l.Waiting && !c.now.Before(l.Next) && !c.s.busy.has(l.Name)
}

// begin creates a subscription of w at the next hub.
func (c *change) begin(w *wish) {
	w.At = max(w.At, 0) % len(w.Hubs)
	l := &subscription{Name: random(nameBytes), WishID: w.ID, Topic: w.Topic, Named: w.Hubs[w.At], State: pending}
	l.Callback = c.s.callback(l.Name)
	if c.s.opts.sendsSecret(l.Named) {
		l.Secret = random(secretBytes)
	}
	c.add(l)
	c.ask(l, ModeSubscribe, w.Round > 0 && w.At == 0)
}

// renew requests another lease, or a subscription that replaces l (WS-L-05).
func (c *change) renew(w *wish, l *subscription) {
	if l.Attempts == 0 {
		l.Renewals++
	}
	if n := c.s.opts.FreshCallback; n > 0 && l.Renewals >= n && l.Attempts == 0 {
		l.Stale = true
		w.At = max(slices.Index(w.Hubs, l.Named), 0)
		c.begin(w)
		return
	}
	if l.NewSecret == "" && c.s.opts.sendsSecret(l.hub()) && (c.s.opts.NewSecrets || l.Secret == "") {
		l.NewSecret = random(secretBytes)
	}
	c.ask(l, ModeSubscribe, true)
}

// ask adds a job with a request for l. The request is recorded before it is
// sent: verification may come before the answer (WS-S-08).
func (c *change) ask(l *subscription, mode string, look bool) {
	l.Asked, l.Next, l.Waiting = c.now, c.now.Add(c.s.opts.Pending), true
	c.jobs = append(c.jobs, job{l.Name, mode, c.now, look})
}

// failed records a failed request for l, and decides the next step: another
// attempt, another hub, or a long wait.
func (c *change) failed(l *subscription, reason string, final bool, wait time.Duration, tries int) {
	l.Waiting, l.Attempts, l.Error = false, l.Attempts+1, reason
	w := c.Wishes[l.WishID]
	over := final || l.Attempts >= tries || w != nil && w.Round > 0 && l.State == pending
	l.Next = c.now.Add(c.s.opts.backoff(l.Attempts, wait))
	switch {
	case l.State == ending:
		if final || l.Attempts >= leaveTries && !c.s.opts.KeepTrying {
			c.report(Ended, l, reason) // the hub has already forgotten it, or will soon
			l.end(c.now)
		}
	case w == nil || !over:
	case l.State == pending:
		c.report(Refused, l, reason)
		w.Error = "hub " + plain(l.hub()) + ": " + reason
		c.nextHub(w, final, wait)
		c.remove(l)
	case len(w.Hubs) > 1:
		c.report(Refused, l, reason)
		l.Stale = true // it remains until its lease ends, or it is replaced
		w.At, w.Next = (slices.Index(w.Hubs, l.Named)+1)%len(w.Hubs), c.now
	case final:
		c.report(Refused, l, reason)
		l.Next = c.now.Add(jittered(denialPause, 1.0/denialSpread))
	}
}

// nextHub advances to the next hub; after the last one there is a pause
// (WS-S-11), a long one if all failures were final.
func (c *change) nextHub(w *wish, final bool, wait time.Duration) {
	w.Next = c.now
	if w.At++; w.At < len(w.Hubs) {
		return
	}
	w.At = 0
	w.Round++
	pause := c.s.opts.backoff(min(triesPerHub+w.Round, 30), wait)
	if final {
		pause = jittered(denialPause, 1.0/denialSpread)
	}
	w.Next = c.now.Add(pause)
}

// sendsSecret reports whether a secret is sent to a hub (WS-S-04).
func (o *SubscriberOptions) sendsSecret(hub string) bool {
	return secured(hub) || !o.NoPlainSecret
}
