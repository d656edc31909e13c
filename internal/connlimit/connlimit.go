// Package connlimit keeps a server within the number of files that its process
// may have open.
//
// A [Listener] holds at most so many connections at a time. Further clients wait
// in the queue of the system. When all places are taken, the connection that has
// waited longest for a request makes room. One that is being answered does so only
// if its client reads or sends less than [MinRate], so that clients that do not read
// cannot keep others out. The server says which is which: see [Of] and [Place].
package connlimit

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// many is how many connections count as no limit: then nothing is counted.
	many = 1 << 14

	// grace is how long a new connection may stay silent while others wait for its
	// place. What arrives with the connection is there at once.
	grace = 500 * time.Millisecond

	// slowTime is how long a client is watched before its rate is judged.
	slowTime = 2 * time.Second

	// MinRate is how many bytes a second a client has to read or send to keep its
	// place while others wait for one.
	MinRate = 32 << 10

	// Piece is how many bytes are written, or read of a body, between two calls of
	// [Place.Moved] at most: what takes longer than slowTime is below MinRate.
	Piece = MinRate * int(slowTime/time.Second)
)

// ForFiles returns how many connections a server may hold where files may be open,
// of which the process needs own for itself: half of the others, as each connection
// may need a file to be answered from.
func ForFiles(files, own int) int { return max((files-own)/2, 2) }

// A Listener holds a limited number of connections.
type Listener struct {
	net.Listener
	most    int
	changed chan struct{} // capacity 1: a connection was closed, or waits for a request
	closed  chan struct{}
	once    sync.Once

	mu      sync.Mutex // guards what follows, and the state of places
	places  map[*Place]bool
	waiting bool // an accepted connection waits for a place
}

// New returns l limited to so many connections; l itself if that is no limit.
func New(l net.Listener, connections int) net.Listener {
	if connections >= many {
		return l
	}
	return &Listener{Listener: l, most: max(connections, 1), changed: make(chan struct{}, 1), closed: make(chan struct{}), places: make(map[*Place]bool)}
}

// Accept returns the next connection once there is a place for it.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.evict(time.Now())
		}
		return nil, err
	}
	p := &Place{listener: l, conn: c, fresh: true, since: time.Now()}
	if !l.enter(p) {
		_ = c.Close() // the Listener is closed
		return nil, net.ErrClosed
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &tcpConn{tcp, p}, nil
	}
	return &conn{c, p}, nil
}

// Close closes the listener below. Connections stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// enter waits for a place, and reports whether there was one before l was closed.
func (l *Listener) enter(p *Place) bool {
	for {
		l.mu.Lock()
		if len(l.places) < l.most {
			l.places[p], l.waiting = true, false
			l.mu.Unlock()
			return true
		}
		l.waiting = true
		l.mu.Unlock()
		wait := min(l.evict(time.Now()), slowTime) // others may become slow
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.changed:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// evict closes the connection that has waited longest for a request, or else the
// one whose slow client has kept an answer waiting for longest. If there is none, it
// returns how long it takes until there may be one.
func (l *Listener) evict(now time.Time) (wait time.Duration) {
	var oldest, slowest *Place
	wait = math.MaxInt64
	l.mu.Lock()
	for p := range l.places {
		switch {
		case p.busy && p.stalled.IsZero():
		case p.busy:
			if left := p.patience(now); left > 0 {
				wait = min(wait, left)
			} else if slowest == nil || p.stalled.Before(slowest.stalled) {
				slowest = p
			}
		case p.fresh && now.Sub(p.since) < grace:
			wait = min(wait, grace-now.Sub(p.since))
		case oldest == nil || p.since.Before(oldest.since):
			oldest = p
		}
	}
	if oldest == nil {
		oldest = slowest
	}
	if oldest != nil {
		delete(l.places, oldest)
	}
	l.mu.Unlock()
	if oldest == nil {
		return wait
	}
	if tcp, ok := oldest.conn.(*net.TCPConn); ok && oldest == slowest {
		_ = tcp.SetLinger(0) // the system need not keep what the client does not read
	}
	_ = oldest.conn.Close() // its client said nothing, or does not listen
	return 0
}

// patience returns how long the client of a connection that is being answered may
// still stall; 0 if it has been too slow. l.mu is held.
func (p *Place) patience(now time.Time) time.Duration {
	if !p.watched.Before(p.stalled) && !p.watched.IsZero() {
		// Seen before in the same wait. The system may take a piece only when it has
		// room for much more: what the client has received counts.
		since := now.Sub(p.watched)
		if since < slowTime {
			return slowTime - since
		}
		if have, ok := received(p.conn); ok && p.known && have-p.had >= int64(since.Seconds()*MinRate) {
			p.watched, p.had = now, have
			return slowTime
		}
		return 0
	}
	p.watched = now
	p.had, p.known = 0, false
	if !p.sends {
		p.watched = p.stalled
	} else if p.had, p.known = received(p.conn); !p.known {
		p.watched = p.stalled
	}
	return max(slowTime-now.Sub(p.watched), 0)
}

func (l *Listener) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// A Place is that of a connection. Its methods may be called on nil, for a
// connection that is not limited.
type Place struct {
	listener *Listener
	conn     net.Conn

	// Guarded by listener.mu.
	busy  bool      // it is being answered
	fresh bool      // it has sent no request yet
	since time.Time // when it began to wait for a request

	// While it is being answered:
	stalled time.Time // since when its client has been waited for; zero: it is not
	ending  bool      // the answer is complete, but for what the client has not read or sent
	sends   bool      // the client is to read, not to send
	watched time.Time // since when the client is watched, as others wait
	had     int64     // bytes it had received then
	known   bool      // had is known
}

// Busy says that a request is being answered.
func (p *Place) Busy() {
	if p == nil {
		return
	}
	p.listener.mu.Lock()
	p.busy, p.ending, p.stalled = true, false, time.Time{}
	p.listener.mu.Unlock()
}

// Sending says that the next piece of an answer is being written.
func (p *Place) Sending() { p.stall(0, true) }

// Receiving says that the next piece of a request's body is being read; the client
// has been waited for before, while the same piece was read.
func (p *Place) Receiving(before time.Duration) { p.stall(before, false) }

func (p *Place) stall(before time.Duration, sends bool) {
	if p == nil {
		return
	}
	now := time.Now()
	p.listener.mu.Lock()
	p.stalled, p.sends, p.watched = now.Add(-before), sends, time.Time{}
	p.listener.mu.Unlock()
}

// Moved says that the client has read or sent the piece.
func (p *Place) Moved() {
	if p == nil {
		return
	}
	p.listener.mu.Lock()
	p.stalled = time.Time{}
	if p.ending {
		p.stalled, p.sends, p.watched = time.Now(), false, time.Time{}
	}
	p.listener.mu.Unlock()
}

// Ending says that the answer is complete: from now on only the client is waited
// for, to read the rest of the answer or to send the rest of its request.
func (p *Place) Ending() {
	if p == nil {
		return
	}
	p.listener.mu.Lock()
	p.ending = true
	p.listener.mu.Unlock()
	p.Moved()
}

// Waits says that a request is being waited for, the first one of a connection if
// fresh.
func (p *Place) Waits(fresh bool) {
	if p == nil {
		return
	}
	l := p.listener
	l.mu.Lock()
	p.busy, p.ending, p.fresh, p.since, p.stalled = false, false, fresh, time.Now(), time.Time{}
	waiting := l.waiting
	l.mu.Unlock()
	if waiting {
		l.signal()
	}
}

// Crowded reports whether places are scarce: then a connection should be closed
// when its request is answered.
func (p *Place) Crowded() bool {
	if p == nil {
		return false
	}
	l := p.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting || len(l.places) > l.most*3/4
}

func (p *Place) leave() {
	l := p.listener
	l.mu.Lock()
	delete(l.places, p)
	waiting := l.waiting
	l.mu.Unlock()
	if waiting {
		l.signal()
	}
}

// Of returns the place of a connection that a Listener accepted, or of one that
// wraps it and has a NetConn method; else nil.
func Of(c net.Conn) *Place {
	for c != nil {
		if in, ok := c.(interface{ place() *Place }); ok {
			return in.place()
		}
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = wrapper.NetConn()
	}
	return nil
}

type conn struct {
	net.Conn
	in *Place
}

func (c *conn) place() *Place { return c.in }

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.in.Sending()
	defer c.in.Moved()
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.in.leave()
	return c.Conn.Close()
}

// A tcpConn can, beside that, send files without copying them.
type tcpConn struct {
	*net.TCPConn
	in *Place
}

func (c *tcpConn) place() *Place { return c.in }

// Write implements [net.Conn].
func (c *tcpConn) Write(b []byte) (int, error) {
	c.in.Sending()
	defer c.in.Moved()
	return c.TCPConn.Write(b)
}

// ReadFrom implements [io.ReaderFrom]. Only a file is sent by the system: of any
// other source, the client is not to blame for how long it takes to read.
func (c *tcpConn) ReadFrom(r io.Reader) (int64, error) {
	from := r
	if part, ok := r.(*io.LimitedReader); ok {
		from = part.R
	}
	if _, ok := from.(*os.File); !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	c.in.Sending()
	defer c.in.Moved()
	return c.TCPConn.ReadFrom(r)
}

func (c *tcpConn) Close() error {
	c.in.leave()
	return c.TCPConn.Close()
}
