package fetch

import (
	"io"
	"net"
	"syscall"
	"testing"
)

// After any number of requests, the next answer is acknowledged at once.
func TestPrompt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // until the other side has closed
			_ = c.Close()
		}
	}()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, ok := prompt(dialled).(*promptConn)
	if !ok {
		t.Fatal("prompt did nothing")
	}
	defer c.Close()
	for n := range 20 {
		if _, err := c.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		quick := 0
		err := c.raw.Control(func(fd uintptr) {
			quick, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		if err != nil || quick != 1 {
			t.Fatalf("after request %d: quick = %d, %v", n, quick, err)
		}
		if _, err := io.ReadFull(c, make([]byte, len("request"))); err != nil {
			t.Fatal(err)
		}
	}
}
