package destination

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"lockstep/internal/fetch"
)

// relEvents is the relation by which a Capability List names the stream of
// events of its set: what its channel of Change Notification tells, as
// server-sent events, for who cannot be called.
const relEvents = "urn:x-lockstep:events"

const (
	// eventsIdle is how long a stream may be silent: the Source sends a
	// heartbeat every 15 s, and what is between it and us may keep it back.
	eventsIdle = 45 * time.Second

	// maxEventLine and maxEventData cap what of one event is held in memory.
	maxEventLine = 8 << 20
	maxEventData = 8 << 20
	maxEventID   = 1024

	// What is waited before a stream that broke is opened again, growing from
	// the one to the other while no event comes.
	eventsFirst = 500 * time.Millisecond
	eventsMost  = time.Minute

	maxEventHops = 5 // redirects
)

// An eventStream keeps a stream of events open.
type eventStream struct {
	client *fetch.Client
	uri    string
	last   string        // ID of the last event received; "": from now on
	first  time.Duration // of the waits
	idle   time.Duration

	// hello is called when the stream is open and works: with resumed it goes
	// on behind last, else it begins at id. lost is called when it broke.
	hello func(id string, resumed bool)
	lost  func(err error)
	// event takes an event, and may wait to. An error ends the stream.
	event func(ctx context.Context, e streamEvent) error
	allow func(uri string) error // says whether a redirect may lead there
}

// A streamEvent is a server-sent event.
type streamEvent struct {
	kind string // event
	id   string
	data []byte
}

// run keeps the stream open until ctx ends.
func (s *eventStream) run(ctx context.Context) {
	for wait := s.first; ctx.Err() == nil; {
		worked, retry, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.lost(err)
		if worked {
			wait = s.first
		}
		if retry > 0 {
			wait = max(wait, min(retry, eventsMost))
		}
		pause := wait*4/5 + rand.N(wait*2/5+1)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if wait = min(2*wait, eventsMost); worked {
			wait = s.first
		}
	}
}

// once opens the stream and reads it until it breaks. It reports whether
// anything came, and how long the Source wants us to wait.
func (s *eventStream) once(ctx context.Context) (worked bool, retry time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(s.idle, func() { cancel(fmt.Errorf("silent for %s", s.idle)) })
	defer alarm.Stop()
	resp, err := s.open(ctx)
	if err != nil {
		return false, retryOf(err), causeOf(ctx, err)
	}
	defer resp.Body.Close()
	in := &eventReader{in: bufio.NewReaderSize(idleReader{resp.Body, alarm, s.idle}, 32<<10)}
	resumed := s.last != ""
	for greeted := false; ; {
		e, err := in.next()
		if err != nil {
			return worked, in.retry, causeOf(ctx, err)
		}
		alarm.Stop() // it is not silent while we are busy
		switch {
		case e.kind == "hello":
			greeted, worked = true, true
			if !resumed && e.id != "" {
				s.last = e.id
			}
			s.hello(e.id, resumed)
			if resumed {
				break // its ID is of what is still to come
			}
			err = s.event(ctx, e)
		case !greeted:
			err = errors.New("it does not begin with a greeting: it is no stream of ours")
		default:
			worked = true
			if err = s.event(ctx, e); err == nil && e.id != "" {
				s.last = e.id
			}
		}
		if err != nil {
			return worked, in.retry, causeOf(ctx, err)
		}
		alarm.Reset(s.idle)
	}
}

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// A refusedStream is an answer that is no stream.
type refusedStream struct {
	status int
	what   string
	after  time.Duration
}

func (e *refusedStream) Error() string { return e.what }

func retryOf(err error) time.Duration {
	var refused *refusedStream
	if errors.As(err, &refused) {
		return refused.after
	}
	return 0
}

// open sends the request, and follows redirects.
func (s *eventStream) open(ctx context.Context) (*http.Response, error) {
	uri := s.uri
	for hop := 0; ; hop++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-cache")
		if s.last != "" {
			req.Header.Set("Last-Event-ID", s.last)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t == "text/event-stream" {
				return resp, nil
			}
		}
		_ = resp.Body.Close() // what it says is not wanted
		next, err := redirectOf(resp, uri)
		if err != nil {
			return nil, err
		}
		if hop == maxEventHops {
			return nil, fmt.Errorf("more than %d redirects", maxEventHops)
		}
		if err := s.allow(next); err != nil {
			return nil, err
		}
		uri = next
	}
}

// redirectOf returns where an answer that is no stream leads to.
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
	refused := &refusedStream{status: resp.StatusCode, what: fmt.Sprintf("status %d, and no stream of events", resp.StatusCode)}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		refused.after = time.Duration(min(n, 3600)) * time.Second
	}
	return "", refused
}

// An idleReader sets the alarm again with all that comes.
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

// An eventReader reads server-sent events (WHATWG HTML, 9.2.6).
type eventReader struct {
	in    *bufio.Reader
	line  []byte
	begun bool          // the first line was read
	cr    bool          // the line before ended with CR
	retry time.Duration // as the stream last said
}

var (
	errEventSize = errors.New("an event is too large")
	utf8Mark     = []byte("\xef\xbb\xbf")
)

// next returns the next event that has a kind or data.
func (r *eventReader) next() (streamEvent, error) {
	var e streamEvent
	data := false
	for {
		line, err := r.readLine()
		if err != nil {
			return e, err // an event that is not whole is none
		}
		if len(line) == 0 {
			if e.kind == "" && !data {
				continue
			}
			e.data = bytes.TrimSuffix(e.data, []byte("\n"))
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.kind = string(value[:min(len(value), maxEventID)])
		case "id":
			if len(value) <= maxEventID && bytes.IndexFunc(value, unicode.IsControl) < 0 { // else no header could carry it back
				e.id = strings.ToValidUTF8(string(value), "")
			}
		case "data":
			if data = true; len(e.data)+len(value)+1 > maxEventData {
				return e, errEventSize
			}
			e.data = append(append(e.data, value...), '\n')
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readLine returns the next line without its end, which may be CR, LF or both.
// It is valid until the next call.
func (r *eventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		after := r.cr
		if r.cr = c == '\r'; after && c == '\n' {
			continue // the rest of the end of the line before
		}
		if c == '\r' || c == '\n' {
			if !r.begun {
				r.begun = true
				return bytes.TrimPrefix(r.line, utf8Mark), nil
			}
			return r.line, nil
		}
		r.line = append(r.line, c)
		b, _ := r.in.Peek(r.in.Buffered()) // what is there at once
		if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
			b = b[:i]
		}
		if len(r.line)+len(b) > maxEventLine {
			return nil, errEventSize
		}
		r.line = append(r.line, b...)
		_, _ = r.in.Discard(len(b)) // it is there
	}
}
