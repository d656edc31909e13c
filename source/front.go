package source

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

// A front stands before an HTTP server. It answers the requests that mirrors
// make in large numbers, plain GETs of small representations, on the connection
// itself, from answers the handler has given before; every other connection it
// hands to the server behind, with what was read of it, for good. What costs
// most in serving small files is not their bytes but the generality of an HTTP
// server.
//
// It is a net.Listener of the connections it hands over.
type front struct {
	net.Listener
	answers *answers

	handed chan net.Conn
	closed chan struct{}
	failed chan error // of the listener below, once

	mu    sync.Mutex // guards what follows
	conns map[*frontConn]bool
	gone  bool
	busy  sync.WaitGroup // of the connections and the accepting
}

// frontDrain is how long connections may go on with an answer when the front is
// closed.
const frontDrain = 2 * time.Second

// frontBuffer is how long a request's header may be to be answered by us.
const frontBuffer = 4 << 10

// Front returns a listener for an HTTP server of h, a [Source.Handler], that
// answers plain requests for what h serves by itself, several times as fast.
// Closing it closes l.
func (s *Source) Front(l net.Listener, h http.Handler) net.Listener {
	f := &front{
		Listener: l, answers: newAnswers(s, h),
		handed: make(chan net.Conn), closed: make(chan struct{}), failed: make(chan error, 1),
		conns: make(map[*frontConn]bool),
	}
	f.busy.Go(f.accept)
	return f
}

// Accept returns the next connection that is the server's to serve.
func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.handed:
		return c, nil
	case err := <-f.failed:
		return nil, err
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close ends accepting, and connections that wait for a request; those that
// are being answered have a moment to finish.
func (f *front) Close() error {
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
	timer := time.NewTimer(frontDrain)
	defer timer.Stop()
	select {
	case <-done:
		return err
	case <-timer.C:
	}
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Conn.Close() // it had its time
	}
	f.mu.Unlock()
	<-done
	return err
}

// accept takes connections until the listener fails for good. Passing failures
// are the server's to judge: it waits and asks again.
func (f *front) accept() {
	for {
		conn, err := f.Listener.Accept()
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
		c := &frontConn{Conn: conn, front: f, place: connlimit.Of(conn)}
		if !f.track(c) {
			_ = conn.Close() // we are closed
			return
		}
		f.busy.Go(c.serve)
	}
}

func (f *front) track(c *frontConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return false
	}
	f.conns[c] = true
	return true
}

// A frontConn is a connection the front answers on.
type frontConn struct {
	net.Conn
	front *front
	place *connlimit.Place // nil: connections are not limited

	asked   bool      // a request has been answered
	readBy  time.Time // deadlines that are set
	writeBy time.Time
}

// buffers of connections, which hold them only while something is to be read.
var frontReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, frontBuffer) }}

// serve answers requests until one is not for us, or the connection ends.
func (c *frontConn) serve() {
	r := frontReaders.Get().(*bufio.Reader)
	r.Reset(c.Conn)
	handed := false
	defer func() {
		c.front.mu.Lock()
		delete(c.front.conns, c)
		c.front.mu.Unlock()
		if !handed {
			_ = c.Conn.Close() // nothing more is to come of it
			r.Reset(nil)
			frontReaders.Put(r)
		}
	}()
	out := make([]byte, 0, 512)
	for {
		n, err := c.request(r)
		if err != nil {
			return
		}
		text, _ := r.Peek(max(n, r.Buffered())) // it is there
		ask, ok := parseAsk(text[:max(n, 0)])
		var a *answer
		if ok && !c.place.Crowded() { // else the server closes the connection when it has answered
			a = c.front.answers.find(&ask)
		}
		if a == nil {
			handed = c.hand(r)
			return
		}
		_, _ = r.Discard(n) // it is there
		c.asked = true
		c.place.Busy()
		out = a.appendHeader(out[:0], time.Now())
		if err := c.send(out, a.body); err != nil || c.ended() {
			return
		}
		c.place.Waits(false)
	}
}

// request waits for the header of a request and returns its length; 0 if there
// is something else, or more than we look at.
func (c *frontConn) request(r *bufio.Reader) (int, error) {
	if r.Buffered() == 0 {
		wait := headerTimeout // who connects has something to ask
		if c.asked {
			wait = idleTimeout
		}
		c.expect(wait)
		if _, err := r.Peek(1); err != nil {
			return 0, err
		}
	}
	if n := headerEnd(peeked(r)); n > 0 {
		return n, nil
	}
	// Its rest has its time, which is not granted anew.
	c.readBy = time.Now().Add(headerTimeout)
	_ = c.Conn.SetReadDeadline(c.readBy) // a closed connection tells when it is read
	for {
		have := r.Buffered()
		if have == frontBuffer || !plausible(peeked(r)) {
			return 0, nil
		}
		if _, err := r.Peek(have + 1); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, nil // half a request: the server says what is wrong with it
			}
			return 0, err
		}
		if n := headerEnd(peeked(r)); n > 0 {
			return n, nil
		}
	}
}

func peeked(r *bufio.Reader) []byte {
	text, _ := r.Peek(r.Buffered()) // it is there
	return text
}

// enough is for how long a deadline need not be moved: most requests are over
// in less.
const enough = time.Second

// expect sees to it that there are about d to read in.
func (c *frontConn) expect(d time.Duration) {
	by := time.Now().Add(d)
	if diff := by.Sub(c.readBy); diff < enough && diff > -enough {
		return
	}
	c.readBy = by
	_ = c.Conn.SetReadDeadline(by) // a closed connection tells when it is read
	if c.ended() {
		c.wake() // we were told before the deadline was moved
	}
}

// wake ends a reading that waits.
func (c *frontConn) wake() { _ = c.Conn.SetReadDeadline(time.Unix(1, 0)) }

func (c *frontConn) ended() bool {
	select {
	case <-c.front.closed:
		return true
	default:
		return false
	}
}

// send writes an answer, in as few pieces as the patience with slow readers
// allows.
func (c *frontConn) send(header, body []byte) error {
	for {
		if now := time.Now(); c.writeBy.Sub(now) < writeTimeout-enough {
			c.writeBy = now.Add(writeTimeout)
			_ = c.Conn.SetWriteDeadline(c.writeBy) // a closed connection tells when it is written
		}
		n := min(len(body), writeChunk)
		pieces := net.Buffers{header, body[:n]}
		if _, err := pieces.WriteTo(c.Conn); err != nil {
			return err
		}
		if header, body = nil, body[n:]; len(body) == 0 {
			return nil
		}
	}
}

// hand gives the connection to the server, with what was read of it.
func (c *frontConn) hand(r *bufio.Reader) bool {
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

// A handedConn reads what the front has read already, then the connection.
type handedConn struct {
	net.Conn
	rest *bufio.Reader // nil when it has been read
}

func (c *handedConn) Read(p []byte) (int, error) { return readRest(c.Conn, &c.rest, p) }

// NetConn returns the connection below.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// A tcpConn is a [net.TCPConn], or one whose place is counted.
type tcpConn interface {
	net.Conn
	io.ReaderFrom
	CloseWrite() error
}

// A handedTCP is the same, and can send files without copying them.
type handedTCP struct {
	tcpConn
	rest *bufio.Reader
}

func (c *handedTCP) Read(p []byte) (int, error) { return readRest(c.tcpConn, &c.rest, p) }

// NetConn returns the connection below.
func (c *handedTCP) NetConn() net.Conn { return c.tcpConn }

// WriteTo does not pass by what Read gives first.
func (c *handedTCP) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

// readRest reads from rest what it holds, and then from conn. Once empty, rest
// is given back.
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
	frontReaders.Put(r)
	return conn.Read(p)
}
