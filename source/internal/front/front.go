// Package front answers plain GETs of small representations on the connection
// itself, in front of an HTTP server.
//
// Mirrors make such requests in large numbers, and what costs most in serving
// small files is not their bytes but the generality of an HTTP server. The
// front repeats answers that the handler has given before, while the state of
// what they were made from is the same. It passes every other connection, with
// the bytes already read, to the server, and does not take it back.
package front

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"lockstep/internal/connlimit"
)

// Limits are what a connection grants its client.
type Limits struct {
	Header time.Duration // to send a request's header
	Idle   time.Duration // between requests
	Write  time.Duration // to take Chunk bytes
	Chunk  int
}

// A Response is one that the front has sent: 200, with a body.
type Response struct {
	Remote  net.Addr
	Request []byte // request line and header, as they were sent; valid during the call
	Path    string // as it was sent
	Bytes   int    // of the body
	Took    time.Duration
	Err     error // why it was not sent whole
}

// A listener is a net.Listener of the connections that it passes to the server.
type listener struct {
	net.Listener
	limits  Limits
	answers *answers
	observe func(*Response) // may be nil

	handed chan net.Conn
	closed chan struct{}
	failed chan error // errors of the listener below

	mu    sync.Mutex // guards conns and gone
	conns map[*conn]bool
	gone  bool
	busy  sync.WaitGroup // connections, and accept
}

// drain is how long a connection may take to finish an answer once the front is
// closed.
const drain = 2 * time.Second

// headerBuffer is the largest header of a request that the front answers.
const headerBuffer = 4 << 10

// Listen returns a listener for an HTTP server of h. It answers plain requests
// by itself and passes all other connections of l to the server. Closing it
// closes l.
//
// state returns a string that identifies the state of what is at a path, as it
// was sent, among all states that it was or will be in; "" if the front is not
// to answer for that path.
//
// observe, if not nil, is called after each answer, by many goroutines.
func Listen(l net.Listener, h http.Handler, state func(path string) string, limits Limits, observe func(*Response)) net.Listener {
	f := &listener{
		Listener: l, limits: limits, observe: observe, answers: newAnswers(h, state),
		handed: make(chan net.Conn), closed: make(chan struct{}), failed: make(chan error, 1),
		conns: make(map[*conn]bool),
	}
	f.busy.Go(f.accept)
	return f
}

// Accept returns the next connection that the server has to serve.
func (f *listener) Accept() (net.Conn, error) {
	select {
	case c := <-f.handed:
		return c, nil
	case err := <-f.failed:
		return nil, err
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close stops accepting and closes connections that wait for a request;
// answers that are being sent get a moment to finish.
func (f *listener) Close() error {
	f.mu.Lock()
	if f.gone {
		f.mu.Unlock()
		return net.ErrClosed
	}
	f.gone = true
	close(f.closed)
	err := f.Listener.Close()
	for c := range f.conns {
		c.wake()
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.busy.Wait()
		close(done)
	}()
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-done:
		return err
	case <-timer.C:
	}
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Conn.Close() // its time is over
	}
	f.mu.Unlock()
	<-done
	return err
}

// accept takes connections until the listener is closed. Other errors are
// passed to the server, which waits and calls Accept again.
func (f *listener) accept() {
	for {
		below, err := f.Listener.Accept()
		if err != nil {
			select {
			case f.failed <- err:
			case <-f.closed:
				return
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		c := &conn{Conn: below, front: f, place: connlimit.Of(below)}
		if !f.track(c) {
			_ = below.Close() // the front is closed
			return
		}
		f.busy.Go(c.serve)
	}
}

func (f *listener) track(c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return false
	}
	f.conns[c] = true
	return true
}

// A conn is a connection on which the front answers.
type conn struct {
	net.Conn
	front *listener
	place *connlimit.Place // nil: connections are not limited

	used    bool      // a request has been answered
	readBy  time.Time // the deadlines that are set
	writeBy time.Time
}

// readers are the buffers of connections, returned as soon as they are empty.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, headerBuffer) }}

// serve answers requests until one is for the server, or the connection ends.
func (c *conn) serve() {
	r := readers.Get().(*bufio.Reader)
	r.Reset(c.Conn)
	handed := false
	defer func() {
		c.front.mu.Lock()
		delete(c.front.conns, c)
		c.front.mu.Unlock()
		if !handed {
			_ = c.Conn.Close() // an error would change nothing
			r.Reset(nil)
			readers.Put(r)
		}
	}()
	out := make([]byte, 0, 512)
	var request []byte // for observe
	for {
		n, err := c.readHeader(r)
		if err != nil {
			return
		}
		text, _ := r.Peek(max(n, r.Buffered())) // it is buffered
		req, ok := parseRequest(text[:max(n, 0)])
		var a *answer
		if ok && !c.place.Crowded() { // otherwise the server closes the connection after its answer
			a = c.front.answers.find(&req)
		}
		if a == nil {
			handed = c.hand(r)
			return
		}
		now := time.Now()
		if c.front.observe != nil {
			request = append(request[:0], text[:n]...)
		}
		_, _ = r.Discard(n) // it is buffered
		c.used = true
		c.place.Busy()
		out = a.appendHeader(out[:0], now)
		err = c.send(out, a.body)
		if c.front.observe != nil {
			c.front.observe(&Response{c.RemoteAddr(), request, req.path, len(a.body), time.Since(now), err})
		}
		if err != nil || c.ended() {
			return
		}
		c.place.Waits(false)
	}
}

// readHeader waits for the header of a request and returns its length; 0 if
// something else arrives, or a header that does not fit the buffer.
func (c *conn) readHeader(r *bufio.Reader) (int, error) {
	if r.Buffered() == 0 {
		wait := c.front.limits.Header // a client that connects has a request
		if c.used {
			wait = c.front.limits.Idle
		}
		c.expect(wait)
		if _, err := r.Peek(1); err != nil {
			return 0, err
		}
	}
	if n := headerEnd(peeked(r)); n > 0 {
		return n, nil
	}
	// The rest of the header shares one deadline, which is not extended.
	c.readBy = time.Now().Add(c.front.limits.Header)
	_ = c.Conn.SetReadDeadline(c.readBy) // a closed connection fails when it is read
	for {
		have := r.Buffered()
		if have == headerBuffer || !plausible(peeked(r)) {
			return 0, nil
		}
		if _, err := r.Peek(have + 1); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, nil // an incomplete request: the server answers with the error
			}
			return 0, err
		}
		if n := headerEnd(peeked(r)); n > 0 {
			return n, nil
		}
	}
}

func peeked(r *bufio.Reader) []byte {
	text, _ := r.Peek(r.Buffered()) // it is buffered
	return text
}

// tolerance is how far a deadline may be off before it is set again: most
// requests take less.
const tolerance = time.Second

// expect sets the read deadline to about d from now.
func (c *conn) expect(d time.Duration) {
	by := time.Now().Add(d)
	if diff := by.Sub(c.readBy); diff < tolerance && diff > -tolerance {
		return
	}
	c.readBy = by
	_ = c.Conn.SetReadDeadline(by) // a closed connection fails when it is read
	if c.ended() {
		c.wake() // Close was called before the deadline was set
	}
}

// wake ends a read that waits.
func (c *conn) wake() { _ = c.Conn.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) ended() bool {
	select {
	case <-c.front.closed:
		return true
	default:
		return false
	}
}

// send writes an answer in pieces, each with a deadline of its own.
func (c *conn) send(header, body []byte) error {
	limits := c.front.limits
	for {
		if now := time.Now(); c.writeBy.Sub(now) < limits.Write-tolerance {
			c.writeBy = now.Add(limits.Write)
			_ = c.Conn.SetWriteDeadline(c.writeBy) // a closed connection fails when it is written
		}
		n := min(len(body), limits.Chunk)
		pieces := net.Buffers{header, body[:n]}
		c.place.Sending()
		_, err := pieces.WriteTo(c.Conn)
		c.place.Moved()
		if err != nil {
			return err
		}
		if header, body = nil, body[n:]; len(body) == 0 {
			return nil
		}
	}
}

// hand passes the connection to the server, with the bytes already read.
func (c *conn) hand(r *bufio.Reader) bool {
	_ = c.Conn.SetDeadline(time.Time{}) // the server sets its own
	c.place.Waits(true)
	var given net.Conn = &handedConn{Conn: c.Conn, rest: r}
	if tcp, ok := c.Conn.(tcpConn); ok {
		given = &handedTCP{tcpConn: tcp, rest: r}
	}
	select {
	case c.front.handed <- given:
		return true
	case <-c.front.closed:
		return false
	}
}

// A handedConn reads what the front has already read, then the connection.
type handedConn struct {
	net.Conn
	rest *bufio.Reader // nil once it is empty
}

func (c *handedConn) Read(p []byte) (int, error) { return readRest(c.Conn, &c.rest, p) }

// NetConn returns the connection below.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// A tcpConn is a [net.TCPConn], or one that is counted by connlimit.
type tcpConn interface {
	net.Conn
	io.ReaderFrom
	CloseWrite() error
}

// A handedTCP is a handedConn that can send files without copying them.
type handedTCP struct {
	tcpConn
	rest *bufio.Reader
}

func (c *handedTCP) Read(p []byte) (int, error) { return readRest(c.tcpConn, &c.rest, p) }

// NetConn returns the connection below.
func (c *handedTCP) NetConn() net.Conn { return c.tcpConn }

// WriteTo starts with the bytes that Read returns first.
func (c *handedTCP) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

// readRest reads from rest until it is empty, then from conn. An empty rest is
// returned to the pool.
func readRest(conn net.Conn, rest **bufio.Reader, p []byte) (int, error) {
	r := *rest
	if r == nil {
		return conn.Read(p)
	}
	if r.Buffered() > 0 {
		return r.Read(p[:min(len(p), r.Buffered())])
	}
	*rest = nil
	r.Reset(nil)
	readers.Put(r)
	return conn.Read(p)
}
