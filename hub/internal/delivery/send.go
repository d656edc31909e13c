package delivery

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

// A sender makes single attempts to deliver a message.
type sender struct {
	transport http.RoundTripper
	header    func(m *hubstore.Message, self string) http.Header
	unseal    func(key hubstore.Key, sealed []byte) ([]byte, error)
	method    string // of signatures
	now       func() time.Time
}

// An outcome is the result of an attempt.
type outcome struct {
	status     int // 0: there was no answer
	err        error
	retryAfter time.Duration
	took       time.Duration
	late       bool // it took too long
	ended      bool // the hub is shutting down: the result says nothing about the endpoint
}

// String describes the failure, without the address.
func (o outcome) String() string {
	if o.err != nil {
		return o.err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("answered %d %s", o.status, http.StatusText(o.status)))
}

// post makes the attempt.
func (x *sender) post(ctx context.Context, e *entry, target *url.URL, signer *signing, topic string) outcome {
	head := e.header
	if topic != e.Topic {
		head = x.header(&e.Message, topic) // WS-C-03: as the subscriber spells it
	}
	if signer != nil { // WS-C-15
		signature, err := signer.sign(x, e.Body) // WS-X-12: with the current secret
		if err != nil {
			return outcome{err: err}
		}
		head = maps.Clone(head) // the shared header must not change
		head[websub.SignatureHeader] = []string{signature}
	}
	if target == nil {
		return outcome{err: errors.New("the callback is no URL")}
	}
	r := &http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host, Header: head,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(e.Body)), Body: io.NopCloser(bytes.NewReader(e.Body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(e.Body)), nil },
	}
	if len(e.Body) == 0 {
		r.Body = http.NoBody
	}
	a, err := x.transport.RoundTrip(r.WithContext(ctx)) // WS-C-08: no redirects
	if err != nil {
		return outcome{err: err}
	}
	_, _ = io.CopyN(io.Discard, a.Body, drainMost) // WS-C-08: the body of the answer does not matter
	_ = a.Body.Close()                             // likewise
	return outcome{status: a.StatusCode, retryAfter: retryAfter(a.Header.Get("Retry-After"), x.now())}
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

// signing is the secret of a subscription, ready for use.
type signing struct {
	key    hubstore.Key
	sealed []byte
	once   sync.Once
	signer *websub.Signer
	err    error
}

// sign returns the signature of body (WS-X-01).
func (s *signing) sign(x *sender, body []byte) (string, error) {
	s.once.Do(func() {
		secret, err := x.unseal(s.key, s.sealed)
		if err != nil {
			s.err = err
			return
		}
		s.signer, s.err = websub.NewSigner(x.method, secret)
	})
	if s.err != nil {
		return "", s.err
	}
	return s.signer.Sign(body), nil
}
