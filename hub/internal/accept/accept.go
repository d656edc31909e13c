// Package accept is the HTTP endpoint of a hub: it accepts subscriptions, pings
// and publications. A request that it has answered with 202 is durable.
package accept

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/limit"
	"lockstep/hub/internal/publisher"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/request"
	"lockstep/hub/internal/tally"
	"lockstep/hub/internal/timing"
	"lockstep/internal/ratelimit"
	"lockstep/websub"
)

const (
	// maxBodies caps the memory used by all request bodies of publications and
	// pings at a time; maxStrange caps it for requests from unknown clients.
	maxBodies  = 128 << 20
	maxStrange = 64 << 20
	// bodyTime is how long a client may take to send a publication, and formTime to
	// send a form.
	bodyTime = 2 * time.Minute
	formTime = 20 * time.Second
)

var (
	// askRate limits how often one client may subscribe and unsubscribe. The burst
	// is ten thousand, as one aggregator has; after it, requests do not arrive
	// faster than the hub can verify them, even if no callback ever answers.
	askRate = ratelimit.Rate{Burst: 10_000, Per: 40}
	// pingRate limits how often one client may ping topics.
	pingRate = ratelimit.Rate{Burst: 2000, Per: 500}
)

// Options are what an [Endpoint] needs.
type Options struct {
	Publishers *publisher.Rules
	Signatures *publisher.Signatures
	Append     func(ctx context.Context, m hubstore.Message) (seq int64, err error)   // makes a message durable
	Request    func(ctx context.Context, r hubstore.Request, callback *url.URL) error // makes a request to subscribe or unsubscribe durable
	Ping       func(ctx context.Context, topics []string, urls []*url.URL) error      // durably records that topics have changed
	Known      func(topic string) bool                                                // reports whether messages of a topic were published here
	Seal       func(key hubstore.Key, secret []byte) []byte                           // encrypts the secret of a subscription
	May        func(r *http.Request, topic string) (most time.Duration, err error)    // decides whether a request may subscribe, and for how long; nil: any may
	Ready      <-chan struct{}                                                        // closed when requests are accepted
	Bodies     *limit.Budget                                                          // for publications and pings
	Tally      *tally.Tally
	Clock      func() time.Time
	Logger     *slog.Logger

	PublicURL      string
	Terms          request.Terms
	TrustedProxies []netip.Prefix
	MaxBody        int64
}

// An Endpoint handles all incoming HTTP requests of a hub.
type Endpoint struct {
	o       Options
	strange *limit.Budget // for bodies of unknown clients
	asks    *ratelimit.Buckets[netip.Prefix]
	pings   *ratelimit.Buckets[netip.Prefix]
}

// New returns an Endpoint.
func New(o Options) *Endpoint {
	return &Endpoint{
		o:       o,
		strange: limit.NewBudget(max(maxStrange, 2*o.MaxBody)),
		asks:    ratelimit.NewBuckets[netip.Prefix](askRate, o.Clock),
		pings:   ratelimit.NewBuckets[netip.Prefix](pingRate, o.Clock),
	}
}

// Bodies returns the budget for the bodies of publications and pings of at most
// so many bytes each.
func Bodies(maxBody int64) *limit.Budget { return limit.NewBudget(max(maxBodies, 2*maxBody)) }

// AskRate sets how often one client may subscribe, for tests.
func (e *Endpoint) AskRate(r ratelimit.Rate) { e.asks.Rate = r }

// ServeHTTP is the hub's endpoint. A POST of a form subscribes, unsubscribes
// (WS-H-01, WS-H-11) or pings a topic (RN-PB-03); a POST of any other media
// type with a Link to itself publishes its body (RN-PB-04). GET describes the
// hub.
//
// A request answered with 202 is durable. No answer waits for a subscriber or
// for a topic (WS-H-03).
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		e.answer(w, r, refusal.New(http.StatusMethodNotAllowed, "a hub takes POST, and describes itself on GET"))
		return
	}
	select {
	case <-e.o.Ready:
	default:
		e.answer(w, r, refusal.ErrNotReady)
		return
	}
	if r.Method != http.MethodPost {
		e.serveAbout(w, r)
		return
	}
	accept, within := e.acceptPublishing, bodyTime
	if request.IsForm(r.Header.Get("Content-Type")) {
		accept, within = e.acceptForm, formTime
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // without a connection there is no deadline to set
	e.answer(w, r, accept(r))
}

// acceptForm executes a form. It reads the parameters from the body alone.
func (e *Endpoint) acceptForm(r *http.Request) error {
	body, done, err := e.strange.Read(r.Body, r.ContentLength, min(request.MaxForm, e.o.MaxBody))
	if err != nil {
		return err
	}
	defer done()
	form, err := request.ParseForm(body)
	if err != nil {
		return err
	}
	mode, err := request.One(form, "hub.mode")
	if err != nil {
		return err
	}
	switch mode {
	case websub.ModeSubscribe, websub.ModeUnsubscribe:
		s, err := request.ParseSubscription(mode, form, e.o.Terms)
		if err != nil {
			return err
		}
		return e.acceptSubscribing(r, s)
	case websub.ModePublish:
		return e.acceptPing(r, form)
	case "":
		return refusal.New(http.StatusBadRequest, "hub.mode is missing: subscribe, unsubscribe or publish")
	}
	return refusal.New(http.StatusBadRequest, "hub.mode is not one of subscribe, unsubscribe, publish")
}

// acceptSubscribing stores a request durably. The hub verifies it after the
// answer.
func (e *Endpoint) acceptSubscribing(r *http.Request, s *request.Subscription) error {
	if e.o.May != nil && s.Mode == websub.ModeSubscribe {
		most, err := e.o.May(r, s.Topic)
		if err != nil {
			return err
		}
		if most > 0 {
			s.Lease = min(s.Lease, most)
		}
	}
	if !e.knowsTopic(s.Topic) {
		if _, err := address.Check(s.Topic, e.o.Terms.AllowPrivate); err != nil {
			return request.RefuseURL("hub.topic", err)
		}
	}
	if wait := e.asks.Take(ratelimit.ClientOf(r, e.o.TrustedProxies), 1); wait > 0 {
		return refusal.TooMany(wait, "too many requests from your address")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	key := hubstore.KeyOf(s.Topic, s.Callback)
	req := hubstore.Request{
		Key: key, Mode: s.Mode, Topic: s.Topic, Callback: s.Callback, Secret: e.o.Seal(key, s.Secret),
		Lease: s.Lease, VerifyToken: s.Token, At: timing.Micros(e.o.Clock()),
	}
	return e.o.Request(ctx, req, s.Target)
}

// acceptPing durably records that topics have changed; the hub fetches them
// after the answer.
func (e *Endpoint) acceptPing(r *http.Request, form map[string][]string) error {
	urls, topics, malformed := request.ParsePing(form, e.o.Terms.AllowPrivate)
	for _, u := range urls {
		if err := e.o.Publishers.Foreign(u); err != nil {
			return err
		}
	}
	switch signed, err := e.o.Publishers.Admit(r, urls...); {
	case err != nil:
		return err
	case signed:
		return refusal.New(http.StatusUnauthorized, "a ping takes a token: Authorization: Bearer …")
	case malformed != nil:
		return malformed
	}
	for _, u := range urls {
		if err := e.o.Publishers.Covers(u); err != nil {
			return err
		}
	}
	if wait := e.pings.Take(ratelimit.ClientOf(r, e.o.TrustedProxies), float64(len(topics))); wait > 0 {
		return refusal.TooMany(wait, "too many pings from your address")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	if err := e.o.Ping(ctx, topics, urls); err != nil {
		return err
	}
	e.o.Tally.Ping(len(topics))
	return nil
}

// acceptPublishing stores a message durably (RN-PB-05).
func (e *Endpoint) acceptPublishing(r *http.Request) error {
	p, err := request.ParsePublication(r.Header)
	if err != nil {
		return err
	}
	if err := e.o.Publishers.Foreign(p.URL); err != nil {
		return err
	}
	signed, err := e.o.Publishers.Admit(r, p.URL)
	if err != nil {
		return err
	}
	if err := e.o.Publishers.Covers(p.URL); err != nil {
		return err
	}
	if signed {
		if err := e.o.Signatures.CheckDate(r.Header); err != nil {
			return err
		}
	}
	budget := e.o.Bodies
	if signed {
		budget = e.strange
	}
	body, done, err := budget.Read(r.Body, r.ContentLength, e.o.MaxBody)
	if err != nil {
		return err
	}
	defer done()
	if len(body) == 0 {
		return refusal.New(http.StatusBadRequest, "there is nothing in the body to publish")
	}
	undo := func() {}
	if signed {
		if undo, err = e.o.Signatures.Verify(r, p, body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	if _, err = e.o.Append(ctx, hubstore.Message{Topic: p.Topic, ContentType: p.ContentType, Links: p.Links, Body: body}); err != nil {
		undo() // the publisher may send the same request again
	}
	return err
}

// answer sends 202, or a status and text that explain the refusal (WS-H-04,
// RN-PB-05).
func (e *Endpoint) answer(w http.ResponseWriter, r *http.Request, err error) {
	status, text, after := http.StatusAccepted, "accepted", time.Duration(0)
	challenges := []string{`Bearer realm="hub"`}
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		status, text, after = refused.Status, refused.Text, refused.After
		if refused.Challenges != nil {
			challenges = refused.Challenges
		}
	case err != nil:
		status, text, after = http.StatusServiceUnavailable, "the hub cannot accept this now: try again later", 5*time.Second
		switch {
		case errors.Is(err, refusal.ErrNotReady):
			text, after = "the hub is starting or stopping: try again later", time.Second
		case errors.Is(err, refusal.ErrFull):
			text, after = refusal.ErrFull.Error()+": try again later", time.Minute
		default:
			e.o.Logger.ErrorContext(r.Context(), "request not accepted", slog.String("err", err.Error()))
		}
	}
	if status >= 400 {
		e.o.Tally.Refuse()
	}
	if status == http.StatusTooManyRequests {
		e.o.Tally.Limit()
	}
	head := w.Header()
	if status == http.StatusUnauthorized {
		head["Www-Authenticate"] = challenges
	}
	if after > 0 {
		head.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	c := http.NewResponseController(w)
	if status == http.StatusRequestEntityTooLarge {
		_ = c.EnableFullDuplex() // if the protocol supports it
		head.Set("Connection", "close")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may have disconnected
	if status == http.StatusRequestEntityTooLarge && r.Header.Get("Expect") == "" {
		_ = c.Flush()
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, r.Body, lingerBytes) // only the reading counts
	}
}

// A body that is too large is read and discarded up to lingerBytes, for
// lingerTime: many clients read no answer before they have sent the whole body,
// and never see it if the server closes the connection before.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// An about is the hub's description of itself.
type about struct {
	Hub   string   `json:"hub"`
	What  string   `json:"what"`
	Modes []string `json:"modes"`
}

func (e *Endpoint) serveAbout(w http.ResponseWriter, r *http.Request) {
	a := about{
		Hub:   e.o.PublicURL,
		What:  "WebSub hub: https://www.w3.org/TR/websub/",
		Modes: []string{websub.ModeSubscribe, websub.ModeUnsubscribe, websub.ModePublish},
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	b, _ := json.MarshalIndent(a, "", "  ") // strings only: cannot fail
	b = append(b, '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(b)
	}
}

// knowsTopic reports whether messages of the topic were published here, or the
// topic has the hub's own scheme, host and port. In both cases the answer reveals
// nothing to a stranger.
func (e *Endpoint) knowsTopic(topic string) bool {
	return e.o.Known(topic) || address.SameOrigin(topic, e.o.PublicURL)
}
