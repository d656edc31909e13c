// Package eventstream reads the server-sent events of a Source: a [Stream] keeps
// a connection open, detects one that has gone silent, and continues behind the
// last event after a failure.
//
// Every stream begins with an event of the type "hello", so that a client knows
// that nothing on the way holds the stream back.
package eventstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lockstep/internal/fetch"
)

const (
	// Idle is how long a stream may be silent. A Source sends a heartbeat every
	// 15 s, and a proxy may delay it.
	Idle = 45 * time.Second

	// FirstWait is the usual pause before a stream that failed is opened again.
	// It doubles up to maxWait as long as no event arrives.
	FirstWait = 500 * time.Millisecond
	maxWait   = time.Minute

	maxRedirects = 5
	maxRetry     = 3600 // seconds: the longest Retry-After that is honored
)

// A Stream keeps a stream of events open. Its functions are called by
// [Stream.Run], one at a time; they may block.
type Stream struct {
	Client *fetch.Client
	URI    string
	LastID string        // ID of the last event received; "" starts with new events
	First  time.Duration // the first pause, see FirstWait
	Idle   time.Duration // see Idle

	Opened func(resumed bool)     // the stream works; resumed: it continues behind LastID
	Lost   func(err error)        // it failed
	Event  func(e Event)          // an event was received
	Allow  func(uri string) error // whether a redirect to uri may be followed
}

// Run keeps the stream open until ctx ends.
func (s *Stream) Run(ctx context.Context) {
	for wait := s.First; ctx.Err() == nil; {
		worked, retry, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.Lost(err)
		if worked {
			wait = s.First
		}
		if retry > 0 {
			wait = max(wait, min(retry, maxWait))
		}
		pause := wait*4/5 + rand.N(wait*2/5+1)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if wait = min(2*wait, maxWait); worked {
			wait = s.First
		}
	}
}

// once opens the stream and reads it until it fails. It reports whether an event
// arrived, and how long the Source asks clients to wait.
func (s *Stream) once(ctx context.Context) (worked bool, retry time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(s.Idle, func() { cancel(fmt.Errorf("silent for %s", s.Idle)) })
	defer alarm.Stop()
	resp, err := s.open(ctx)
	if err != nil {
		if refused, ok := errors.AsType[*refusedError](err); ok {
			retry = refused.after
		}
		return false, retry, causeOf(ctx, err)
	}
	defer resp.Body.Close()
	in := NewReader(idleReader{resp.Body, alarm, s.Idle})
	resumed := s.LastID != ""
	for greeted := false; ; {
		e, err := in.Next()
		if err != nil {
			return worked, in.Retry(), causeOf(ctx, err)
		}
		alarm.Stop() // the time that our functions take does not count
		switch {
		case e.Type == "hello":
			greeted, worked = true, true
			s.Opened(resumed)
			s.Event(e)
			if !resumed && e.ID != "" { // when resumed, its ID is the one of events still to come
				s.LastID = e.ID
			}
		case !greeted:
			return worked, in.Retry(), causeOf(ctx, errors.New("it does not begin with a greeting: it is no stream of ours"))
		default:
			worked = true
			if s.Event(e); e.ID != "" {
				s.LastID = e.ID
			}
		}
		alarm.Reset(s.Idle)
	}
}

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// A refusedError is a response that is not a stream.
type refusedError struct {
	status int
	after  time.Duration // as Retry-After says
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("status %d, and no stream of events", e.status)
}

// open sends the request and follows redirects.
func (s *Stream) open(ctx context.Context) (*http.Response, error) {
	uri := s.URI
	for redirects := 0; ; redirects++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-cache")
		if s.LastID != "" {
			req.Header.Set("Last-Event-ID", s.LastID)
		}
		resp, err := s.Client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t == "text/event-stream" {
				return resp, nil
			}
		}
		_ = resp.Body.Close() // nothing in it is used
		next, err := redirectOf(resp, uri)
		if err != nil {
			return nil, err
		}
		if redirects == maxRedirects {
			return nil, fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if err := s.Allow(next); err != nil {
			return nil, err
		}
		uri = next
	}
}

// redirectOf returns the address to which a response that is not a stream
// redirects.
func redirectOf(resp *http.Response, uri string) (string, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		base, err := url.Parse(uri)
		if err != nil {
			return "", err
		}
		to, err := base.Parse(resp.Header.Get("Location"))
		if err != nil || to.Host == "" || base.Scheme == "https" && to.Scheme != "https" {
			return "", errors.New("a redirect that leads nowhere")
		}
		return to.String(), nil
	}
	refused := &refusedError{status: resp.StatusCode}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		refused.after = time.Duration(min(n, maxRetry)) * time.Second
	}
	return "", refused
}

// An idleReader resets the alarm whenever bytes arrive.
type idleReader struct {
	io.Reader
	alarm *time.Timer
	idle  time.Duration
}

func (r idleReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.alarm.Reset(r.idle)
	}
	return n, err
}
