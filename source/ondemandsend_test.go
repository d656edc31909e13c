package source_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

// TestOnDemandClientsThatDoNotRead: clients that send no request body, and
// clients that ask for packages and never read them, hold no place that one that
// reads could have.
func TestOnDemandClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{OnDemand: &source.OnDemand{AtOnce: 1}}, source.Set{})
	large := make([]byte, 8<<20) // more than the system holds for a connection
	for i := range large {
		large[i] = byte(rand.IntN(256))
	}
	d.put("large="+string(large), "small=1")
	s := d.source()
	d.publish(s)
	server := httptest.NewUnstartedServer(nil)
	server.Config = source.NewServer(s.Handler())
	server.Start()
	t.Cleanup(server.Close)
	dial := func(request string) {
		t.Helper()
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
	}
	uri := baseURL + "large"
	post := fmt.Sprintf("POST /resourcesync/main/dump HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(uri))
	for range 6 {
		dial(post) // and no body
	}
	for range 12 {
		dial(post + uri) // and nobody reads
	}
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := server.Client().Post(server.URL+"/resourcesync/main/dump", "text/plain", strings.NewReader(uri))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			if err != nil || n < int64(len(large)) {
				t.Errorf("%d bytes, %v, want the package", n, err)
			}
			break
		}
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || time.Now().After(deadline) {
			t.Fatalf("%s, want a package, or to be asked again", resp.Status)
		}
	}
}
