package fetch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/internal/fetch"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http logs unsolicited responses there
	goleak.VerifyTestMain(m)
}

// A wire is a server at the other end of a pipe that sends exactly what a test
// requests, so that a bubble of testing/synctest can contain both ends.
type wire struct {
	net.Conn
	requests *bufio.Reader
}

// request reads one request.
func (w *wire) request() *http.Request {
	r, err := http.ReadRequest(w.requests)
	if err != nil {
		return nil
	}
	return r
}

func (w *wire) say(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// drip sends text a byte at a time, until the connection is closed.
func (w *wire) drip(text string, pause time.Duration) {
	for i := range len(text) {
		time.Sleep(pause)
		if _, err := w.Write([]byte{text[i]}); err != nil {
			return
		}
	}
}

// answer sends a complete answer with a body.
func (w *wire) answer(status int, header, body string) {
	w.say("HTTP/1.1 %d x\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), header, body)
}

const source = "http://source.example"

// wired returns a Client whose requests are passed to on, one call for each,
// numbered from 1. The connection is closed when on returns.
func wired(t testing.TB, o fetch.Options, on func(w *wire, r *http.Request, n int)) *fetch.Client {
	t.Helper()
	if o.Home == nil {
		o.Home = &url.URL{Scheme: "http", Host: "source.example"}
	}
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	n := make(chan int, 1)
	n <- 0
	var ends sync.WaitGroup
	c.SetDial(func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		ends.Go(func() {
			defer far.Close()
			w := &wire{far, bufio.NewReader(far)}
			if r := w.request(); r != nil {
				i := <-n + 1
				n <- i
				on(w, r, i)
			}
		})
		return near, nil
	})
	t.Cleanup(func() {
		c.Close()
		ends.Wait()
	})
	return c
}

// get gets path and reads the body.
func get(ctx context.Context, c *fetch.Client, r fetch.Request) (string, error) {
	if !strings.Contains(r.URI, "://") {
		r.URI = source + r.URI
	}
	resp, err := c.Get(ctx, r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func newWire(far net.Conn) *wire { return &wire{far, bufio.NewReader(far)} }
