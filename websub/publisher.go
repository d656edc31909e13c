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

// formType is the Content-Type of form requests to a hub (WS-S-01).
const formType = "application/x-www-form-urlencoded"

// A Manner is a method of publishing to a hub.
type Manner string

// The methods of publishing.
const (
	Auto Manner = ""     // Fat, until the hub turns out to support only Thin
	Fat  Manner = "fat"  // the new content is posted to the hub (RN-PB-01)
	Thin Manner = "thin" // a ping announces the change, and the hub fetches the topic (WS-P-02)
)

// PublisherOptions configures a [Publisher].
type PublisherOptions struct {
	Hub    string // the hub's URL; required
	Client Doer   // default: an http.Client with a timeout
	Token  string // bearer token that authorizes publishing; default: none

	// TokenScope is the URL that the Token belongs to: it is sent only to this URL
	// and below, wherever redirects lead. Default: Hub, without its query.
	TokenScope string

	Manner    Manner
	UserAgent string // default "lockstep"
}

// A Publisher publishes changes to one hub. It is safe for concurrent use; a
// caller that needs ordering waits for one Publish before the next.
type Publisher struct {
	opts     PublisherOptions
	client   Doer
	scope    *url.URL    // of the token
	pingOnly atomic.Bool // the hub turned out to support only pings
}

// NewPublisher returns a Publisher, or an error that explains which option is
// invalid.
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
	p.scope, _ = parseHTTP(o.TokenScope) // Below has parsed it
	p.pingOnly.Store(o.Manner == Thin)
	return p, nil
}

// Publish announces a change of topic to the hub. header is sent with a fat
// publication: its Content-Type is that of body; its Link fields are kept, and
// missing links with rel self and hub are added. Publish returns nil if the hub
// answered with any 2xx status (RN-AMB-14), and a [*RefusedError] if it
// answered with any other status.
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
	if p.pingOnly.Load() {
		return p.ping(ctx, topic)
	}
	err := p.post(ctx, topic, header, body)
	var refused *RefusedError
	if p.opts.Manner != Auto || !errors.As(err, &refused) || !wantsForm(refused.Status) {
		return err
	}
	if p.ping(ctx, topic) != nil {
		return err // neither method works: the first error is more helpful
	}
	p.pingOnly.Store(true)
	return nil
}

// wantsForm reports whether a hub that supports only pings may answer a fat
// publication with that status.
func wantsForm(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

// post sends a fat publication: payload and links (RN-PB-01).
func (p *Publisher) post(ctx context.Context, topic string, header http.Header, body []byte) error {
	h := header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/octet-stream") // otherwise it would be guessed
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

// ping sends a thin publication. Some hubs read hub.url, others hub.topic
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

// Thin reports whether changes are announced by pings, so that the topic itself
// must contain the new content (RN-PB-09).
func (p *Publisher) Thin() bool { return p.pingOnly.Load() }

// A RefusedError reports that a hub answered a request with a status other than
// 2xx.
type RefusedError struct {
	Hub        string
	Status     int
	Text       string        // the beginning of the answer, on one line, printable
	RetryAfter time.Duration // the wait that the hub requested; 0: none
}

func (e *RefusedError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("hub %s: status %d", e.Hub, e.Status)
	}
	return fmt.Sprintf("hub %s: status %d: %s", e.Hub, e.Status, e.Text)
}

// Permanent reports whether the hub refuses the message itself, as with 400, 413,
// 415 or 422 (RN-PB-06): neither time nor an operator changes that.
func (e *RefusedError) Permanent() bool {
	return e.final() && !e.Correctable()
}

// Correctable reports whether the refusal concerns where and by whom the request was
// sent, as with redirects, 401, 403 and 404: once an operator has corrected the
// address, the token, or the hub, the same message is accepted.
func (e *RefusedError) Correctable() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusGone, http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return true
	}
	return e.Status < 400
}

// final reports whether the same request would be refused again (WS-S-10).
func (e *RefusedError) final() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status < 500
}
