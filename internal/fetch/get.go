package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"lockstep/internal/fetch/http1"
	"lockstep/internal/fetch/requestlog"
	"lockstep/internal/fetch/shown"
)

// A Request is a GET, or with a Post a POST. Only URI is required.
type Request struct {
	URI             string
	IfNoneMatch     string // an entity tag, or several, as in the header
	IfModifiedSince string // an HTTP date, as in the header
	RangeFrom       int64  // request the bytes from here on, if above zero
	RangeTo         int64  // up to this one, if above zero
	RangeLast       int64  // request this many bytes at the end instead, if above zero
	IfRange         string // request the range only if this validator still matches
	anonymous       bool   // without credentials, for any host
	NoCache         bool   // ask caches to revalidate
	AcceptGzip      bool   // accept a compressed body, and decompress it
	ErrorBody       int64  // store this many bytes of the body of an answer with status 400 or above, for [StatusError.Body]
	MaxBytes        int64  // cap on the body, after decompression; zero: none
	Header          http.Header

	// Post, if not nil, is sent as the body of a POST, with PostType as its media
	// type. The request must be safe to repeat. A redirect that would change it to
	// a GET is not followed.
	Post     []byte
	PostType string

	// Verified means that the caller verifies the body by a hash that it knows, and
	// Expected is its length, -1 if unknown. Such a request may be sent before the
	// responses to others have arrived on its connection.
	Verified bool
	Expected int64

	// Document means that the response may be read while other requests are sent
	// because of it. The request does not wait for one of Jobs, but counts.
	Document bool
	// Once disables retries.
	Once bool
	// Tentative means that the answer may turn out to be needless. The request is
	// sent once, follows no redirect to another host, and a failure does not count
	// against its host: a caller who needs the answer sends the request again.
	Tentative bool
	// Still, if set, is called when the request has its turn. If it returns false, the
	// request is not sent, and fails with [ErrNotSent].
	Still func() bool
	// Redirect, if set, is called before a redirect is followed and may refuse it.
	Redirect func(from, to *url.URL) error
}

// A Response is an answer with status 200, 203, 206 or 304. Its Body is never
// nil; the caller must close it.
type Response struct {
	Status int
	URI    string // that answered, after redirects
	Chain  []string
	Moved  string // target of permanent redirects (301, 308) that preceded all others; "" if there was none
	Header http.Header
	Length int64 // of Body; -1 if unknown
	Range  Range // of Body within the whole, for status 206
	Body   io.ReadCloser

	// Pipelined means that the request, or an earlier one on its connection, was sent
	// before the responses to others had arrived. If the body is not as expected, it may be that of another resource; then
	// [NoPipelining] has requests to that host sent one after the other.
	Pipelined bool
}

// Range is the part that an answer with status 206 contains.
type Range struct {
	First, Last int64
	Total       int64 // -1 if unknown
}

// Get sends r and returns a matching answer: status 200 or 203; 206 only if a
// range was requested and exactly that range was received; 304 only if r was
// conditional. Any other answer is an [*Error]. Temporary failures are retried.
func (c *Client) Get(ctx context.Context, r Request) (*Response, error) {
	return c.get(ctx, &r, new(attempts))
}

// Fetch sends *r and passes the answer to use, which reads the body and returns
// the error of reading it, possibly wrapped. If the body broke off and another
// attempt may help, *r is sent again; use may change *r for that, to request
// the rest. The attempts count together with those of Get. The Body is closed
// when use returns.
func (c *Client) Fetch(ctx context.Context, r *Request, use func(*Response) error) error {
	var at attempts
	var broke place
	for {
		from := r.RangeFrom
		resp, err := c.get(ctx, r, &at)
		if err != nil {
			return err
		}
		err = use(resp)
		_ = resp.Body.Close() // the errors that matter are those of reading, which use has
		body, broken := errors.AsType[*BodyError](err)
		if ctx.Err() != nil {
			return err // that says nothing about the host
		}
		over := broken && !r.Document && c.hosts.get(HostOf(resp.URI)).breaks.broke(r.URI, body)
		if !broken || !body.Retryable() {
			return err
		}
		f := c.booked(resp.URI, err)
		f.over = f.over || over
		if broke.again(from+body.Got) || !at.helps(c, r, &f) || c.pauseBefore(ctx, at.tries, f) != nil {
			return err
		}
	}
}

func (c *Client) get(ctx context.Context, r *Request, at *attempts) (*Response, error) {
	u, err := parse(r.URI)
	if err != nil {
		return nil, &Error{URI: r.URI, Err: err}
	}
	if r.Document {
		if err := c.deferrals.check(r.URI, time.Now()); err != nil {
			return nil, &Error{URI: r.URI, Err: err}
		}
	}
	for {
		at.tries++
		resp, chain, err := c.follow(ctx, r, u, at.tries)
		if err == nil {
			return resp, nil
		}
		final := &Error{URI: r.URI, Chain: chain, Tries: at.tries, Err: err}
		if ctx.Err() != nil {
			final.Err = context.Cause(ctx)
			return nil, final
		}
		if r.Tentative {
			return nil, final
		}
		if until := NotBefore(err); r.Document && !until.IsZero() {
			c.deferrals.put(Deferral{URI: r.URI, NotBefore: until, Cause: Printable(err.Error())}, time.Now())
		}
		if _, unsent := errors.AsType[*HostError](err); unsent || errors.Is(err, ErrNotSent) {
			final.Tries--
			return nil, final
		}
		if !retryable(err) && NotBefore(err).IsZero() {
			return nil, final
		}
		where := u.String()
		if len(chain) > 0 {
			where = chain[len(chain)-1]
		}
		f := c.booked(where, final)
		if !r.Document && r.Post == nil {
			f.over = f.host.breaks.silent(r.URI, err) || f.over
		}
		if !retryable(err) || !at.helps(c, r, &f) {
			return nil, final
		}
		if err := c.pauseBefore(ctx, at.tries, f); err != nil {
			final.Err = err
			return nil, final
		}
	}
}

// follow sends r to u and follows redirects, to the first other answer.
func (c *Client) follow(ctx context.Context, r *Request, u *url.URL, tries int) (*Response, []string, error) {
	var chain []string
	moved, forGood := "", true
	for {
		var err error
		if u, err = c.secured(ctx, u); err != nil {
			return nil, chain, err
		}
		a, err := c.send(ctx, r, u, tries)
		if err != nil {
			return nil, chain, err
		}
		if !redirects(a.Status) {
			if err := a.accept(r); err != nil {
				a.discard()
				return nil, chain, err
			}
			a.Chain, a.Moved = chain, moved
			return &a.Response, chain, nil
		}
		to, err := next(r, u, chain, a.Status, a.Header.Get("Location"))
		a.discard()
		if err != nil {
			return nil, chain, err
		}
		noticeUpgrade(ctx, c, u, to)
		chain = append(chain, to.String())
		u = to
		forGood = forGood && (a.Status == http.StatusMovedPermanently || a.Status == http.StatusPermanentRedirect)
		if forGood {
			moved = u.String()
		}
	}
}

// enter waits until h, the host of u, is available and may get another request,
// and takes a slot.
func (c *Client) enter(ctx context.Context, h *host, u *url.URL, doc bool) (lane, error) {
	for {
		if err := h.gate.pass(ctx, func(ctx context.Context) error { return c.probe(ctx, u) }); err != nil {
			return 0, err
		}
		l, err := h.enter(ctx, doc)
		if err != nil || h.gate.isOpen() {
			return l, err
		}
		h.leave(l, doc)
	}
}

// send sends one request to u and returns its answer. tries is the number of
// attempts, including this one.
func (c *Client) send(ctx context.Context, r *Request, u *url.URL, tries int) (*answer, error) {
	h := c.hosts.get(hostOf(u))
	resource := !r.Document && r.Post == nil
	if resource {
		if err := h.breaks.pass(r.URI, false); err != nil {
			return nil, err
		}
	}
	lane, err := c.enter(ctx, h, u, r.Document)
	if err != nil {
		return nil, err
	}
	if resource {
		if err := h.breaks.pass(r.URI, true); err != nil {
			h.leave(lane, r.Document)
			return nil, err
		}
	}
	if r.Still != nil && !r.Still() {
		h.leave(lane, r.Document)
		return nil, ErrNotSent
	}
	a := &answer{client: c, host: h, ended: func() error { return context.Cause(ctx) }, uri: r.URI, lane: lane, doc: r.Document, got: time.Now()}
	if c.logged {
		a.log = requestlog.Begin(c.opts.Logger, r.method(), u.String())
	}
	if c.bandwidth.limit() > 0 {
		a.pause = func(n int) error {
			start := time.Now()
			defer func() { c.held.Add(int64(time.Since(start))) }()
			return c.bandwidth.wait(ctx, n)
		}
	}
	a.patience = c.opts.Timeout
	if tries == 1 && r.Post == nil && !r.Document {
		a.patience = min(h.slots.patience(), c.opts.Timeout)
	}
	req, ok := simpleRequest(c, h, r, u)
	if !ok {
		return a.sendGeneral(ctx, r, u, lane)
	}
	if !h.simple.record.Unusual() {
		err := a.sendSimple(ctx, &req, u)
		if err == nil {
			return a, nil
		}
		if _, unusual := errors.AsType[*http1.UnusualError](err); !unusual {
			return nil, err
		}
		c.opts.Logger.DebugContext(ctx, "send the request again with net/http", slog.String("uri", shown.Redacted(r.URI)), slog.String("why", err.Error()))
	}
	return a.sendGeneral(ctx, r, u, laneSingle)
}

// sendGeneral sends one request to u with net/http, and returns a, its answer.
func (a *answer) sendGeneral(ctx context.Context, r *Request, u *url.URL, l lane) (*answer, error) {
	a.got = time.Now()
	var own context.Context
	own, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(a.patience, a.expire)
	sent := httptrace.WithClientTrace(own, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		a.got, a.reply.Reused = time.Now(), i.Reused
	}})
	resp, err := a.client.roundTrip(sent, r, u, l)
	if err != nil {
		if cause := context.Cause(own); cause != nil {
			err = cause
		}
		return nil, a.fail(err, u)
	}
	if a.timer.Stop() && (resp.ContentLength < 0 || resp.ContentLength > smallBody) {
		a.patience = a.client.opts.Timeout // starting again costs more than waiting
	}
	a.host.simple.learn(u, resp)
	a.reply.major = resp.ProtoMajor
	a.reply.Reused = a.reply.Reused || resp.Close // then none can be reused
	a.Status, a.Header, a.Length, a.src = resp.StatusCode, resp.Header, resp.ContentLength, resp.Body
	if err := a.arrived(u); err != nil {
		return nil, err
	}
	return a, nil
}

// arrived records that the header of an answer from u has arrived.
func (a *answer) arrived(u *url.URL) error {
	if !retryStatus(a.Status) {
		a.host.gate.answered()
	}
	a.reply.Wait = time.Since(a.got)
	a.URI, a.want, a.Body = textOf(u, a.uri), a.Length, a
	if a.pause == nil {
		return nil
	}
	if err := a.pause(headerBytes(a.Header)); err != nil { // for small resources it is most of the transfer
		_ = a.Close() // err is more important
		return err
	}
	return nil
}

// headerBytes returns the approximate size of a header in a message.
func headerBytes(h http.Header) int {
	n := len("HTTP/1.1 200 OK\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// roundTrip sends r to u. The body of the answer is closed by the [answer]
// that holds it.
//
//bodyclose:handled
func (c *Client) roundTrip(ctx context.Context, r *Request, u *url.URL, l lane) (*http.Response, error) {
	req := (&http.Request{
		Method: r.method(), URL: u, Host: u.Host, Header: c.header(r, u),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if r.Post != nil {
		req.ContentLength = int64(len(r.Post))
		if req.Body = http.NoBody; len(r.Post) > 0 {
			req.Body = io.NopCloser(bytes.NewReader(r.Post))
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Post)), nil }
	}
	c.requests.Add(1)
	defer c.pool.Done()
	return c.pool.Use().of(l).RoundTrip(req)
}

// header returns the header of r for u. If r adds nothing, it is shared: the
// transport does not write to it.
func (c *Client) header(r *Request, u *url.URL) http.Header {
	h := c.plainHead
	if !r.anonymous && c.trusted(u) {
		h = c.homeHead
	}
	if r.addsNothing() {
		return h
	}
	own := make(http.Header, len(h)+len(r.Header)+3)
	for k, v := range h {
		own[k] = v
	}
	for k, v := range r.Header {
		own[http.CanonicalHeaderKey(k)] = v
	}
	if r.IfNoneMatch != "" {
		own["If-None-Match"] = []string{r.IfNoneMatch}
	}
	if r.IfModifiedSince != "" {
		own["If-Modified-Since"] = []string{r.IfModifiedSince}
	}
	if r.ranged() {
		last := ""
		if r.RangeTo > 0 {
			last = strconv.FormatInt(r.RangeTo, 10)
		}
		first := strconv.FormatInt(r.RangeFrom, 10)
		if r.RangeLast > 0 {
			first, last = "", strconv.FormatInt(r.RangeLast, 10)
		}
		own["Range"] = []string{"bytes=" + first + "-" + last}
		if r.IfRange != "" {
			own["If-Range"] = []string{r.IfRange}
		}
	} else if r.AcceptGzip {
		own["Accept-Encoding"] = []string{"gzip"}
	}
	if r.Post != nil && r.PostType != "" {
		own["Content-Type"] = []string{r.PostType}
	}
	if r.NoCache {
		own["Cache-Control"] = []string{"no-cache"}
	}
	return own
}

// addsNothing reports whether r has no header fields of its own.
func (r *Request) addsNothing() bool {
	return r.IfNoneMatch == "" && r.IfModifiedSince == "" && !r.ranged() && !r.NoCache && !r.AcceptGzip && r.Post == nil && len(r.Header) == 0
}

func (r *Request) method() string {
	if r.Post != nil {
		return http.MethodPost
	}
	return http.MethodGet
}

// ranged reports whether r requests a part.
func (r *Request) ranged() bool { return r.RangeFrom > 0 || r.RangeTo > 0 || r.RangeLast > 0 }

func (r *Request) conditional() bool { return r.IfNoneMatch != "" || r.IfModifiedSince != "" }

// accept checks that a matches r, and prepares its Body accordingly.
func (a *answer) accept(r *Request) error {
	unwanted := func(want string) error {
		return &StatusError{URI: a.URI, Status: a.Status, Want: want, Header: a.Header}
	}
	a.reply.good, a.reply.alive = a.Status < 400, !retryStatus(a.Status)
	switch a.Status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo:
	case http.StatusPartialContent:
		if !r.ranged() {
			return unwanted("but no range was asked for")
		}
		if err := a.acceptRange(r); err != nil {
			return err
		}
	case http.StatusNotModified:
		if !r.conditional() {
			return unwanted("but the request was not conditional")
		}
		a.err = io.EOF // it has no body
		if !r.Document {
			a.host.breaks.progressed()
		}
		return a.Close()
	default:
		if a.Status >= 100 && a.Status <= 299 {
			return unwanted("but content was expected")
		}
		err := a.statusError()
		if r.ErrorBody > 0 && a.Status >= 400 && (!r.AcceptGzip || a.decode() == nil) {
			err.Body, _ = io.ReadAll(io.LimitReader(a, r.ErrorBody)) // as far as available: the status is the result
		}
		return err
	}
	if r.AcceptGzip && !r.ranged() {
		if err := a.decode(); err != nil {
			return err
		}
	}
	a.max = r.MaxBytes
	if a.max > 0 && a.Length > a.max {
		return fmt.Errorf("body of %d bytes: %w of %d", a.Length, ErrTooLarge, a.max)
	}
	return nil
}

// statusError returns the error of a, whose status is that of a failure or of a redirect.
func (a *answer) statusError() *StatusError {
	now := time.Now()
	err := &StatusError{URI: a.URI, Status: a.Status, RetryAfter: retryAfter(a.Header.Get("Retry-After"), now), Header: a.Header}
	if err.RetryAfter > MaxRetryAfter && retryStatus(a.Status) {
		err.NotBefore = now.Add(err.RetryAfter)
	}
	return err
}
