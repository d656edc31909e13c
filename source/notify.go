package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/catalog"
)

// A Notifier takes notifications and passes them to all who have subscribed: a
// hub in this process, or one afar.
//
// Publish returns nil once the hub has accepted the notification for good. An
// error with a method Permanent() bool that returns true says that the hub
// refuses it and would do so again; after any other error the same notification
// is brought again, not before the time that a method RetryAfter()
// time.Duration of the error gives. Notifications of one topic come one after
// the other, in order. The header holds Content-Type, and Link with the topic
// as self, the hub, and the Capability List as resourcesync (RN-PB-01).
type Notifier interface {
	Publish(ctx context.Context, topic string, header http.Header, body []byte) error
}

// A thinNotifier only tells its hub that there is news, which the hub then
// fetches from the topic (RN-PB-03). What Thin returns may change: a Notifier
// can find out by asking.
type thinNotifier interface{ Thin() bool }

// A Hub passes notifications on, for all sets of a Source.
type Hub struct {
	URL      string   // as subscribers reach it; Capability Lists name it (RN-CH-07)
	Notifier Notifier // tells it; nil: somebody else does
}

// A Notification is what became of one attempt to notify a hub.
type Notification struct {
	Set         string
	Hub         string // its URL
	Entries     int    // changes in it
	Bytes       int
	From, Until time.Time     // its interval
	Seq         catalog.Seq   // the last of its changes
	Gap         bool          // From is later than the Until before: changes in between could not be told
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

// notificationType is what notifications are (RN-PB-01).
const notificationType = "application/xml"
