package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// A socket is a connection below TLS. It sends a request with the first read after
// it, and it sets a read deadline rarely: an earlier one that was left from another
// request is moved when it has expired.
type socket struct {
	net.Conn
	raw   syscall.RawConn // nil: Conn has none, as in tests
	limit time.Time       // when reading fails
	pause time.Duration   // after which reading fails: each read moves limit; 0: none does
	began time.Time       // when the first of these reads began; zero: there was none
	got   int             // bytes that they have read

	deadline time.Time // that Conn has
	held     []byte    // storage of a request over TLS
	holding  bool      // Write adds to held
	pending  []byte    // to be sent with the next read
	check    bool      // nothing may have arrived before that
	deaf     bool      // Read fails with a deafError
	reads    int       // since a request was sent
	expired  bool      // reading failed at limit

	// One call of transfer.
	p       []byte
	n       int
	err     error
	blocked bool                  // pending did not fit into the socket's buffer
	step    func(fd uintptr) bool // transfer, allocated once
}

// A deafError is the result of reading from a socket that is deaf. As it is
// temporary, a tls.Conn does not remember it.
type deafError struct{}

func (deafError) Error() string   { return "not reading now" }
func (deafError) Timeout() bool   { return true }
func (deafError) Temporary() bool { return true }

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	s.step = s.transfer
	if sc, ok := c.(syscall.Conn); ok && Supported {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// prepare has b sent with the next Read. With check, that fails with errUnusable, and
// sends nothing, if anything has arrived before, or the server has closed the
// connection. b must not change until then.
func (s *socket) prepare(b []byte, check bool) {
	s.pending, s.check, s.reads, s.expired = b, check, 0, false
}

// hold makes Write prepare what is written; release ends that.
func (s *socket) hold() { s.holding, s.held = true, s.held[:0] }

func (s *socket) release(check bool) {
	s.holding = false
	s.prepare(s.held, check)
}

// Write implements [net.Conn].
func (s *socket) Write(b []byte) (int, error) {
	if s.holding {
		s.held = append(s.held, b...)
		return len(b), nil
	}
	return s.Conn.Write(b)
}

// until makes reading fail at a time.
func (s *socket) until(t time.Time) { s.limit, s.pause = t, 0 }

// untilPause makes reading fail after a pause of that length. As what reads a body may
// collect many pieces before it returns, reading also fails if these are so small that they
// arrive at less than LeastRate.
func (s *socket) untilPause(d time.Duration) { s.pause, s.began, s.got = d, time.Time{}, 0 }

// moveLimit sets limit for the next read.
func (s *socket) moveLimit() {
	now := time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	s.limit = now.Add(s.pause)
	if most := s.began.Add(s.pause + time.Duration(s.got)*(time.Second/LeastRate)); most.Before(s.limit) {
		s.limit = most
	}
}

// Read implements [net.Conn].
func (s *socket) Read(p []byte) (int, error) {
	if s.deaf {
		return 0, deafError{}
	}
	if s.pause > 0 {
		s.moveLimit()
	}
	if s.deadline.IsZero() || s.deadline.After(s.limit) {
		if err := s.setDeadline(); err != nil {
			return 0, err
		}
	}
	for {
		n, err := s.readOnce(p)
		s.reads++
		s.got += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !time.Now().Before(s.limit) {
			s.expired = true
			return n, err
		}
		if err := s.setDeadline(); err != nil {
			return n, err
		}
	}
}

func (s *socket) setDeadline() error {
	s.deadline = s.limit
	return s.Conn.SetReadDeadline(s.limit)
}

func (s *socket) readOnce(p []byte) (int, error) {
	if s.raw == nil {
		return s.readAfterRest(p)
	}
	s.p, s.n, s.err, s.blocked = p, 0, nil, false
	err := s.raw.Read(s.step)
	s.p = nil
	switch {
	case err != nil:
		return 0, err
	case s.blocked:
		return s.readAfterRest(p)
	case errors.Is(s.err, errUnusable):
		return 0, s.err
	case s.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: s.err}
	case s.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// readAfterRest reads after it has sent what is pending, without a check.
func (s *socket) readAfterRest(p []byte) (int, error) {
	if b := s.pending; len(b) > 0 {
		s.pending = nil
		if err := s.Conn.SetWriteDeadline(s.limit); err != nil {
			return 0, err
		}
		if _, err := s.Conn.Write(b); err != nil {
			return 0, err
		}
	}
	return s.Conn.Read(p)
}

// transfer sends what is pending, or reads into s.p. It reports false if it has to be
// called again when bytes have arrived. The runtime calls it.
func (s *socket) transfer(fd uintptr) bool {
	if len(s.pending) > 0 {
		if s.check && !quiet(fd) {
			s.err = errUnusable
			return true
		}
		s.check = false
		n, err := write(fd, s.pending)
		if err != nil {
			s.err = os.NewSyscallError("write", err)
			return true
		}
		s.pending = s.pending[n:]
		s.blocked = len(s.pending) > 0
		return s.blocked // otherwise wait: a response takes a while
	}
	if s.reads == 1 {
		acknowledge(fd)
	}
	n, again, err := read(fd, s.p)
	if again {
		return false
	}
	if err != nil {
		s.err = os.NewSyscallError("read", err)
	}
	s.n = n
	return true
}
