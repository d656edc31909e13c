package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/document"
	"lockstep/source/internal/notify"
)

// A Notifier takes notifications and passes them to all who have subscribed: a
// hub in this process, or one afar.
//
// Publish returns nil once the hub has accepted the notification for good. An
// error with a method Permanent() bool that returns true says that the hub
// refuses this notification and would do so again; after any other error,
// including a token that the hub does not accept, the same notification
// is brought again, not before the time that a method RetryAfter()
// time.Duration of the error gives. Notifications of one topic come one after
// the other, in order. The header holds Content-Type, and Link with the topic
// as self, the hub, and the Capability List as resourcesync (RN-PB-01).
type Notifier interface {
	Publish(ctx context.Context, topic string, header http.Header, body []byte) error
}

// A Hub passes notifications on, for all sets of a Source.
type Hub struct {
	URL      string   // as subscribers reach it; Capability Lists name it (RN-CH-07)
	Notifier Notifier // notifies it; nil: another program does
}

// A Notification is the result of one attempt to notify a hub.
type Notification struct {
	Set         string
	Hub         string // its URL
	Entries     int    // changes in it
	Bytes       int
	From, Until time.Time     // its interval
	Seq         catalog.Seq   // the last of its changes
	Gap         bool          // From is later than the Until before: changes in between could not be sent
	Refused     bool          // for good: it is not brought again, and what follows it begins with a gap
	Err         error         // why it was not accepted; nil: it was
	Retry       time.Duration // until it is brought again; 0: never, or it was accepted
}

// checkHubs refuses hubs that no document can name.
func checkHubs(hubs []Hub) error {
	seen := make(map[string]bool)
	for _, h := range hubs {
		u, err := url.Parse(h.URL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || strings.ContainsAny(h.URL, "<>\" "):
			return fmt.Errorf("hub %q: want an http or https URL without a fragment", h.URL)
		case seen[h.URL]:
			return fmt.Errorf("hub %s is named twice", h.URL)
		}
		seen[h.URL] = true
	}
	return nil
}

// RelEvents is the relation by which a Capability List names the address where
// the notifications of its set come as a stream of server-sent events: for
// Destinations that no hub can call back (an extension of ours; others ignore
// it, RS-LN-04).
const RelEvents = "urn:x-lockstep:events"

// newChannels returns the channels of the sets.
func (s *Source) newChannels() *notify.Channels {
	o := notify.Options{Docs: s.docs, Catalog: s.catalog, Static: s.opts.Static}
	if on := s.opts.OnNotify; on != nil {
		o.OnNotify = func(n notify.Notification) { on(Notification(n)) }
	}
	for _, h := range s.opts.Hubs {
		o.Hubs = append(o.Hubs, notify.Hub{URL: h.URL, Notifier: h.Notifier})
	}
	var sets []notify.Set
	for i := range s.opts.Sets {
		name := s.opts.Sets[i].Name
		sets = append(sets, notify.Set{Name: name, Rules: s.rules[name]})
	}
	return notify.New(o, sets)
}

// announce records that the published Change List of a set holds the changes after one,
// through another.
func (s *Source) announce(set string, after, through catalog.Mark) {
	from := notify.Place{Seq: after.Seq, Until: after.At}
	to := from
	if through.Seq > after.Seq && !through.At.IsZero() {
		to = notify.Place{Seq: through.Seq, Until: through.At.Add(document.Boundary)}
	}
	s.channels.Publish(set, from, to)
}

// Notify notifies every hub of all that Publish publishes, until ctx ends; then it
// returns nil. Each hub and set has a queue of its own, which is the catalog:
// a hub that is away gets all it missed when it is back, as long as the Change
// List holds that, and delays no other. The position of each is kept beside the
// documents, and written at most once a second: after a crash a hub may be
// notified a second time.
//
// A hub that was never notified of a set begins with what is published after the first
// call of Publish that names it. Notify must not run twice at a time.
func (s *Source) Notify(ctx context.Context) error { return s.channels.Notify(ctx) }

// NotifyOnce notifies every hub of what has been published and it does not know yet,
// and returns why any could not be notified; that is sent the next time.
func (s *Source) NotifyOnce(ctx context.Context) error { return s.channels.NotifyOnce(ctx) }

// Streams returns how many event streams are being read, of all sets.
func (s *Source) Streams() int64 { return s.channels.Streams() }

// A ChannelStatus describes the notifications of a set.
type ChannelStatus struct {
	Set     string
	Topic   string      // its URI
	Last    catalog.Seq // the newest change published
	Streams int         // of events, open now
	Hubs    []HubStatus // those that are notified
}

// A HubStatus is the position of a hub in the changes of a set, and what was done since
// the process began.
type HubStatus struct {
	URL      string
	Notified catalog.Seq // 0 also before Notify has begun
	Behind   int64       // changes it lacks
	Accepted int64       // notifications
	Refused  int64       // for good
	Failures int64       // attempts to be repeated
	Err      error       // of the last attempt; nil: it was accepted
}

// Channels describes the channel of each set, in the order of Options.Sets.
func (s *Source) Channels() []ChannelStatus {
	all := make([]ChannelStatus, 0, len(s.opts.Sets))
	for _, c := range s.channels.Status() {
		st := ChannelStatus{Set: c.Set, Topic: c.Topic, Last: c.Last, Streams: c.Streams}
		for _, h := range c.Hubs {
			st.Hubs = append(st.Hubs, HubStatus(h))
		}
		all = append(all, st)
	}
	return all
}
