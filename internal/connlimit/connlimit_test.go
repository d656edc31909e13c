package connlimit_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
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

// A pipeListener accepts the ends of pipes: no time passes in a synctest bubble while
// one waits for them.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *pipeListener) Close() error { return nil }

// dial returns the end of a client, and that of the server as it is accepted.
func (l *pipeListener) dial(accepted <-chan net.Conn) (client, server net.Conn) {
	client, end := net.Pipe()
	l.conns <- end
	return client, <-accepted
}

// TestSlowReadersDoNotHoldPlaces: a client that does not read, or reads less than the
// minimum rate, gives up its place to one that waits; one that reads faster, one for
// which the server is still at work, and slow ones while places are free, keep theirs.
func TestSlowReadersDoNotHoldPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := &pipeListener{conns: make(chan net.Conn)}
		l := connlimit.New(pipes, 3)
		accepted := accepting(l)
		// write sends pieces until it fails, and returns how long that took.
		write := func(c net.Conn) <-chan time.Duration {
			connlimit.Of(c).Busy()
			start, took := time.Now(), make(chan time.Duration, 1)
			go func() {
				for {
					if _, err := c.Write(make([]byte, connlimit.Piece)); err != nil {
						took <- time.Since(start)
						return
					}
				}
			}()
			return took
		}
		// read takes so many bytes a second.
		read := func(c net.Conn, rate int) {
			for {
				if _, err := io.ReadFull(c, make([]byte, rate/10)); err != nil {
					return
				}
				time.Sleep(time.Second / 10)
			}
		}
		slow, slowEnd := pipes.dial(accepted)
		fast, fastEnd := pipes.dial(accepted)
		_, working := pipes.dial(accepted)
		var readers sync.WaitGroup
		readers.Go(func() { read(slow, connlimit.MinRate*3/4) })
		readers.Go(func() { read(fast, connlimit.MinRate*3/2) })
		slowTook, fastTook := write(slowEnd), write(fastEnd)
		connlimit.Of(working).Busy()
		time.Sleep(time.Minute)
		select {
		case <-slowTook:
			t.Fatal("a slow client was closed while no other waited")
		default:
		}
		begin := time.Now()
		_, next := pipes.dial(accepted)
		if waited := time.Since(begin); waited > 5*time.Second {
			t.Errorf("the next client waited for %v", waited)
		}
		<-slowTook

		// The place is the next client's, which reads nothing.
		nextTook := write(next)
		_, last := pipes.dial(accepted)
		if took := <-nextTook; took > 5*time.Second {
			t.Errorf("a client that reads nothing kept its place for %v", took)
		}
		connlimit.Of(last).Waits(false)
		select {
		case <-fastTook:
			t.Error("a client that reads was closed")
		default:
		}
		_ = working.SetReadDeadline(time.Now()) // a pipe can
		if _, err := working.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("a client that was waiting for the server was closed: %v", err)
		}
		_, _ = fast.Close(), fastEnd.Close()
		_, _ = slow.Close(), working.Close()
		readers.Wait()
		close(pipes.conns)
		_ = last.Close()
	})
}

// TestSlowSendersDoNotHoldPlaces: of a body, too, the minimum rate has to come.
func TestSlowSendersDoNotHoldPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := &pipeListener{conns: make(chan net.Conn)}
		accepted := accepting(connlimit.New(pipes, 1))
		_, slow := pipes.dial(accepted)
		p := connlimit.Of(slow)
		p.Busy()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for waited := time.Duration(0); waited < time.Minute; waited += time.Second {
				p.Receiving(waited) // a byte a second
				time.Sleep(time.Second)
				p.Moved()
			}
		}()
		start := time.Now()
		_, next := pipes.dial(accepted)
		if waited := time.Since(start); waited > 10*time.Second {
			t.Errorf("the next client waited for %v", waited)
		}
		<-done
		_ = next.Close()
		close(pipes.conns)
	})
}
