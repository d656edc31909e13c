package hub

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"lockstep/websub"
)

const (
	// signedFor is how old a signed publication may be, signedAhead how far in the
	// future its date may be, for clocks differ.
	signedFor   = 5 * time.Minute
	signedAhead = 10 * time.Second
	// maxReplays caps the signed publications that are remembered: memory filled
	// by those who have a token.
	maxReplays = 100_000
)

// dateOf returns the date that a signed publication names.
func dateOf(h http.Header) (value string, at time.Time, err error) {
	values := h.Values("Date")
	if len(values) == 1 {
		if at, err := http.ParseTime(values[0]); err == nil {
			return values[0], at, nil
		}
	}
	return "", time.Time{}, refuse(http.StatusForbidden, "a signed publication takes one Date header, and a signature over topic, date and body")
}

// checkDate refuses a signed publication that is not of now. What was signed
// before the hub started may have been accepted by the process before this one,
// which alone knew of it. Hubs that share their state do not know what the
// others accepted.
func (h *Hub) checkDate(header http.Header) error {
	if h.sharer != nil {
		return refuse(http.StatusForbidden, "this hub shares its state with others and cannot recognise a repeated publication: send the token, as Authorization: Bearer …")
	}
	_, at, err := dateOf(header)
	now := h.now()
	switch {
	case err != nil:
		return err
	case at.Before(now.Add(-signedFor)) || at.After(now.Add(signedAhead)):
		return refuse(http.StatusForbidden, "the publication is dated %s, but it is %s here: a signature is good for %s", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), signedFor)
	case !at.After(h.started.Add(signedAhead)):
		wait := max(h.started.Add(signedAhead).Sub(now), 0) + time.Second
		return &refusal{status: http.StatusServiceUnavailable, text: "the publication may have been signed before this hub started: sign it again later", after: wait}
	}
	return nil
}

// signed decides by the signature of a publication, made with a token as the
// key over topic, date and body (WS-X-09), and remembers it: the same is not
// accepted again. undo forgets it.
func (h *Hub) signed(header http.Header, p *publishing, body []byte) (undo func(), err error) {
	date, at, err := dateOf(header)
	if err != nil {
		return nil, err
	}
	for _, t := range h.in.publishers.tokens {
		if _, err := websub.VerifyPublication(header.Values(websub.SignatureHeader), []byte(t), p.self, date, body, signatureMethods...); err != nil {
			continue
		}
		sum := sha256.New()
		_, _ = sum.Write([]byte(p.topic + "\n" + at.UTC().Format(time.RFC3339) + "\n")) // never fails
		_, _ = sum.Write(body)
		return h.in.replays.remember([sha256.Size]byte(sum.Sum(nil)), h.now(), at.Add(signedFor+time.Second))
	}
	return nil, refuse(http.StatusForbidden, "the signature is not made with one of the tokens that may publish here, by %s, over topic, date and body", strings.Join(signatureMethods, ", "))
}

// replays are the signed publications that were accepted and could still be
// repeated.
type replays struct {
	mu    sync.Mutex // guards until
	until map[[sha256.Size]byte]time.Time
}

// remember notes a publication until its date is too old to be accepted.
func (r *replays) remember(sum [sha256.Size]byte, now, until time.Time) (undo func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(r.until) >= maxReplays {
		for s, at := range r.until {
			if at.Before(now) {
				delete(r.until, s)
			}
		}
	}
	if at, ok := r.until[sum]; ok && !at.Before(now) {
		return nil, refuse(http.StatusConflict, "this signed publication was accepted before")
	}
	if len(r.until) >= maxReplays {
		return nil, tooMany(signedFor, "too many signed publications")
	}
	r.until[sum] = until
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.until, sum)
	}, nil
}
