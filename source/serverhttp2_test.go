package source_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/internal/connlimit"
	"lockstep/source"
)

// TestHTTP2KeepsPlace: of two requests on one connection the answer to one is complete. The
// connection does not make room for another client while the other is being answered.
func TestHTTP2KeepsPlace(t *testing.T) {
	t.Parallel()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(borrowed.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = connlimit.New(l, 1)
	release, entered := make(chan struct{}), make(chan struct{})
	srv := source.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(entered)
			<-release
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	config := borrowed.TLS.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	go func() { _ = srv.Serve(tls.NewListener(l, config)) }() // until it is closed
	t.Cleanup(func() { _ = srv.Close() })

	get := func(c *http.Client, path string) (string, error) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+l.Addr().String()+path, nil)
		if err != nil {
			return "", err
		}
		resp, err := c.Do(r)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	client := func() *http.Client {
		tr := borrowed.Client().Transport.(*http.Transport).Clone()
		tr.ForceAttemptHTTP2 = true
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	first, long := client(), make(chan error, 1)
	go func() {
		_, err := get(first, "/long")
		long <- err
	}()
	<-entered
	if text, err := get(first, "/short"); err != nil || text != "HTTP/2.0" {
		t.Fatalf("%q, %v", text, err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := get(client(), "/short")
		second <- err
	}()
	select { // 2 s is how long a client that does not read is watched
	case err := <-long:
		t.Fatalf("the connection made room: %v", err)
	case err := <-second:
		t.Fatalf("another client was served meanwhile: %v", err)
	case <-time.After(3 * time.Second):
	}
	close(release)
	if err := <-long; err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
