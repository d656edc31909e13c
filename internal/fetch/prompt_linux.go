package fetch

import (
	"net"
	"syscall"
)

// A promptConn acknowledges the first segment of an answer at once. There are
// servers that send the head of an answer by itself and hold its body back until
// the head is acknowledged; a kernel that saves acknowledgements does so after
// 40 ms, so that one request after the other is 25 in a second.
type promptConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

// prompt makes what was dialled a promptConn, where it can be one.
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

// Write implements [net.Conn]. The kernel forgets what it is told here after a
// while, so it is told with every request.
func (c *promptConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	_ = c.raw.Control(func(fd uintptr) { // without it all is well, but slower
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
	return n, err
}
