package websub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// formType is the Content-Type of requests to a hub that are forms (WS-S-01).
const formType = "application/x-www-form-urlencoded"

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
	Hub    string // its URL; required
	Client Doer   // default: an http.Client with a timeout
	Token  string // bearer token that entitles to publish; default: none

	// TokenScope is the URL of the place the Token belongs to: it is sent there and
	// below, wherever redirects lead. Default: Hub, without its query.
	TokenScope string

	Manner    Manner
	UserAgent string // default "lockstep"
}

// A Publisher tells one hub of news. It is safe for concurrent use; who wants
// order waits for one Publish before the next.
type Publisher struct {
	opts   PublisherOptions
	client Doer
	scope  *url.URL    // of the token
	thin   atomic.Bool // the hub was seen to know only thin publishing
}

// NewPublisher returns a Publisher, or an error in words if an option cannot be
// used.
func NewPublisher(o PublisherOptions) (*Publisher, error) {
	if _, err := parseHTTP(o.Hub); err != nil {
		return nil, fmt.Errorf("hub %s: %w", plain(o.Hub), err)
	}
	switch o.Manner {
	case Auto, Fat, Thin:
	default:
		return nil, fmt.Errorf("manner %q: not fat, thin or empty", o.Manner)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return nil, errors.New("the token holds a line break")
	}
	if o.UserAgent == "" {
		o.UserAgent = defaultUserAgent
	}
	if o.TokenScope == "" {
		o.TokenScope = o.Hub
	}
	if !Below(o.TokenScope, o.Hub) {
		return nil, fmt.Errorf("hub %s: the token belongs to %s", plain(o.Hub), plain(o.TokenScope))
	}
	p := &Publisher{opts: o, client: doer(o.Client)}
	p.scope, _ = parseHTTP(o.TokenScope) // Below has read it
	p.thin.Store(o.Manner == Thin)
	return p, nil
}

// Publish tells the hub that topic has news. header is sent with a fat
// publishing: its Content-Type is that of body, its Link fields are kept, and
// completed by those of rel self and hub where they are missing. The error is
// nil when the hub answered any 2xx (RN-AMB-14), a [*RefusedError] when it
// answered anything else.
func (p *Publisher) Publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	err := p.publish(ctx, topic, header, body)
	if err != nil {
		return fmt.Errorf("publish %s: %w", plain(topic), err)
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, topic string, header http.Header, body []byte) error {
	if _, err := parseHTTP(topic); err != nil {
		return err
	}
	if p.thin.Load() {
		return p.ping(ctx, topic)
	}
	err := p.post(ctx, topic, header, body)
	var refused *RefusedError
	if p.opts.Manner != Auto || !errors.As(err, &refused) || !wantsForm(refused.Status) {
		return err
	}
	if p.ping(ctx, topic) != nil {
		return err // neither way: what it said first tells more
	}
	p.thin.Store(true)
	return nil
}

// wantsForm reports whether a hub that knows only thin publishing may answer a
// fat one with that status.
func wantsForm(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

// post publishes the fat way: payload and links to the hub (RN-PB-01).
func (p *Publisher) post(ctx context.Context, topic string, header http.Header, body []byte) error {
	h := header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/octet-stream") // else it might be guessed
	}
	links := ParseLinks(h.Values("Link"), nil)
	self, hubs := topic, []string{p.opts.Hub}
	if slices.ContainsFunc(links, func(l Link) bool { return l.Has("self") }) {
		self = ""
	}
	if slices.ContainsFunc(links, func(l Link) bool { return l.Has("hub") }) {
		hubs = nil
	}
	if missing := LinkHeader(self, hubs); missing != "" {
		h.Add("Link", missing)
	}
	if body == nil {
		body = []byte{}
	}
	return p.send(ctx, h, body)
}

// ping publishes the thin way. Some hubs read hub.url, others hub.topic
// (WS-P-02).
func (p *Publisher) ping(ctx context.Context, topic string) error {
	form := url.Values{"hub.mode": {ModePublish}, "hub.url": {topic}, "hub.topic": {topic}}
	return p.send(ctx, http.Header{"Content-Type": {formType}}, []byte(form.Encode()))
}

func (p *Publisher) send(ctx context.Context, header http.Header, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	header.Set("User-Agent", p.opts.UserAgent)
	if p.opts.Token != "" {
		header.Set("Authorization", "Bearer "+p.opts.Token)
	}
	x := &exchange{client: p.client, method: http.MethodPost, address: p.opts.Hub, header: header, body: body, redirects: maxPostRedirects, secret: p.scope}
	a, err := x.do(ctx)
	if err != nil {
		return fmt.Errorf("hub %s: %w", plain(p.opts.Hub), err)
	}
	if a.StatusCode/100 != 2 {
		return refusal(p.opts.Hub, a, time.Now())
	}
	drain(a.Response)
	return nil
}

// Thin reports whether the hub is told of news the thin way, so that the topic
// itself has to show what is new (RN-PB-09).
func (p *Publisher) Thin() bool { return p.thin.Load() }

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
