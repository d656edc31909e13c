// Package connlimit keeps a server within the number of files that its process
// may have open.
//
// A [Listener] holds at most so many connections at a time. Further clients wait
// in the queue of the system. When all places are taken, the connection that has
// waited longest for a request makes room; one that is being answered never does.
// The server says which is which: see [Of] and [Place].
package connlimit

import (
	"errors"
	"math"
	"net"
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
		wait := l.evict(time.Now())
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

// evict closes the connection that has waited longest for a request. If there is
// none, it returns how long it takes until there may be one.
func (l *Listener) evict(now time.Time) (wait time.Duration) {
	var oldest *Place
	wait = math.MaxInt64
	l.mu.Lock()
	for p := range l.places {
		switch {
		case p.busy:
		case p.fresh && now.Sub(p.since) < grace:
			wait = min(wait, grace-now.Sub(p.since))
		case oldest == nil || p.since.Before(oldest.since):
			oldest = p
		}
	}
	if oldest != nil {
		delete(l.places, oldest)
	}
	l.mu.Unlock()
	if oldest == nil {
		return wait
	}
	_ = oldest.conn.Close() // its client said nothing
	return 0
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
}

// Busy says that a request is being answered.
func (p *Place) Busy() {
	if p == nil {
		return
	}
	p.listener.mu.Lock()
	p.busy = true
	p.listener.mu.Unlock()
}

// Waits says that a request is being waited for, the first one of a connection if
// fresh.
func (p *Place) Waits(fresh bool) {
	if p == nil {
		return
	}
	l := p.listener
	l.mu.Lock()
	p.busy, p.fresh, p.since = false, fresh, time.Now()
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

func (c *tcpConn) Close() error {
	c.in.leave()
	return c.TCPConn.Close()
}
