package postgres

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDialer: a connection to a server that has vanished is broken after 15 s, whether a request
// waits to be acknowledged or an answer is awaited.
func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dialer(time.Minute).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		get := func(option int) int {
			n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
			if err != nil {
				t.Error(err)
			}
			return n
		}
		if ms := get(unix.TCP_USER_TIMEOUT); ms != 15_000 {
			t.Errorf("a request is repeated for %d ms", ms)
		}
		if s := get(unix.TCP_KEEPIDLE) + get(unix.TCP_KEEPINTVL)*get(unix.TCP_KEEPCNT); s != 15 {
			t.Errorf("an answer is awaited for %d s", s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
