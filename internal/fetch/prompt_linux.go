package fetch

import (
	"net"
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
