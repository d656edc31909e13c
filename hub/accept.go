package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/limit"
	"lockstep/hub/internal/publisher"
	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/request"
	"lockstep/hub/internal/timing"
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
	askRate = limit.Rate{Burst: 10_000, Per: 40}
	// pingRate limits how often one client may ping topics.
	pingRate = limit.Rate{Burst: 2000, Per: 500}
)

// An accepting handles all incoming HTTP requests of the hub.
type accepting struct {
	publishers *publisher.Rules
	signatures *publisher.Signatures
	bodies     *limit.Budget // of publications and pings
	strange    *limit.Budget // of all other requests
	asks       *limit.Buckets[netip.Prefix]
	pings      *limit.Buckets[netip.Prefix]
	counts     acceptCounts
}

// acceptCounts counts the requests since the hub was started, and their
// results.
type acceptCounts struct {
	pings                         atomic.Int64 // topics in requests answered with 202
	limited                       atomic.Int64 // requests answered with 429
	fetched, unchanged, unfetched atomic.Int64 // topics: changed, unchanged, failed
}

func newAccepting(o Options, started time.Time, shared publisher.Recorder) (*accepting, error) {
	rules, err := publishRules(&o)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return &accepting{
		publishers: rules,
		signatures: publisher.NewSignatures(rules.Tokens, started, func() time.Time { return timing.Micros(o.Clock()) }, shared, o.Logger),
		bodies:     limit.NewBudget(max(maxBodies, 2*o.MaxBody)),
		strange:    limit.NewBudget(max(maxStrange, 2*o.MaxBody)),
		asks:       limit.NewBuckets[netip.Prefix](askRate, o.Clock),
		pings:      limit.NewBuckets[netip.Prefix](pingRate, o.Clock),
	}, nil
}

// ServeHTTP is the hub's endpoint. A POST of a form subscribes, unsubscribes
// (WS-H-01, WS-H-11) or pings a topic (RN-PB-03); a POST of any other media
// type with a Link to itself publishes its body (RN-PB-04). GET describes the
// hub.
//
// A request answered with 202 is durable. No answer waits for a subscriber or
// for a topic (WS-H-03).
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.answer(w, r, refusal.New(http.StatusMethodNotAllowed, "a hub takes POST, and describes itself on GET"))
		return
	}
	select {
	case <-h.ready:
	default:
		h.answer(w, r, ErrNotReady)
		return
	}
	if r.Method != http.MethodPost {
		h.serveAbout(w, r)
		return
	}
	accept, within := h.acceptPublishing, bodyTime
	if request.IsForm(r.Header.Get("Content-Type")) {
		accept, within = h.acceptForm, formTime
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // without a connection there is no deadline to set
	h.answer(w, r, accept(r))
}

// acceptForm executes a form. It reads the parameters from the body alone.
func (h *Hub) acceptForm(r *http.Request) error {
	body, done, err := h.in.strange.Read(r.Body, r.ContentLength, min(request.MaxForm, h.opts.MaxBody))
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
		s, err := request.ParseSubscription(mode, form, h.opts.terms())
		if err != nil {
			return err
		}
		return h.acceptSubscribing(r, s)
	case websub.ModePublish:
		return h.acceptPing(r, form)
	case "":
		return refusal.New(http.StatusBadRequest, "hub.mode is missing: subscribe, unsubscribe or publish")
	}
	return refusal.New(http.StatusBadRequest, "hub.mode is not one of subscribe, unsubscribe, publish")
}

// acceptSubscribing stores a request durably. The hub verifies it after the
// answer.
func (h *Hub) acceptSubscribing(r *http.Request, s *request.Subscription) error {
	if !h.knowsTopic(s.Topic) {
		if _, err := address.Check(s.Topic, h.opts.AllowPrivate); err != nil {
			return request.RefuseURL("hub.topic", err)
		}
	}
	if wait := h.in.asks.Take(limit.ClientOf(r, h.opts.TrustedProxies), 1); wait > 0 {
		return refusal.TooMany(wait, "too many requests from your address")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	key := hubstore.KeyOf(s.Topic, s.Callback)
	req := hubstore.Request{
		Key: key, Mode: s.Mode, Topic: s.Topic, Callback: s.Callback, Secret: h.seal(key, s.Secret),
		Lease: s.Lease, VerifyToken: s.Token, At: h.now(),
	}
	return h.intents.accept(ctx, req, s.Target)
}

// acceptPing durably records that topics have changed; the hub fetches them
// after the answer.
func (h *Hub) acceptPing(r *http.Request, form map[string][]string) error {
	urls, topics, malformed := request.ParsePing(form, h.opts.AllowPrivate)
	for _, u := range urls {
		if err := h.in.publishers.Foreign(u); err != nil {
			return err
		}
	}
	switch signed, err := h.in.publishers.Admit(r, urls...); {
	case err != nil:
		return err
	case signed:
		return refusal.New(http.StatusUnauthorized, "a ping takes a token: Authorization: Bearer …")
	case malformed != nil:
		return malformed
	}
	for _, u := range urls {
		if err := h.in.publishers.Covers(u); err != nil {
			return err
		}
	}
	if wait := h.in.pings.Take(limit.ClientOf(r, h.opts.TrustedProxies), float64(len(topics))); wait > 0 {
		return refusal.TooMany(wait, "too many pings from your address")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	if err := h.pingFetcher.ping(ctx, topics, urls); err != nil {
		return err
	}
	h.in.counts.pings.Add(int64(len(topics)))
	return nil
}

// acceptPublishing stores a message durably (RN-PB-05).
func (h *Hub) acceptPublishing(r *http.Request) error {
	p, err := request.ParsePublication(r.Header)
	if err != nil {
		return err
	}
	if err := h.in.publishers.Foreign(p.URL); err != nil {
		return err
	}
	signed, err := h.in.publishers.Admit(r, p.URL)
	if err != nil {
		return err
	}
	if err := h.in.publishers.Covers(p.URL); err != nil {
		return err
	}
	if signed {
		if err := h.in.signatures.CheckDate(r.Header); err != nil {
			return err
		}
	}
	budget := h.in.bodies
	if signed {
		budget = h.in.strange
	}
	body, done, err := budget.Read(r.Body, r.ContentLength, h.opts.MaxBody)
	if err != nil {
		return err
	}
	defer done()
	if len(body) == 0 {
		return refusal.New(http.StatusBadRequest, "there is nothing in the body to publish")
	}
	undo := func() {}
	if signed {
		if undo, err = h.in.signatures.Verify(r, p, body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timing.SaveTime)
	defer cancel()
	if _, err = h.append(ctx, hubstore.Message{Topic: p.Topic, ContentType: p.ContentType, Links: p.Links, Body: body}); err != nil {
		undo() // the publisher may send the same request again
	}
	return err
}

// answer sends 202, or a status and text that explain the refusal (WS-H-04,
// RN-PB-05).
func (h *Hub) answer(w http.ResponseWriter, r *http.Request, err error) {
	status, text, after := http.StatusAccepted, "accepted", time.Duration(0)
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		status, text, after = refused.Status, refused.Text, refused.After
	case err != nil:
		status, text, after = http.StatusServiceUnavailable, "the hub can not take this now: try again later", 5*time.Second
		switch {
		case errors.Is(err, ErrNotReady):
			text, after = "the hub is starting or stopping: try again later", time.Second
		case errors.Is(err, ErrFull):
			text, after = ErrFull.Error()+": try again later", time.Minute
		default:
			h.opts.Logger.ErrorContext(r.Context(), "request not accepted", slog.String("err", err.Error()))
		}
	}
	if status >= 400 {
		h.tally.refuse()
	}
	if status == http.StatusTooManyRequests {
		h.in.counts.limited.Add(1)
	}
	head := w.Header()
	if status == http.StatusUnauthorized {
		head.Set("WWW-Authenticate", `Bearer realm="hub"`)
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

func (h *Hub) serveAbout(w http.ResponseWriter, r *http.Request) {
	a := about{
		Hub:   h.opts.PublicURL,
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
func (h *Hub) knowsTopic(topic string) bool {
	if _, ok := h.topic(topic); ok {
		return true
	}
	return address.SameOrigin(topic, h.opts.PublicURL)
}
