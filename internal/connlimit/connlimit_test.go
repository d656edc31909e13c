package connlimit_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"lockstep/internal/connlimit"
)

func listen(t *testing.T, connections int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = connlimit.New(l, connections)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// accepting accepts connections one after the other.
func accepting(l net.Listener) <-chan net.Conn {
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	return accepted
}

// checkOpen checks whether the server has closed a connection; it waits for that
// if it should have.
func checkOpen(t *testing.T, c net.Conn, want bool) {
	t.Helper()
	patience := time.Minute
	if want {
		patience = time.Millisecond
	}
	_ = c.SetReadDeadline(time.Now().Add(patience)) // a TCPConn can
	_, err := c.Read(make([]byte, 1))
	if open := isTimeout(err); open != want {
		t.Errorf("read: %v; want open %t", err, want)
	}
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func TestConnectionThatWaitsLongestMakesRoom(t *testing.T) {
	t.Parallel()
	l := listen(t, 2)
	accepted := accepting(l)
	one := dial(t, l)
	first := <-accepted
	two := dial(t, l)
	second := <-accepted
	connlimit.Of(first).Busy()
	connlimit.Of(second).Waits(false)
	three := dial(t, l)
	third := <-accepted
	checkOpen(t, one, true)
	checkOpen(t, two, false)
	connlimit.Of(third).Busy()
	if !connlimit.Of(third).Crowded() {
		t.Error("all places are taken, and it is not crowded")
	}
	_ = second.Close() // again: its place is another's
	_ = dial(t, l)
	select {
	case <-accepted:
		t.Error("a third connection was accepted while two are being answered")
	case <-time.After(10 * time.Millisecond):
	}
	connlimit.Of(first).Waits(false)
	<-accepted
	checkOpen(t, one, false)
	checkOpen(t, three, true)
}

func TestSilentClientsDoNotHoldPlaces(t *testing.T) {
	t.Parallel()
	l := listen(t, 2)
	accepted := accepting(l)
	silent := []net.Conn{dial(t, l), dial(t, l)}
	<-accepted
	<-accepted
	_ = dial(t, l)
	<-accepted
	checkOpen(t, silent[0], false)
	checkOpen(t, silent[1], true)
}

func TestClosedConnectionMakesRoom(t *testing.T) {
	t.Parallel()
	l := listen(t, 1)
	accepted := accepting(l)
	_ = dial(t, l)
	first := <-accepted
	connlimit.Of(first).Busy()
	_ = dial(t, l)
	_ = first.Close()
	second := <-accepted
	connlimit.Of(second).Busy()
	_ = dial(t, l)
	_ = l.Close()
	if c, ok := <-accepted; ok {
		t.Errorf("accepted %v after Close", c)
	}
}

func TestManyConnectionsAreNotCounted(t *testing.T) {
	t.Parallel()
	l := listen(t, 1<<20)
	_ = dial(t, l)
	c, err := l.Accept()
	if err != nil || connlimit.Of(c) != nil || connlimit.Of(c).Crowded() {
		t.Errorf("Accept = %v, place %v", err, connlimit.Of(c))
	}
	connlimit.Of(c).Busy()
	connlimit.Of(c).Waits(true)
	_ = c.Close()
	if got := connlimit.ForFiles(40, 24); got != 8 {
		t.Errorf("ForFiles(40, 24) = %d, want 8", got)
	}
	if got := connlimit.ForFiles(10, 24); got != 2 {
		t.Errorf("ForFiles(10, 24) = %d, want 2", got)
	}
}
