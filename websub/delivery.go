package websub

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// DeliveryIDHeader is the header field in which Lockstep's hub sends the ID of
// a message: the same for all subscribers and all attempts.
const DeliveryIDHeader = "Hub-Delivery-Id"

const (
	maxRecent   = 64       // messages of a Wish remembered to recognize duplicates
	maxUnderWay = 8        // concurrent deliveries of a Wish; each may hold a body
	firstRead   = 64 << 10 // bytes of a body allocated before any arrived

	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// readBody reads the body of a delivery. status is 0, or the answer to a body
// that is too large or truncated; the limit is enforced while reading
// (WS-SEC-06).
func readBody(w http.ResponseWriter, r *http.Request, most int64) (body []byte, status int) {
	if r.ContentLength > most {
		return nil, http.StatusRequestEntityTooLarge
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(exchangeTime)) // if the connection supports it
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := io.Copy(&b, http.MaxBytesReader(nil, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	}
	return b.Bytes(), 0
}

// tooLarge answers a body that is too large, and then reads and discards the
// rest of it, up to some bytes and for some time: many hubs read no answer
// before they have sent the whole body, and never see it if the server closes
// the connection before.
func tooLarge(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex() // if the protocol supports it
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusRequestEntityTooLarge)
	_ = c.Flush()
	if r.Header.Get("Expect") == "" {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, r.Body, lingerBytes) // only the reading counts
	}
}

// checked returns the answer to a delivery with an invalid signature, or 0: a
// missing signature is forbidden (WS-X-06); a wrong one gets the same answer as
// a valid delivery, so that a sender cannot find the right one by trying
// (WS-X-05).
func (s *Subscriber) checked(r *http.Request, l *subscription, body []byte) (status int) {
	values := r.Header.Values(SignatureHeader)
	var failed error
	for _, secret := range l.secrets(s.opts.Clock()) {
		method, err := Verify(values, []byte(secret), body, s.methods...)
		if err != nil {
			failed = err
			continue
		}
		if method == "sha1" && s.tallies.of(l.WishID).first(l.Name) { // WS-X-08
			s.report(SubscriberEvent{Kind: Weak, ID: l.WishID, Topic: l.Topic, Hub: l.hub(), Reason: "it signs with sha1", At: s.opts.Clock()})
		}
		return 0
	}
	s.tallies.of(l.WishID).forge()
	s.report(SubscriberEvent{Kind: Forged, ID: l.WishID, Topic: l.Topic, Hub: l.hub(), Reason: failed.Error(), At: s.opts.Clock()})
	if errors.Is(failed, ErrUnsigned) {
		return http.StatusForbidden
	}
	return http.StatusAccepted
}

// A tally is the state of one Wish's deliveries since the process started.
type tally struct {
	mu        sync.Mutex // guards what follows
	underWay  int
	accepted  int64
	duplicate int64
	forged    int64
	last      time.Time
	recent    []message // the newest at the end
	weak      string    // name of the subscription whose hub was seen to sign with sha1
}

// A message is an accepted message.
type message struct {
	sum [sha256.Size]byte
	at  time.Time
	ids map[string]string // the hub's ID of it, by the subscription it was delivered for
}

func sumOf(body []byte) [sha256.Size]byte { return sha256.Sum256(body) }

// tallies are the tallies by ID of their Wish. There are as many as there are
// Wishes. The zero value is ready to use.
type tallies struct {
	mu     sync.Mutex // guards byWish
	byWish map[string]*tally
}

// of returns the tally of a Wish.
func (ts *tallies) of(id string) *tally {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byWish[id]
	if t == nil {
		if ts.byWish == nil {
			ts.byWish = map[string]*tally{}
		}
		t = &tally{}
		ts.byWish[id] = t
	}
	return t
}

func (t *tally) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay >= maxUnderWay {
		return false
	}
	t.underWay++
	return true
}

func (t *tally) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
}

// has reports whether the message was accepted before: the hub repeats an
// acknowledged one, or it was delivered for the subscription that this one
// replaces (WS-L-05).
func (t *tally) has(l *subscription, id string, sum [sha256.Size]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.recent {
		m := &t.recent[i]
		if m.sum != sum {
			continue
		}
		known, came := m.ids[l.Name]
		switch {
		case came && (id == "" || known != id): // the topic has the same content again
			continue
		case !came && m.at.Before(l.Since): // from before this subscription: a different message
			continue
		}
		m.ids[l.Name] = id
		t.duplicate++
		return true
	}
	return false
}

func (t *tally) took(l *subscription, id string, sum [sha256.Size]byte, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.recent) >= maxRecent {
		t.recent = append(t.recent[:0], t.recent[1:]...)
	}
	t.recent = append(t.recent, message{sum, at, map[string]string{l.Name: id}})
	t.accepted++
	t.last = at
}

func (t *tally) forge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forged++
}

// first reports whether this is the first call for the subscription.
func (t *tally) first(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.weak != name
	t.weak = name
	return is
}

func (t *tally) into(st *SubscriptionState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st.Deliveries, st.Duplicates, st.Forged, st.Delivered = t.accepted, t.duplicate, t.forged, t.last
}
