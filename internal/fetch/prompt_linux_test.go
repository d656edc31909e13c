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
	dialled := dialEcho(t)
	c, ok := prompt(dialled).(*promptConn)
	if !ok {
		t.Fatal("prompt did nothing")
	}
	defer c.Close()
	acknowledgesAtOnce(t, c, c)
}

// Answers are acknowledged at once as soon as one came in pieces, and not before.
func TestPromptIfNeeded(t *testing.T) {
	t.Parallel()
	c, ok := promptIfNeeded(dialEcho(t)).(*sparingConn)
	if !ok {
		t.Fatal("promptIfNeeded did nothing")
	}
	defer c.Close()
	const request = "request"
	for range 5 {
		if _, err := c.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 100)); err != nil || n != len(request) {
			t.Fatalf("Read = %d, %v", n, err)
		}
		if c.pieces.Load() {
			t.Fatal("an answer in one piece counts as one in several")
		}
	}
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, len(request) - 3} {
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	acknowledgesAtOnce(t, c, c.promptConn)
}

// dialEcho connects to a server that sends back what it gets.
func dialEcho(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing depends on it
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // until the other side has closed
			_ = c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// acknowledgesAtOnce makes requests on c, whose option p reads.
func acknowledgesAtOnce(t *testing.T, c net.Conn, p *promptConn) {
	t.Helper()
	for n := range 20 {
		if _, err := c.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		quick := 0
		var err error
		err2 := p.raw.Control(func(fd uintptr) {
			quick, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		if err != nil || err2 != nil || quick != 1 {
			t.Fatalf("after request %d: quick = %d, %v, %v", n, quick, err, err2)
		}
		if _, err := io.ReadFull(c, make([]byte, len("request"))); err != nil {
			t.Fatal(err)
		}
	}
}
