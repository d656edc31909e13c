package websub

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxChallenge = 4096 // bytes (WS-I-09)
	maxReason    = 500  // bytes of a hub's reason for a denial

	longestLease = 30 * 24 * time.Hour    // a longer one is renewed as if it had this length
	assumedLease = 24 * time.Hour         // if the hub states none (WS-L-03)
	mostMargin   = 30 * time.Second       // how long before the hub a subscription considers its lease as ended
	leastRenewal = 500 * time.Millisecond // a hub cannot cause more frequent requests
)

// Handler returns the handler of requests from hubs: verification, denial,
// delivery. It uses the last segment of a path as the name of a callback and
// ignores the rest.
func (s *Subscriber) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Subscriber) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	m, err := s.current(r.Context())
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	l := m.Subscriptions[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	switch {
	case l == nil:
		s.unread(w, r, http.StatusNotFound) // WS-SEC-06
		s.report(SubscriberEvent{Kind: Unknown, At: s.opts.Clock()})
	case r.Method == http.MethodGet:
		s.verify(w, r, l)
	case r.Method != http.MethodPost:
		h.Set("Allow", "GET, POST")
		s.unread(w, r, http.StatusMethodNotAllowed)
	case l.State == pending: // a hub that has not verified the subscription may not deliver
		s.unread(w, r, http.StatusNotFound)
	case l.State == ended, m.Wishes[l.WishID] == nil, m.Wishes[l.WishID].Dropped:
		s.unread(w, r, http.StatusGone) // WS-C-07
	default:
		s.take(w, r, l)
	}
}

// unread answers without reading a body. If there is a body, it closes the
// connection: otherwise the server would wait for the rest of the body.
func (s *Subscriber) unread(w http.ResponseWriter, r *http.Request, status int) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // if the connection supports it
	}
	w.WriteHeader(status)
}

// unavailable answers that the state cannot be read or saved: the hub may try
// again.
func (s *Subscriber) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.opts.Logger.ErrorContext(r.Context(), "hub was not answered", slog.Any("err", err))
	}
	w.Header().Set("Retry-After", "5")
	s.unread(w, r, http.StatusServiceUnavailable)
}

// A question is a hub's GET request to a callback.
type question struct {
	mode, topic, challenge, lease, reason string
}

// parseQuestion parses the query of a callback. If a parameter occurs twice the
// last one is the hub's: the callback's own come first (WS-H-10).
func parseQuestion(query string) question {
	v, _ := url.ParseQuery(query) // valid parameters are used
	last := func(name string) string {
		if s := v[name]; len(s) > 0 {
			return s[len(s)-1]
		}
		return ""
	}
	return question{last("hub.mode"), last("hub.topic"), last("hub.challenge"), last("hub.lease_seconds"), last("hub.reason")}
}

// echoes reports whether the challenge may be sent back: it must be bounded and
// printable (WS-I-09).
func (q *question) echoes() bool {
	return q.challenge != "" && len(q.challenge) <= maxChallenge &&
		strings.IndexFunc(q.challenge, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// verify answers the hub's verification of intent (WS-I-03): it confirms only a
// request that was made with exactly this callback. The resulting change is
// durable before the answer.
func (s *Subscriber) verify(w http.ResponseWriter, r *http.Request, l *subscription) {
	at := s.opts.Clock()
	q := parseQuestion(r.URL.RawQuery)
	yes := false
	if q.topic != "" && Canonical(q.topic) == Canonical(l.Topic) { // RN-AMB-16
		_, err := s.update(r.Context(), func(c *change) bool {
			var changed bool
			yes, changed = c.question(c.Subscriptions[l.Name], &q, at)
			return changed
		})
		if err != nil {
			s.unavailable(w, r, err)
			return
		}
		s.poke()
	}
	switch {
	case !yes:
		s.unread(w, r, http.StatusNotFound)
	case q.mode == ModeDenied:
		s.unread(w, r, http.StatusOK)
	default:
		w.Header().Set("Content-Type", "text/plain") // WS-I-05
		w.Header().Set("Content-Length", strconv.Itoa(len(q.challenge)))
		_, _ = io.WriteString(w, q.challenge) // a hub that has disconnected asks again
	}
}

// question decides the answer and records its effect.
func (c *change) question(l *subscription, q *question, at time.Time) (yes, changed bool) {
	if l == nil {
		return false, false
	}
	w := c.Wishes[l.WishID]
	wanted := w != nil && !w.Dropped && (l.State == pending || l.State == active)
	switch {
	case q.mode == ModeDenied:
		if wanted {
			c.deny(w, l, q.reason)
		}
		return true, wanted
	case !q.echoes():
		return false, false
	case q.mode == ModeSubscribe && wanted:
		c.confirm(w, l, q.lease, at)
		return true, true
	case q.mode == ModeUnsubscribe && l.State == ending:
		c.report(Ended, l, "")
		l.end(c.now)
		return true, true
	case q.mode == ModeUnsubscribe && l.State == ended: // WS-I-06
		return at.Sub(l.Asked) < c.s.opts.Pending && l.Left, false
	}
	return false, false
}

// confirm records that the hub verified: the lease runs from the time of its
// question (WS-L-03).
func (c *change) confirm(w *wish, l *subscription, granted string, at time.Time) {
	lease := assumedLease
	if n, err := strconv.ParseUint(granted, 10, 63); err == nil && n > 0 {
		lease = time.Duration(min(n, uint64(longestLease/time.Second))) * time.Second
	}
	kind := Renewed
	if l.State == pending {
		kind, l.Since = Verified, at
	}
	l.State, l.Verified = active, at
	l.Expires = at.Add(lease - min(lease/20, mostMargin))
	l.Renew = at.Add(max(jittered(lease*2/3, 0.04), leastRenewal))
	l.Waiting, l.Next, l.Attempts, l.Error = false, time.Time{}, 0, ""
	if l.NewSecret != "" {
		l.OldSecret, l.OldUntil = l.Secret, at.Add(keepOld) // WS-X-11
		l.Secret, l.NewSecret = l.NewSecret, ""
	}
	w.Round, w.Denied, w.Error = 0, false, ""
	w.At = max(slices.Index(w.Hubs, l.Named), 0)
	c.report(kind, l, "")
}

// deny records a denial (WS-V-03): another hub may accept.
func (c *change) deny(w *wish, l *subscription, reason string) {
	reason = l.hide(reason)
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	reason = strings.TrimSpace(printable(reason))
	c.report(Denied, l, reason)
	w.Denied, w.Error = true, reason
	w.At = max(slices.Index(w.Hubs, l.Named), 0)
	c.nextHub(w, true, 0)
	l.end(c.now)
}

// take accepts a delivery.
func (s *Subscriber) take(w http.ResponseWriter, r *http.Request, l *subscription) {
	d := Delivery{
		ID: l.WishID, Topic: l.Topic, DeliveryID: r.Header.Get(DeliveryIDHeader),
		ContentType: r.Header.Get("Content-Type"), Links: r.Header.Values("Link"), At: s.opts.Clock(),
	}
	t := s.tallies.of(l.WishID)
	if !t.enter() {
		w.Header().Set("Retry-After", "1")
		s.unread(w, r, http.StatusServiceUnavailable)
		return
	}
	defer t.leave()
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		s.unread(w, r, http.StatusUnsupportedMediaType) // signatures cover the bytes as sent (WS-X-12)
		return
	}
	var status int
	d.Body, status = readBody(w, r, s.opts.MaxBody)
	switch status {
	case 0:
	case http.StatusRequestEntityTooLarge:
		tooLarge(w, r)
		return
	default:
		s.unread(w, r, status)
		return
	}
	if status := s.checked(r, l, d.Body); status != 0 {
		w.WriteHeader(status)
		return
	}
	sum := sumOf(d.Body)
	if t.has(l, d.DeliveryID, sum) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := s.opts.Deliver(r.Context(), d); err != nil {
		s.opts.Logger.ErrorContext(r.Context(), "delivery is not kept", slog.String("set", l.WishID), slog.String("topic", l.Topic), slog.Any("err", err))
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	t.took(l, d.DeliveryID, sum, d.At)
	w.WriteHeader(http.StatusAccepted) // WS-C-06: the same as for a wrong signature
}
