// Package post makes single attempts to deliver a message to a callback.
package post

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

const drainMost = 16 << 10 // bytes of an answer that are read and discarded, so that the connection can be reused

// A Poster makes attempts to deliver messages.
type Poster struct {
	Transport http.RoundTripper // for callbacks
	Unseal    func(key hubstore.Key, sealed []byte) ([]byte, error)
	Method    string // of signatures
	PublicURL string // of the hub
	UserAgent string
	Now       func() time.Time
}

// Header returns the header of the delivery of m to a subscriber that spells
// the topic as self.
func (p *Poster) Header(m *hubstore.Message, self string) http.Header {
	links := websub.LinkHeader(self, []string{p.PublicURL}) // WS-C-03: one field
	if len(m.Links) > 0 {
		links += ", " + strings.Join(m.Links, ", ") // RN-PB-02
	}
	head := http.Header{
		"Link":            {links},
		"Hub-Delivery-Id": {m.ID},
		"User-Agent":      {p.UserAgent},
		"Content-Type":    {m.ContentType}, // WS-C-01
	}
	if m.ContentType == "" { // the topic was served without one: RFC 9110, 8.3
		head["Content-Type"] = []string{"application/octet-stream"}
	}
	return head
}

// A Result is the result of an attempt.
type Result struct {
	Status     int // 0: there was no answer
	Err        error
	RetryAfter time.Duration // the wait that the endpoint requests
}

// String describes the failure, without the address.
func (r Result) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("answered %d %s", r.Status, http.StatusText(r.Status)))
}

// A Sender makes attempts one after the other, all within one context: to prepare
// a context for each costs more than the rest of an attempt's preparation.
type Sender struct {
	poster *Poster
	common *http.Request // what all its requests have in common
}

// Sender returns a Sender whose attempts end when ctx ends.
func (p *Poster) Sender(ctx context.Context) *Sender {
	r := &http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return &Sender{poster: p, common: r.WithContext(ctx)}
}

// Post makes an attempt to deliver m. header is its [Poster.Header] for the topic
// as the message spells it; topic is the spelling of the subscriber. secret is
// nil if the subscriber gave none, and target is nil if its callback is no URL.
func (s *Sender) Post(m *hubstore.Message, header http.Header, target *url.URL, secret *Secret, topic string) Result {
	p := s.poster
	if topic != m.Topic {
		header = p.Header(m, topic) // WS-C-03: as the subscriber spells it
	}
	if secret != nil { // WS-C-15
		signature, err := secret.sign(p, m.Body) // WS-X-12: with the current secret
		if err != nil {
			return Result{Err: err}
		}
		header = maps.Clone(header) // the shared header must not change
		header[websub.SignatureHeader] = []string{signature}
	}
	if target == nil {
		return Result{Err: errors.New("the callback is no URL")}
	}
	r := *s.common // the transport may still read the last one
	r.URL, r.Host, r.Header, r.ContentLength = target, target.Host, header, int64(len(m.Body))
	if r.Body = http.NoBody; len(m.Body) > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.Body)), nil }
		r.Body, _ = r.GetBody() // never fails
	}
	a, err := p.Transport.RoundTrip(&r) // WS-C-08: no redirects
	if err != nil {
		return Result{Err: err}
	}
	if a.ContentLength != 0 {
		_, _ = io.CopyN(io.Discard, a.Body, drainMost) // WS-C-08: the body of the answer does not matter
	}
	_ = a.Body.Close() // likewise
	result := Result{Status: a.StatusCode}
	if after := a.Header.Get("Retry-After"); after != "" {
		result.RetryAfter = retryAfter(after, p.Now())
	}
	return result
}

// retryAfter returns the wait that the header field requests; 0 if it is
// missing or not understood.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // on overflow n is the largest possible value
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// A Secret is the secret of a subscription, ready for use.
type Secret struct {
	key    hubstore.Key
	sealed []byte
	once   sync.Once
	signer *websub.Signer
	err    error
}

// NewSecret returns the secret of the subscription key as it is stored.
func NewSecret(key hubstore.Key, sealed []byte) *Secret { return &Secret{key: key, sealed: sealed} }

// sign returns the signature of body (WS-X-01).
func (s *Secret) sign(p *Poster, body []byte) (string, error) {
	s.once.Do(func() {
		secret, err := p.Unseal(s.key, s.sealed)
		if err != nil {
			s.err = err
			return
		}
		s.signer, s.err = websub.NewSigner(p.Method, secret)
	})
	if s.err != nil {
		return "", s.err
	}
	return s.signer.Sign(body), nil
}
