package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
	"lockstep/internal/hangup"
)

// Limits of the API; each comment says what the limit prevents.
const (
	apiLimit   = 100     // default number of items in one answer
	apiMost    = 1000    // the maximum a client can request: bounds memory, and how long locks are held
	apiBody    = 8 << 10 // bytes of a request body
	apiReplays = 256     // subscriptions replayed at a time: each waits for the store, together
	reasonSize = 200     // bytes of a reason for ending a subscription: it becomes part of a URL
)

// A State is what a hub shows. A hub that shares its store shows its own part.
type State interface {
	// Stats returns the figures of the hub.
	Stats() Stats
	// Topics returns at most limit topics whose URL is above after, in order; if
	// there are more, it also returns the last URL it examined.
	Topics(after string, limit int) (all []Topic, next string)
	// Subscriptions returns at most limit subscriptions whose Key is above after, in
	// order, and reports whether there are more.
	Subscriptions(ctx context.Context, c Selection, after hubstore.Key, limit int) (all []Subscription, more bool)
	// Worst returns the subscriptions that lack the most messages, at most limit.
	Worst(ctx context.Context, limit int) []Subscription
	// Subscription returns a subscription.
	Subscription(ctx context.Context, key hubstore.Key) (Subscription, error)
	// Messages returns at most limit stored messages of a topic, numbered above
	// after. known is false if there is no such topic.
	Messages(ctx context.Context, topic string, after int64, limit int) (all []Message, known bool, err error)
}

// A Selection restricts a list of subscriptions.
type Selection struct {
	Topic  string // "": any
	Behind bool   // only those that lack messages, or fail
}

// A Control manages subscriptions. Its methods return the errors of package hub,
// such as hub.ErrNoSubscription, which the API maps to HTTP statuses.
type Control interface {
	// Remove ends a subscription and notifies the subscriber (WS-V-02).
	Remove(ctx context.Context, key hubstore.Key, reason string) error
	// Replay delivers the stored messages from the number from on again, and returns
	// the number it begins with.
	Replay(ctx context.Context, key hubstore.Key, from int64) (int64, error)
	// Members returns the subscriptions of a topic.
	Members(topic string) []hubstore.Key
}

// A Server shows the state of a hub over HTTP.
type Server struct {
	URL     string // of the hub
	Started time.Time
	Ready   <-chan struct{} // closed when the hub has loaded
	State   State
	Control Control
	Failed  func() []FailedVerification // the newest first
	Logger  *slog.Logger
}

// API returns the handler through which programs read the hub's state and manage subscriptions. Its
// paths start at the root, and all answers are JSON:
//
//	GET    /                            Stats
//	GET    /topics                      ?after=URL&limit=N
//	GET    /subscriptions               ?topic=URL&behind=true&after=KEY&limit=N
//	GET    /subscriptions/{key}
//	DELETE /subscriptions/{key}         ?reason=TEXT: ends it and notifies the subscriber
//	POST   /subscriptions/{key}/replay  {"from": N}: delivers the messages from this number on again
//	GET    /verifications               the newest requests that callbacks did not confirm, with reasons
//	GET    /messages                    ?topic=URL&after=N&limit=N: the stored messages
//	POST   /replay                      {"topic": URL, "from": N}: replays to all subscriptions of a topic
//
// The handler does not authenticate clients. The program that serves it must do so, and must keep
// web pages of other origins from using it through a browser. Its answers are meant for the hub's
// operator; callbacks are never shown (WS-SEC-07).
func (s *Server) API() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /{$}":                         s.serveStats,
		"GET /topics":                      s.serveTopics,
		"GET /subscriptions":               s.serveSubscriptions,
		"GET /subscriptions/{key}":         s.serveSubscription,
		"DELETE /subscriptions/{key}":      s.serveRemove,
		"POST /subscriptions/{key}/replay": s.serveReplay,
		"GET /verifications":               s.serveVerifications,
		"GET /messages":                    s.serveMessages,
		"POST /replay":                     s.serveReplayTopic,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.reply(w, r, handle) })
	}
	return mux
}

// An apiError refuses a request to the API.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

func problem(status int, format string, args ...any) error {
	return &apiError{status, fmt.Sprintf(format, args...)}
}

// reply executes a request and writes the result as JSON.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, handle func(*http.Request) (any, error)) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, apiBody)
	select {
	case <-s.Ready:
	default:
		handle = func(*http.Request) (any, error) { return nil, refusal.ErrNotReady }
	}
	v, err := handle(r)
	if err == nil && v == nil {
		header.Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status := http.StatusOK
	if _, refused := errors.AsType[*apiError](err); !refused && hangup.Is(r.Context(), err) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	if err != nil {
		status = s.statusOf(r.Context(), err)
		header.Set("Content-Type", "application/problem+json")
		if status == http.StatusServiceUnavailable {
			header.Set("Retry-After", "1")
		}
		v = map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()}
	}
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may have disconnected
}

// statusOf maps the errors of the API to HTTP statuses.
func (s *Server) statusOf(ctx context.Context, err error) int {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.status
	}
	switch {
	case errors.Is(err, refusal.ErrElsewhere):
		return http.StatusMisdirectedRequest
	case errors.Is(err, refusal.ErrNoSubscription):
		return http.StatusNotFound
	case errors.Is(err, refusal.ErrNotReady):
		return http.StatusServiceUnavailable
	}
	s.Logger.WarnContext(ctx, "answer a request to the hub's API", slog.Any("err", err))
	return http.StatusInternalServerError
}

// serveStats answers with Stats.
func (s *Server) serveStats(*http.Request) (any, error) {
	stats := s.State.Stats()
	v := struct {
		URL string `json:"url"`
		Stats
		Latency any `json:"delivery_seconds,omitempty"`
	}{URL: s.URL, Stats: stats}
	if stats.Latency.Count > 0 {
		v.Latency = map[string]float64{"mean": stats.Latency.Sum.Seconds() / float64(stats.Latency.Count), "p50": stats.Latency.Quantile(0.5), "p99": stats.Latency.Quantile(0.99)}
	}
	return v, nil
}

// limitOf returns how many items the client requested.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return apiLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, problem(http.StatusBadRequest, "limit %.40q: want a number from 1 to %d", text, apiMost)
	}
	return min(n, apiMost), nil
}

func (s *Server) serveTopics(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	all, next := s.State.Topics(r.URL.Query().Get("after"), limit)
	v := map[string]any{"topics": notNil(all)}
	if next != "" {
		v["after"] = next
	}
	return v, nil
}

func (s *Server) serveSubscriptions(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	c := Selection{Topic: q.Get("topic")}
	if text := q.Get("behind"); text != "" {
		if c.Behind, err = strconv.ParseBool(text); err != nil {
			return nil, problem(http.StatusBadRequest, "behind %.40q: want true or false", text)
		}
	}
	all, more := s.State.Subscriptions(r.Context(), c, hubstore.Key(q.Get("after")), limit)
	v := map[string]any{"subscriptions": notNil(all)}
	if more {
		v["after"] = all[len(all)-1].Key
	}
	return v, nil
}

// notNil makes an empty list appear as [] in JSON instead of null.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (s *Server) serveSubscription(r *http.Request) (any, error) {
	return s.State.Subscription(r.Context(), hubstore.Key(r.PathValue("key")))
}

// serveRemove ends a subscription and notifies the subscriber (WS-V-02).
func (s *Server) serveRemove(r *http.Request) (any, error) {
	reason := r.URL.Query().Get("reason")
	if len(reason) > reasonSize || !utf8.ValidString(reason) {
		return nil, problem(http.StatusBadRequest, "reason: want at most %d bytes of text", reasonSize)
	}
	if reason == "" {
		reason = "removed by the operator of the hub"
	}
	key := hubstore.Key(r.PathValue("key"))
	if err := s.Control.Remove(r.Context(), key, reason); err != nil {
		return nil, err
	}
	s.Logger.InfoContext(r.Context(), "subscription removed", slog.String("key", string(key)))
	return nil, nil
}

// A replay is the body of a POST that requests one.
type replay struct {
	Topic string `json:"topic"`
	From  *int64 `json:"from"`
}

// replayOf parses it.
func replayOf(r *http.Request, topic bool) (p replay, err error) {
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return p, problem(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err = dec.Decode(&p)
	if _, more := dec.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("there is more than one object")
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return p, problem(http.StatusRequestEntityTooLarge, "larger than %d bytes", tooLarge.Limit)
	}
	switch {
	case err != nil:
		return p, problem(http.StatusBadRequest, "read the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	case p.From == nil || *p.From < 1:
		return p, problem(http.StatusBadRequest, "want the number of the message to begin with, 1 or more, as {\"from\": 1}")
	case topic && p.Topic == "":
		return p, problem(http.StatusBadRequest, "want a topic, as {\"topic\": \"https://data.example.org/feed\", \"from\": 1}")
	case !topic && p.Topic != "":
		return p, problem(http.StatusBadRequest, "the subscription has its topic already")
	}
	return p, nil
}

func (s *Server) serveReplay(r *http.Request) (any, error) {
	p, err := replayOf(r, false)
	if err != nil {
		return nil, err
	}
	from, err := s.Control.Replay(r.Context(), hubstore.Key(r.PathValue("key")), *p.From)
	if err != nil {
		return nil, err
	}
	return map[string]int64{"from": from}, nil
}

// serveReplayTopic replays to all subscriptions of a topic. It skips those that
// end meanwhile.
func (s *Server) serveReplayTopic(r *http.Request) (any, error) {
	p, err := replayOf(r, true)
	if err != nil {
		return nil, err
	}
	var done, from atomic.Int64
	g, ctx := errgroup.WithContext(r.Context())
	g.SetLimit(apiReplays)
	for _, key := range s.Control.Members(p.Topic) {
		g.Go(func() error {
			n, err := s.Control.Replay(ctx, key, *p.From)
			switch {
			case errors.Is(err, refusal.ErrNoSubscription):
				return nil
			case err != nil:
				return err
			}
			done.Add(1)
			from.Store(n)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if done.Load() == 0 {
		return nil, problem(http.StatusNotFound, "the topic has no subscribers")
	}
	return map[string]int64{"subscriptions": done.Load(), "from": from.Load()}, nil
}

func (s *Server) serveMessages(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	after := int64(0)
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return nil, problem(http.StatusBadRequest, "after %.40q: want the number of a message", text)
		}
	}
	all, known, err := s.State.Messages(r.Context(), q.Get("topic"), after, limit)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, problem(http.StatusNotFound, "there is no such topic")
	}
	v := map[string]any{"messages": notNil(all)}
	if len(all) == limit {
		v["after"] = all[limit-1].Seq
	}
	return v, nil
}

// serveVerifications answers with the failed verifications.
func (s *Server) serveVerifications(*http.Request) (any, error) {
	return map[string]any{"failed": notNil(s.Failed())}, nil
}
