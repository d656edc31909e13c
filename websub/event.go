package websub

import (
	"context"
	"log/slog"
	"time"
)

// An EventKind says what happened to a subscription.
type EventKind string

// The kinds of events.
const (
	Verified EventKind = "verified" // a new subscription came to be, maybe in place of another
	Renewed  EventKind = "renewed"  // its lease was extended
	Denied   EventKind = "denied"   // the hub denied it, or ended it; Reason says why
	Refused  EventKind = "refused"  // the hub refused, cannot be reached, or did not verify in time; Reason says why
	Expired  EventKind = "expired"  // the lease ended without renewal, and nothing took its place
	Ended    EventKind = "ended"    // unsubscribed, and nothing took its place
	Forged   EventKind = "forged"   // a delivery had no signature or a wrong one
	Weak     EventKind = "weak"     // a delivery was signed with sha1; said once for a subscription and process
	Unknown  EventKind = "unknown"  // something came for a callback that does not exist; nothing else is told
)

// A SubscriberEvent tells what happened to a subscription. It never holds a
// secret or a callback.
type SubscriberEvent struct {
	Kind    EventKind
	ID      string // of the Wish
	Topic   string
	Hub     string
	Reason  string
	Expires time.Time // end of the lease, of Verified and Renewed
	At      time.Time
}

// tell tells an event, one after the other. Log lines hold no more than events
// do: no secret, no callback (WS-SEC-07).
func (s *Subscriber) tell(e SubscriberEvent) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if e.Kind != Unknown { // anybody can make those, as many as there is time for
		level := slog.LevelInfo
		switch e.Kind {
		case Denied, Refused, Expired:
			if s.opts.OnEvent == nil { // else who is told says so, in words of the whole
				level = slog.LevelWarn
			}
		case Forged, Weak:
			level = slog.LevelWarn
		}
		attrs := []slog.Attr{slog.String("set", e.ID), slog.String("topic", plain(e.Topic)), slog.String("hub", plain(e.Hub))}
		if e.Reason != "" {
			attrs = append(attrs, slog.String("reason", e.Reason))
		}
		s.opts.Logger.LogAttrs(context.Background(), level, "subscription "+string(e.Kind), attrs...)
	}
	if s.opts.OnEvent != nil {
		s.opts.OnEvent(e)
	}
}
