package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// bufferSize holds the header of a response and a small resource, which then
	// arrive with one system call. A larger header is unusual.
	bufferSize = 16 << 10
	// maxHeader caps the header of a response.
	maxHeader = 64 << 10
	// maxInterim is how many interim responses may precede the final one.
	maxInterim = 5
)

// errUnusable reports a connection that the server has closed, or on which bytes
// arrived without a request: a late or smuggled response. Nothing was sent on it.
var errUnusable = errors.New("connection is no longer usable")

// errNoResponse is what a noResponseError is compared with.
var errNoResponse = errors.New("connection ended before the response")

// A noResponseError reports a connection that ended, for whatever reason but a
// timeout, before the first byte of a response.
type noResponseError struct{ err error }

func (e *noResponseError) Error() string        { return e.err.Error() }
func (e *noResponseError) Is(target error) bool { return target == errNoResponse }

// buffers are those of the connections with a request under way.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

// A conn is one connection. One goroutine uses it at a time.
type conn struct {
	to     peer
	socket *socket
	secure *tls.Conn // on top of socket; nil: none
	in     io.Reader // socket or secure
	out    []byte
	used   bool      // for an earlier request
	mixed  bool      // several requests were under way at a time
	served int       // requests
	since  time.Time // when it was put into the Pool

	mu     sync.Mutex // guards the rest
	busy   bool       // a request is under way
	closed bool
	done   <-chan struct{} // of the context that closes it when it ends
	stop   func() bool     // ends that
	turn   int             // counts such contexts
}

// get sends r and reads the header of the response. After an error the
// connection is closed.
func (c *conn) get(ctx context.Context, p *Pool, r *Request) (*Response, error) {
	if err := c.begin(ctx); err != nil {
		c.close()
		return nil, err
	}
	resp := &Response{pool: p, conn: c, Reused: c.used, Began: r.Began, Patience: r.Patience}
	if !c.used {
		resp.Began = time.Now()
	}
	resp.buf = buffers.Get().(*bufio.Reader)
	resp.buf.Reset(c.in)
	c.socket.until(r.Began.Add(r.Patience))
	c.out = appendRequest(c.out[:0], r)
	err := c.send()
	if err == nil {
		err = resp.readHeader()
	}
	c.used = true
	if err != nil {
		resp.end(false, err)
		return nil, err
	}
	c.served++
	resp.Pipelined = c.mixed && resp.Status == http.StatusOK
	if resp.left == 0 && resp.chunks == nil {
		resp.end(true, io.EOF)
	}
	return resp, nil
}

// appendRequest appends r to b as it is sent.
func appendRequest(b []byte, r *Request) []byte {
	b = append(b, "GET "...)
	b = append(b, r.Target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Host...)
	b = append(b, "\r\n"...)
	b = append(b, r.Fields...)
	return append(b, "\r\n"...)
}

// send prepares c.out for being sent with the first read, so that the goroutine waits
// for the response at once.
func (c *conn) send() error {
	if c.secure == nil {
		c.socket.prepare(c.out, c.used)
		return nil
	}
	if c.used && c.hasMore() {
		return errUnusable
	}
	c.socket.hold()
	_, err := c.secure.Write(c.out)
	c.socket.release(c.used)
	return err
}

// hasMore reports whether the TLS connection has data that was not read, or has
// failed. It does not read from the socket.
func (c *conn) hasMore() bool {
	var one [1]byte
	c.socket.deaf = true
	n, err := c.secure.Read(one[:])
	c.socket.deaf = false
	_, deaf := err.(deafError)
	return n > 0 || !deaf
}

// begin makes the end of ctx close the connection. What it has set up for that stays
// for the next request, which usually has the same context.
func (c *conn) begin(ctx context.Context) error {
	done := ctx.Done()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errUnusable
	}
	c.busy = true
	same, stop := c.done == done, c.stop
	if !same {
		c.done, c.stop = nil, nil
		c.turn++
	}
	turn := c.turn
	c.mu.Unlock()
	if !same {
		if stop != nil {
			stop() // if it is too late, turn has changed
		}
		if done != nil {
			c.watch(ctx, turn)
		}
	}
	return context.Cause(ctx) // after busy was set: an end since then closes the connection
}

// watch makes the end of ctx close the connection, as long as turn is the same.
func (c *conn) watch(ctx context.Context, turn int) {
	c.mu.Lock()
	c.done = ctx.Done()
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.ended(turn) })
	c.mu.Lock()
	if c.turn == turn && c.done != nil {
		c.stop = stop
	}
	c.mu.Unlock()
}

// ended closes the connection because a context has ended, if a request of it
// is under way.
func (c *conn) ended(turn int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != turn {
		return
	}
	c.done, c.stop = nil, nil
	c.turn++
	if c.busy {
		c.closed = true
		_ = c.socket.Conn.Close() // nothing is lost with it
	}
}

// rest reports whether the connection, whose response was complete, can be kept.
func (c *conn) rest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	return !c.closed
}

// close closes the connection and forgets its context.
func (c *conn) close() {
	c.mu.Lock()
	stop, closed := c.stop, c.closed
	c.done, c.stop, c.busy, c.closed = nil, nil, false, true
	c.turn++
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	switch {
	case closed:
	case c.secure != nil:
		_ = c.secure.Close() // it notifies the server, if possible
	default:
		_ = c.socket.Conn.Close() // nothing is lost with it
	}
}

// interrupt closes the socket, whatever another goroutine does with it.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		_ = c.socket.Conn.Close() // nothing is lost with it
	}
}
