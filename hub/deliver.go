package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

const (
	drainMost  = 16 << 10               // bytes of an answer that are read and discarded, so that the connection can be reused
	stayFor    = 32                     // consecutive messages to a subscriber that lags behind, while the page with them is in memory
	watchEvery = 100 * time.Millisecond // precision of timeouts
	storeRetry = time.Second            // after the store could not be read
)

// signing is the secret of a subscription, ready for use.
type signing struct {
	key    hubstore.Key
	sealed []byte
	once   sync.Once
	signer *websub.Signer
	err    error
}

// sign returns the signature of body (WS-X-01).
func (s *signing) sign(h *Hub, body []byte) (string, error) {
	s.once.Do(func() {
		secret, err := h.unseal(s.key, s.sealed)
		if err != nil {
			s.err = err
			return
		}
		s.signer, s.err = websub.NewSigner(h.opts.Method, secret)
	})
	if s.err != nil {
		return "", s.err
	}
	return s.signer.Sign(body), nil
}

// A flight is a chain of deliveries, one at a time.
type flight struct {
	sub    *subscription // nil: none
	queue  *queue        // the queue that counts it
	stayed int           // consecutive messages to the same subscriber
	start  time.Time     // of the current delivery; zero: none
	cancel context.CancelFunc
	late   bool // canceled because it took too long
	index  int  // in Hub.flights

	patience time.Duration // the time limit that it exceeded
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

// spawn starts all deliveries whose turn it is. The caller holds h.mu.
func (h *Hub) spawn() {
	for {
		s, q := h.scheduler.take()
		if s == nil {
			return
		}
		f := &flight{sub: s, queue: q, index: len(h.flights)}
		if h.flights = append(h.flights, f); len(h.flights) == 1 {
			h.poke()
		}
		h.workers.Go(func() { h.fly(f) })
	}
}

// fly makes deliveries for as long as a subscription has its turn.
func (h *Hub) fly(f *flight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f.sub != nil {
		if h.deliver(f) {
			continue
		}
		f.queue.leave()
		f.stayed = 0
		f.sub, f.queue = h.scheduler.take()
		h.spawn()
	}
	end := len(h.flights) - 1
	h.flights[f.index] = h.flights[end]
	h.flights[f.index].index = f.index
	h.flights[end] = nil
	h.flights = h.flights[:end]
}

// deliver makes one attempt to deliver the next message, if there is one, and
// reports whether to send the subscriber another at once. The caller holds
// h.mu, which is released during the delivery.
func (h *Hub) deliver(f *flight) (stay bool) {
	s := f.sub
	e, err := h.next(s)
	if err != nil {
		h.opts.Logger.Error("messages could not be read", slog.String("topic", s.log.url), slog.Any("err", err))
		h.rest(s, h.now().Add(storeRetry))
		return false
	}
	if e == nil || h.scheduler.draining {
		h.resume(s)
		return false
	}
	s.stage, s.moved = sending, false
	f.late, f.start = false, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	target, signer, topic := s.target, s.signer, s.Topic
	h.mu.Unlock()
	out := h.post(ctx, e, target, signer, topic)
	h.mu.Lock()
	out.took = time.Since(f.start)
	f.start = time.Time{}
	if out.err != nil && ctx.Err() != nil { // canceled by the hub
		out.late, out.ended = f.late, !f.late
		if f.late {
			out.err = fmt.Errorf("no answer within %v", f.patience)
		}
	}
	cancel()
	h.settle(s, e, out)
	if h.stays(f) {
		f.stayed++
		return true
	}
	h.resume(s)
	return false
}

// stays reports whether the next message to the same subscriber is sent at once:
// the subscriber lags behind, the messages it needs were just read, and other
// readers would displace them.
func (h *Hub) stays(f *flight) bool {
	s := f.sub
	p := &s.Progress
	return s.stage == sending && p.Attempts == 0 && s.slow == 0 && f.stayed < stayFor && !h.scheduler.draining &&
		p.Cursor < s.log.last && s.log.recent.find(p.Cursor+1) == nil
}

// next returns the next message for s, or nil if there is none. It skips
// messages that are no longer available. The caller holds h.mu.
func (h *Hub) next(s *subscription) (*entry, error) {
	for s.stage != gone {
		p := &s.Progress
		if !h.now().Before(s.Expires) {
			h.expire(s)
			return nil, nil
		}
		if p.Cursor >= s.log.last {
			return nil, nil
		}
		e, forgotten, err := h.at(context.Background(), s.log, p.Cursor+1)
		switch {
		case err != nil:
			return nil, err
		case s.stage == gone:
			return nil, nil // ended while the store was read
		case e == nil:
			h.skip(s, forgotten)
		case e.Seq <= p.Cursor: // replayed from a later message meanwhile
		case e.Seq > p.Cursor+1:
			h.skip(s, e.Seq-1)
		case e.Whole && s.log.whole > e.Seq: // WS-C-11: superseded
			p.Cursor = e.Seq
			h.note(s)
		default:
			return e, nil
		}
	}
	return nil, nil
}

// skip gives up the messages up to upto: they are forgotten, or have waited too
// long.
func (h *Hub) skip(s *subscription, upto int64) {
	if n := upto - s.Progress.Cursor; n > 0 {
		s.Progress.Cursor = upto
		s.Progress.GivenUp += n
		h.tally.giveUp(n)
		h.note(s)
	}
}

// post makes the attempt.
func (h *Hub) post(ctx context.Context, e *entry, target *url.URL, signer *signing, topic string) outcome {
	head := e.header
	if topic != e.Topic {
		head = h.header(&e.Message, topic) // WS-C-03: as the subscriber spells it
	}
	if signer != nil { // WS-C-15
		signature, err := signer.sign(h, e.Body) // WS-X-12: with the current secret
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
	a, err := h.client.Transport.RoundTrip(r.WithContext(ctx)) // WS-C-08: no redirects
	if err != nil {
		return outcome{err: err}
	}
	_, _ = io.CopyN(io.Discard, a.Body, drainMost) // WS-C-08: the body of the answer does not matter
	_ = a.Body.Close()                             // likewise
	return outcome{status: a.StatusCode, retryAfter: retryAfter(a.Header.Get("Retry-After"), h.now())}
}
