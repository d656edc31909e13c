package websub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Manner is how a hub is told of news.
type Manner string

// The manners of publishing.
const (
	Auto Manner = ""     // Fat, until the hub shows that it knows only Thin
	Fat  Manner = "fat"  // what is new is posted to the hub (RN-PB-01)
	Thin Manner = "thin" // the hub is told that there is something new, and fetches the topic (WS-P-02)
)

// PublisherOptions configures a [Publisher].
type PublisherOptions struct {
	Hub       string // its URL; required
	Client    Doer   // default: an http.Client with a timeout
	Token     string // bearer token that entitles to publish; default: none
	Manner    Manner
	UserAgent string // default "lockstep"
}

// A Publisher tells one hub of news. It is safe for concurrent use; who wants
// order waits for one Publish before the next.
type Publisher struct {
	opts PublisherOptions
}

// NewPublisher returns a Publisher, or an error in words if an option cannot be
// used.
func NewPublisher(o PublisherOptions) (*Publisher, error) {
	return &Publisher{opts: o}, nil
}

// Publish tells the hub that topic has news. header is sent with a fat
// publishing: its Content-Type is that of body, its Link fields are kept, and
// completed by those of rel self and hub where they are missing. The error is
// nil when the hub answered any 2xx; a [*RefusedError] when it answered
// anything else.
func (p *Publisher) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	return errors.New("not yet")
}

// Thin reports whether the hub is told of news the thin way, so that the topic
// itself has to show what is new (RN-PB-09).
func (p *Publisher) Thin() bool { return p.opts.Manner == Thin }

// A RefusedError reports that a hub answered a request with anything but 2xx.
type RefusedError struct {
	Hub        string
	Status     int
	Text       string        // the beginning of what it said, on one line, printable
	RetryAfter time.Duration // how long it asked to wait; 0: it did not say
}

func (e *RefusedError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("hub %s: status %d", e.Hub, e.Status)
	}
	return fmt.Sprintf("hub %s: status %d: %s", e.Hub, e.Status, e.Text)
}

// Permanent reports whether asking again the same way is in vain (RN-PB-06,
// WS-S-10).
func (e *RefusedError) Permanent() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status < 500
}
