package hub

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
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"lockstep/hub/hubstore"
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
func (h *Hub) API() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /{$}":                         h.apiStats,
		"GET /topics":                      h.apiTopics,
		"GET /subscriptions":               h.apiSubscriptions,
		"GET /subscriptions/{key}":         h.apiSubscription,
		"DELETE /subscriptions/{key}":      h.apiRemove,
		"POST /subscriptions/{key}/replay": h.apiReplay,
		"GET /verifications":               h.apiVerifications,
		"GET /messages":                    h.apiMessages,
		"POST /replay":                     h.apiReplayTopic,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.reply(w, r, handle) })
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
func (h *Hub) reply(w http.ResponseWriter, r *http.Request, handle func(*http.Request) (any, error)) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, apiBody)
	select {
	case <-h.ready:
	default:
		handle = func(*http.Request) (any, error) { return nil, ErrNotReady }
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
		status = h.statusOf(r.Context(), err)
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
func (h *Hub) statusOf(ctx context.Context, err error) int {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.status
	}
	switch {
	case errors.Is(err, errElsewhere):
		return http.StatusMisdirectedRequest
	case errors.Is(err, ErrNoSubscription):
		return http.StatusNotFound
	case errors.Is(err, ErrNotReady):
		return http.StatusServiceUnavailable
	}
	h.opts.Logger.WarnContext(ctx, "answer a request to the hub's API", slog.Any("err", err))
	return http.StatusInternalServerError
}

// errElsewhere reports a subscription that belongs to another hub on the same
// store, if it exists.
var errElsewhere = errors.New("another hub that shares the state sees to this subscription now: ask that one")

// keyOf returns the key of the subscription that the request names.
func (h *Hub) keyOf(r *http.Request) (hubstore.Key, error) {
	key := hubstore.Key(r.PathValue("key"))
	if !h.owns(key) {
		return "", errElsewhere
	}
	return key, nil
}

// apiStats answers with Stats.
func (h *Hub) apiStats(*http.Request) (any, error) {
	s := h.Stats()
	v := struct {
		URL string `json:"url"`
		Stats
		Latency any `json:"delivery_seconds,omitempty"`
	}{URL: h.opts.PublicURL, Stats: s}
	if s.Latency.Count > 0 {
		v.Latency = map[string]float64{"mean": s.Latency.Sum.Seconds() / float64(s.Latency.Count), "p50": s.Latency.Quantile(0.5), "p99": s.Latency.Quantile(0.99)}
	}
	return v, nil
}

// Quantile returns an upper bound of the quantile q of the durations, in
// seconds.
func (h Histogram) Quantile(q float64) float64 {
	for _, bound := range latencies {
		if float64(h.UpTo[bound]) >= q*float64(h.Count) {
			return bound.Seconds()
		}
	}
	return latencies[len(latencies)-1].Seconds()
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

func (h *Hub) apiTopics(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	all, next := h.topicsAfter(r.URL.Query().Get("after"), limit)
	v := map[string]any{"topics": notNil(all)}
	if next != "" {
		v["after"] = next
	}
	return v, nil
}

func (h *Hub) apiSubscriptions(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	c := selection{topic: q.Get("topic")}
	if text := q.Get("behind"); text != "" {
		if c.behind, err = strconv.ParseBool(text); err != nil {
			return nil, problem(http.StatusBadRequest, "behind %.40q: want true or false", text)
		}
	}
	all, more := h.subscriptionsAfter(r.Context(), c, hubstore.Key(q.Get("after")), limit)
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

func (h *Hub) apiSubscription(r *http.Request) (any, error) {
	key, err := h.keyOf(r)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	s := h.registry.find(key)
	if s == nil {
		h.mu.Unlock()
		return nil, ErrNoSubscription
	}
	v := []SubscriptionStatus{s.status()}
	h.mu.Unlock()
	h.date(r.Context(), v)
	return v[0], nil
}

// apiRemove ends a subscription and notifies the subscriber (WS-V-02).
func (h *Hub) apiRemove(r *http.Request) (any, error) {
	reason := r.URL.Query().Get("reason")
	if len(reason) > reasonSize || !utf8.ValidString(reason) {
		return nil, problem(http.StatusBadRequest, "reason: want at most %d bytes of text", reasonSize)
	}
	if reason == "" {
		reason = "removed by who runs the hub"
	}
	key, err := h.keyOf(r)
	if err != nil {
		return nil, err
	}
	if err := h.remove(r.Context(), key, reason); err != nil {
		return nil, err
	}
	h.opts.Logger.InfoContext(r.Context(), "subscription removed", slog.String("key", string(key)))
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

func (h *Hub) apiReplay(r *http.Request) (any, error) {
	p, err := replayOf(r, false)
	if err != nil {
		return nil, err
	}
	key, err := h.keyOf(r)
	if err != nil {
		return nil, err
	}
	from, err := h.replay(r.Context(), key, *p.From)
	if err != nil {
		return nil, err
	}
	return map[string]int64{"from": from}, nil
}

// apiReplayTopic replays to all subscriptions of a topic. It skips those that
// end meanwhile.
func (h *Hub) apiReplayTopic(r *http.Request) (any, error) {
	p, err := replayOf(r, true)
	if err != nil {
		return nil, err
	}
	var done, from atomic.Int64
	g, ctx := errgroup.WithContext(r.Context())
	g.SetLimit(apiReplays)
	for _, s := range h.subscriptions(p.Topic) {
		g.Go(func() error {
			n, err := h.replay(ctx, s.Key, *p.From)
			switch {
			case errors.Is(err, ErrNoSubscription):
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

func (h *Hub) apiMessages(r *http.Request) (any, error) {
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
	if _, ok := h.topic(q.Get("topic")); !ok {
		return nil, problem(http.StatusNotFound, "there is no such topic")
	}
	all, err := h.messagesAfter(r.Context(), q.Get("topic"), after, limit)
	if err != nil {
		return nil, err
	}
	v := map[string]any{"messages": all}
	if len(all) == limit {
		v["after"] = all[limit-1].Seq
	}
	return v, nil
}
