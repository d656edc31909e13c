// Package http1 sends GET requests over HTTP/1.1, on connections of its own: with
// few system calls and little memory for each, and no goroutine and no timer.
//
// It interprets only responses that are plain and well-formed beyond doubt. For any
// other the result is an [UnusualError]: the connection is closed, and the caller
// sends the request again with net/http, whose verdict counts. A connection is
// used again only after a complete response, and only if nothing follows it: no
// byte of one response can be taken for a part of another. Requests of which the caller
// verifies the response may be pipelined.
//
//	r, err := pool.Get(ctx, &http1.Request{Host: "example.org", Target: "/a", Began: time.Now(), Patience: time.Minute})
//	defer r.Close()
//	_, err = io.Copy(dst, r)
package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// LeastRate is the minimum number of bytes a second of a body. The caller measures it; here
// it limits the time of one [Response.Read], which may collect many pieces of a chunk.
const LeastRate = 256

// ErrTimeout reports that the server was silent for [Request.Patience].
var ErrTimeout = errors.New("the server sent nothing in time")

// An UnusualError reports a response that this package does not interpret.
type UnusualError struct{ Reason string }

func (e *UnusualError) Error() string { return "unusual response: " + e.Reason }

// A Request is a GET.
type Request struct {
	Secure   bool      // over TLS
	Host     string    // as in the Host field: with a port unless it is the default one
	Target   string    // path and query
	Fields   []byte    // further header fields, from [AppendFields]
	Began    time.Time // the header of the response is due Patience after that
	Patience time.Duration

	// Pipeline allows to send the request before the responses to others have arrived
	// on its connection, and Length is the expected length of its body, -1 if unknown.
	// The caller verifies the body: some servers confuse responses. Near means that the
	// time for a response is short, compared with the work for it.
	Pipeline bool
	Near     bool
	Length   int64
}

// A Pool sends requests and keeps connections for further ones. It is safe for
// concurrent use; set its fields before the first request. How many requests are
// under way at a time, and so how many connections are in use, is up to the caller.
type Pool struct {
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     *tls.Config
	MaxIdle int           // connections without a request; the one without for longest is closed
	Idle    time.Duration // for which a connection is kept without a request
	// Stall is how long a response may take before those behind it on the connection are
	// no longer waited for; 0 is a second.
	Stall time.Duration

	mu      sync.Mutex // guards the rest
	idle    map[peer][]*conn
	count   int         // connections in idle
	closer  *time.Timer // of those that were idle for too long; nil: there are none
	closing bool        // Close was called, and no request was sent since
	queues  map[peer]*queue
}

// A peer is what a connection leads to.
type peer struct {
	secure bool
	host   string // as in the Host field

	// verified keeps connections apart on which the caller verifies all responses: after
	// pipelined requests, a faulty server may be one response behind.
	verified bool
}

// Get sends r and returns the response once its header has arrived. The caller reads
// it to its end, or closes it. A request on a connection that was used before
// is sent again, once and on a new connection, if that one ended without a byte of
// a response: the server may have closed it just before.
func (p *Pool) Get(ctx context.Context, r *Request) (*Response, error) {
	if r.Pipeline {
		resp, err := p.getPipelined(ctx, r)
		if !errors.Is(err, errAlone) {
			return resp, err
		}
	}
	return p.getAlone(ctx, r)
}

// getAlone is Get for a request that is not pipelined.
func (p *Pool) getAlone(ctx context.Context, r *Request) (*Response, error) {
	to := peer{r.Secure, r.Host, r.Pipeline}
	for {
		c := p.take(to)
		if c == nil {
			return p.getNew(ctx, to, r)
		}
		resp, err := c.get(ctx, p, r)
		switch {
		case err == nil:
			return resp, nil
		case errors.Is(err, errUnusable):
			continue // nothing was sent
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errNoResponse):
			return p.getNew(ctx, to, r)
		}
		return nil, err
	}
}

// getNew sends r on a new connection.
func (p *Pool) getNew(ctx context.Context, to peer, r *Request) (*Response, error) {
	c, err := p.connect(ctx, to, r.Began.Add(r.Patience))
	if err != nil {
		return nil, err
	}
	resp, err := c.get(ctx, p, r)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var none *noResponseError
	if errors.As(err, &none) {
		return nil, none.err
	}
	return resp, err
}

// connect opens a connection until a time.
func (p *Pool) connect(ctx context.Context, to peer, until time.Time) (*conn, error) {
	limited, cancel := context.WithDeadlineCause(ctx, until, ErrTimeout)
	defer cancel()
	c, err := p.open(limited, to, until)
	if end, _ := limited.Deadline(); err != nil && !time.Now().Before(end) {
		<-limited.Done() // the dialer has noticed a moment before
	}
	if err != nil && limited.Err() != nil {
		return nil, context.Cause(limited)
	}
	return c, err
}

func (p *Pool) open(ctx context.Context, to peer, until time.Time) (*conn, error) {
	address, name := addressOf(to)
	raw, err := p.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{to: to, socket: newSocket(raw)}
	c.in = c.socket
	if !to.secure {
		return c, nil
	}
	config := p.TLS.Clone()
	config.ServerName, config.NextProtos = name, []string{"http/1.1"}
	c.socket.until(until)
	c.secure = tls.Client(c.socket, config)
	c.in = c.secure
	if err := c.secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // err is more important
		if c.socket.expired {
			err = ErrTimeout
		}
		return nil, err
	}
	return c, nil
}

// addressOf returns the address to connect to, and the name in the certificate.
func addressOf(to peer) (address, name string) {
	host, port, err := net.SplitHostPort(to.host)
	if err == nil && port != "" {
		return to.host, host
	}
	port = "80"
	if to.secure {
		port = "443"
	}
	host = to.host
	if n := len(host); n > 0 && host[n-1] == ':' {
		host = host[:n-1]
	}
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	return net.JoinHostPort(host, port), host
}

// take returns the connection to a peer that was used last, or nil.
func (p *Pool) take(to peer) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(to)
}

func (p *Pool) takeLocked(to peer) *conn {
	p.closing = false
	idle := p.idle[to]
	n := len(idle)
	if n == 0 {
		return nil
	}
	c := idle[n-1]
	idle[n-1] = nil
	p.idle[to] = idle[:n-1]
	p.count--
	return c
}

// put keeps a connection for further requests.
func (p *Pool) put(c *conn) {
	p.mu.Lock()
	var surplus *conn
	if q := p.queues[c.to]; q != nil && len(q.waiting) > 0 && !q.near && q.works() && !p.closing {
		q.send(c.to, c)
	} else {
		surplus = p.putLocked(c)
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.close()
	}
}

// putLocked is put. It returns a connection to be closed, or nil. The caller holds the
// lock.
func (p *Pool) putLocked(c *conn) (surplus *conn) {
	if p.closing {
		return c
	}
	c.since = time.Now()
	if p.idle == nil {
		p.idle = make(map[peer][]*conn)
	}
	p.idle[c.to] = append(p.idle[c.to], c)
	if p.count++; p.count > max(p.MaxIdle, 1) {
		surplus = p.oldest()
	}
	if p.closer == nil && p.Idle > 0 {
		p.closer = time.AfterFunc(p.Idle, p.closeOld)
	}
	return surplus
}

// oldest removes the connection that was without a request for longest, and returns
// it. The caller holds the lock.
func (p *Pool) oldest() *conn {
	var found *conn
	for to, idle := range p.idle {
		if len(idle) == 0 {
			delete(p.idle, to)
		} else if found == nil || idle[0].since.Before(found.since) {
			found = idle[0]
		}
	}
	if found != nil {
		p.drop(found.to, 1)
	}
	return found
}

// drop removes the n oldest connections to a peer. The caller holds the lock.
func (p *Pool) drop(to peer, n int) {
	idle := p.idle[to]
	rest := copy(idle, idle[n:])
	clear(idle[rest:])
	p.idle[to] = idle[:rest]
	p.count -= n
	if rest == 0 {
		delete(p.idle, to)
	}
}

// closeOld closes the connections that were without a request for too long.
func (p *Pool) closeOld() {
	now := time.Now()
	next := p.Idle
	p.mu.Lock()
	var old []*conn
	for to, idle := range p.idle {
		n := 0
		for n < len(idle) && now.Sub(idle[n].since) >= p.Idle {
			n++
		}
		if n < len(idle) {
			next = min(next, idle[n].since.Add(p.Idle).Sub(now))
		}
		old = append(old, idle[:n]...)
		p.drop(to, n)
	}
	if p.count > 0 {
		p.closer.Reset(next)
	} else {
		p.closer = nil
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Close closes the connections without a request, and the others once theirs has
// ended, until the next call of Get. The Pool can still be used.
func (p *Pool) Close() {
	p.mu.Lock()
	all := p.idle
	p.idle, p.count, p.closing = nil, 0, true
	if p.closer != nil {
		p.closer.Stop()
		p.closer = nil
	}
	p.mu.Unlock()
	for _, idle := range all {
		for _, c := range idle {
			c.close()
		}
	}
}
