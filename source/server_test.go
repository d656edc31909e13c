package source_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/source"
)

// A pipeListener accepts connections in memory, whose time synctest rules.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// inTime runs f against a server for h, in a time that passes when all wait.
func inTime(t *testing.T, h http.Handler, f func(t *testing.T, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		server := source.NewServer(h)
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l) // ends with done
		}()
		f(t, l)
		close(l.done)
		<-served
		_ = server.Close() // ends what the test left open
	})
}

const body = 1 << 20

var large = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", body)))
})

func TestServerEndsSilence(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"nothing sent":            "",
		"half a header":           "GET / HTTP/1.1\r\nHost: x\r\nX-A: ",
		"a body that never comes": "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"nothing after a request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"an answer nobody reads":  "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("/large", large)
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			inTime(t, mux, func(t *testing.T, l *pipeListener) {
				c := l.dial()
				defer c.Close()
				start := time.Now()
				_, _ = io.WriteString(c, sent)
				if strings.Contains(sent, "large") {
					time.Sleep(time.Minute)
				}
				n, err := io.Copy(io.Discard, c)
				if took := time.Since(start); err != nil || took > 3*time.Minute || n > 100_000 {
					t.Errorf("connection ended after %s, %d bytes, %v", took, n, err)
				}
			})
		})
	}
}

// Each byte takes a while, all of it much longer than any timeout.
func TestServerIsPatientWithSlowReaders(t *testing.T) {
	t.Parallel()
	inTime(t, large, func(t *testing.T, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		start := time.Now()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 4096), nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		var got int
		for {
			n, err := resp.Body.Read(buf)
			got += n
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes and %s: %v", got, time.Since(start), err)
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(start); got != body || took < 2*time.Minute {
			t.Errorf("read %d bytes in %s, want %d", got, took, body)
		}
	})
}

// 150 connections that send a header byte by byte and 200 that say nothing.
func TestOthersAreServedDuringSlowloris(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": "hello"})
	server := source.NewServer(s.src.Handler())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer server.Close()
	for i := range 350 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i < 150 {
			go func() {
				for _, b := range []byte("GET /a.txt HTTP/1.1\r\nHost: x\r\nX-Slow: " + strings.Repeat("x", 1000)) {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
	}
	for range 20 {
		start := time.Now()
		resp, got, err := exchange(ln.Addr().String(), "GET", "/a.txt")
		if err != nil || resp.StatusCode != 200 || got != "hello" || time.Since(start) > 30*time.Second {
			t.Fatalf("others: %v, %q after %s", err, got, time.Since(start))
		}
	}
}

func TestServerRefusesHugeHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, nil)
	server := source.NewServer(s.src.Handler())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer server.Close()
	resp, _, err := exchange(ln.Addr().String(), "GET", "/", "X-Huge: "+strings.Repeat("x", 70<<10))
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("huge header = %v, %v", resp, err)
	}
}
