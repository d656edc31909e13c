package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"lockstep/internal/fetch/http1"
)

// generalVariable names the variable of the environment that, if set, has all
// requests sent with net/http, for comparisons.
const generalVariable = "LOCKSTEP_GENERAL_CLIENT"

// simple sends the GET requests for resources, most of which are small, with less
// work than net/http. It is used where the server speaks HTTP/1.1, no proxy is
// between, and neither a range nor a content coding is requested. Where a server offers
// HTTP/2 as well, it is used if the server is near: the requests under way are few then,
// and a connection for each costs less than the work for HTTP/2.
//
// A request whose response it does not interpret is sent again with net/http, on a
// connection of its own: net/http offers a connection to other requests before it
// has looked for bytes behind the response, and these would be the next response.
type simple struct {
	plain []byte // Client.plainHead as it is sent
	home  []byte // Client.homeHead likewise
}

// OnlyGeneral makes c send all requests with net/http. It must be called before the
// first request.
func OnlyGeneral(c *Client) { c.simple = nil }

// newSimple returns what c uses for plain requests, if its headers can be sent.
func newSimple(c *Client) *simple {
	plain, ok := http1.AppendFields(nil, c.plainHead)
	home, ok2 := http1.AppendFields(nil, c.homeHead)
	if !ok || !ok2 {
		return nil
	}
	return &simple{plain: plain, home: home}
}

// simplicity records whether a host sends what http1 interprets.
type simplicity struct {
	secure atomic.Int32 // version of HTTP that the host prefers over TLS; 0: unknown
	record http1.Record
}

// usable reports whether http1 sends requests to the host over TLS; near says that the
// host is near.
func (s *simplicity) usable(near bool) bool {
	version := s.secure.Load()
	return version == 1 || version == 2 && near && !s.record.Unusual()
}

// learn records the version of HTTP of a response from u that net/http has received.
// It decides about TLS connections without another handshake.
func (s *simplicity) learn(u *url.URL, resp *http.Response) {
	if u.Scheme == "https" && s.secure.Load() != int32(resp.ProtoMajor) {
		s.secure.Store(int32(resp.ProtoMajor))
	}
}

// simpleRequest returns the request with which http1 sends r to u, if it can.
func simpleRequest(c *Client, h *host, r *Request, u *url.URL) (req http1.Request, ok bool) {
	secure := u.Scheme == "https"
	if c.simple == nil || r.Document || r.Post != nil || r.ranged() || r.AcceptGzip || secure && !h.simple.usable(h.slots.near.Load()) {
		return req, false
	}
	req = http1.Request{Secure: secure, Host: u.Host, Target: u.RequestURI(), Length: r.Expected}
	req.Near = h.slots.near.Load()
	req.Pipeline = r.Verified && r.Expected <= http1.MaxPipelined && r.addsNothing() && !r.Tentative && c.bandwidth.limit() == 0
	return req, http1.CanSend(req.Host, req.Target) && setFields(c, &req, r, u)
}

// sendSimple sends req to u with http1, and makes a its answer. After an error other
// than an [http1.UnusualError] a is finished.
func (a *answer) sendSimple(ctx context.Context, req *http1.Request, u *url.URL) error {
	req.Began, req.Patience = a.got, a.patience
	a.client.requests.Add(1)
	resp, err := a.client.pool.Use().simple.Get(ctx, req)
	a.client.pool.Done()
	version := max(int(a.host.simple.secure.Load()), 1)
	if version > 1 {
		resp, err = preferred(ctx, resp, err)
	}
	if _, unusual := errors.AsType[*http1.UnusualError](err); unusual {
		a.host.simple.record.Add(true)
		return err
	}
	if err != nil {
		if errors.Is(err, http1.ErrTimeout) {
			err = fmt.Errorf("%w for %s", ErrTimeout, a.patience)
		}
		return a.fail(err, u)
	}
	a.host.simple.record.Add(false)
	if resp.Length < 0 || resp.Length > smallBody {
		a.patience = a.client.opts.Timeout // starting again costs more than waiting
		resp.Patience = a.patience
	}
	a.got, a.reply.major, a.reply.Reused = resp.Began, version, resp.Reused || resp.Closes
	a.Status, a.Header, a.Length, a.src, a.simple = resp.Status, resp.Header, resp.Length, resp, resp
	a.Pipelined, a.reply.Shared = resp.Pipelined, resp.Shared
	return a.arrived(u)
}

// preferred returns the result of a request over HTTP/1.1 to a host that prefers HTTP/2:
// what it may not support over HTTP/1.1 is not its last word.
func preferred(ctx context.Context, resp *http1.Response, err error) (*http1.Response, error) {
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, http1.ErrTimeout):
		return nil, &http1.UnusualError{Reason: err.Error()}
	case err == nil && (resp.Status == http.StatusMisdirectedRequest || resp.Status == http.StatusUpgradeRequired || resp.Status == http.StatusHTTPVersionNotSupported):
		_ = resp.Close() // its content is not wanted
		return nil, &http1.UnusualError{Reason: fmt.Sprintf("status %d over HTTP/1.1", resp.Status)}
	}
	return resp, err
}

// NoPipelining has each request to the host of uri sent after the response to the one
// before: a body that answered a pipelined request was that of another resource.
func NoPipelining(c *Client, uri string) {
	u, err := parse(uri)
	if err != nil {
		return
	}
	c.pool.Use().simple.NoPipelining(u.Scheme == "https", u.Host)
	c.pool.Done()
}

// setFields sets the header fields of a request for r to u, and reports whether http1
// can send them.
func setFields(c *Client, req *http1.Request, r *Request, u *url.URL) (ok bool) {
	switch {
	case !r.addsNothing():
		req.Fields, ok = http1.AppendFields(nil, c.header(r, u))
		return ok
	case !r.anonymous && c.trusted(u):
		req.Fields = c.simple.home
	default:
		req.Fields = c.simple.plain
	}
	return true
}
