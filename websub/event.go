package websub

import (
	"context"
	"log/slog"
	"time"
)

// An EventKind is a kind of event of a subscription.
type EventKind string

// The kinds of events.
const (
	Verified EventKind = "verified" // a new subscription was verified; it may replace another
	Renewed  EventKind = "renewed"  // its lease was extended
	Denied   EventKind = "denied"   // the hub denied it, or ended it; see Reason
	Refused  EventKind = "refused"  // the hub refused, cannot be reached, or did not verify in time; see Reason
	Expired  EventKind = "expired"  // the lease ended without renewal or replacement
	Ended    EventKind = "ended"    // unsubscribed, without replacement
	Forged   EventKind = "forged"   // a delivery had no signature or a wrong one
	Weak     EventKind = "weak"     // a delivery was signed with sha1; reported once per subscription and process
	Unknown  EventKind = "unknown"  // a request for a callback that does not exist; all other fields are empty
)

// A SubscriberEvent reports an event of a subscription. It never contains a
// secret or a callback.
type SubscriberEvent struct {
	Kind    EventKind
	ID      string // of the Wish
	Topic   string
	Hub     string
	Reason  string
	Expires time.Time // end of the lease, for Verified and Renewed
	At      time.Time
}

// report reports and logs events, one after the other. Log lines contain no
// more than events do: no secret, no callback (WS-SEC-07).
func (s *Subscriber) report(e SubscriberEvent) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if e.Kind != Unknown { // any client can cause those, in any number
		level := slog.LevelInfo
		switch e.Kind {
		case Denied, Refused, Expired:
			if s.opts.OnEvent == nil { // otherwise the event handler logs it
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
