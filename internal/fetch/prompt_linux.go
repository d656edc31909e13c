package fetch

import (
	"net"
	"sync/atomic"
	"syscall"
)

// A promptConn acknowledges the first segment of an answer at once. Some servers
// send the header of an answer separately and hold back the body until the
// header is acknowledged; a kernel that delays acknowledgements does so for 40
// ms, which limits sequential requests to 25 a second.
type promptConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

// prompt wraps a dialled connection in a promptConn, if possible.
func prompt(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}
	return &promptConn{t, raw}
}

// Write implements [net.Conn]. The kernel resets the option after a while, so
// Write sets it with every request.
func (c *promptConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	_ = c.raw.Control(func(fd uintptr) { // only slower if it fails
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
	return n, err
}

// A sparingConn acknowledges answers at once only after the first one that came in
// several pieces. Other answers are acknowledged along with the next request, which
// spares both sides a packet for each.
type sparingConn struct {
	*promptConn
	reads  atomic.Int32 // that returned bytes, since the last request
	pieces atomic.Bool  // an answer came in several
}

// promptIfNeeded wraps a dialled connection in a sparingConn, if possible.
func promptIfNeeded(c net.Conn) net.Conn {
	p, ok := prompt(c).(*promptConn)
	if !ok {
		return c
	}
	return &sparingConn{promptConn: p}
}

// Read implements [net.Conn].
func (c *sparingConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 && c.reads.Add(1) > 1 {
		c.pieces.Store(true)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *sparingConn) Write(b []byte) (int, error) {
	c.reads.Store(0)
	if c.pieces.Load() {
		return c.promptConn.Write(b)
	}
	return c.TCPConn.Write(b)
}
