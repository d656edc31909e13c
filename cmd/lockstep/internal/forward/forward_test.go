package forward_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/forward"
)

// newPublisher returns a process that publishes as target says, and answers with what it sees.
func newPublisher(t *testing.T, target *forward.Target, secure bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := forward.Accept(w, r, target)
		if sent == nil {
			return
		}
		if r.URL.Path == "/stuck" {
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(sent.Body)
		_, _ = fmt.Fprintf(w, "%s %s%s from %s by %s, header %q, body %s", sent.Method, sent.Host, sent.RequestURI, sent.RemoteAddr, sent.Header.Get("X-Forwarded-For"), sent.Header["Lockstep-Forwarded"], body)
	}))
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

func newRequest(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "http://data.example.org"+path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("X-Forwarded-For", "198.51.100.9")
	return r
}

// TestForward: the publisher sees a request as its client sent it, over TLS, too; one of another
// term, or with a code that is wrong, is refused.
func TestForward(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		own := forward.NewTarget("", secure, "term")
		srv := newPublisher(t, own, secure)
		own.Address = srv.Listener.Addr().String()
		roots := x509.NewCertPool()
		if secure {
			roots.AddCert(srv.Certificate())
		}
		f := forward.New("example.com", &tls.Config{RootCAs: roots}, slog.New(slog.DiscardHandler)) // the name in the certificate
		t.Cleanup(f.Close)
		send := func(to forward.Target) (int, string) {
			w := httptest.NewRecorder()
			f.Forward(w, newRequest("/a%2Fb?c=d%20e", "text"), &to, make(chan struct{}))
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			return w.Code, w.Body.String()
		}
		const want = `PUT data.example.org/a%2Fb?c=d%20e from 192.0.2.7:1234 by 198.51.100.9, header [], body text`
		if code, text := send(*own); code != http.StatusOK || text != want {
			t.Errorf("TLS %t: answered with %d %s\nwant %s", secure, code, text, want)
		}
		other := *own
		other.Term = "another term"
		if code, _ := send(other); code != http.StatusServiceUnavailable {
			t.Errorf("a request for another term is answered with %d", code)
		}
		other = *own
		other.Key = "another key"
		if code, _ := send(other); code != http.StatusForbidden {
			t.Errorf("a request with another key is answered with %d", code)
		}
		other = *own
		other.Address = "127.0.0.1:1"
		if code, _ := send(other); code != http.StatusServiceUnavailable {
			t.Errorf("a request to where nothing is is answered with %d", code)
		}
	}
}

// TestEnd: what is being forwarded when the term ends is answered at once.
func TestEnd(t *testing.T) {
	t.Parallel()
	own := forward.NewTarget("", false, "term")
	own.Address = newPublisher(t, own, false).Listener.Addr().String()
	f := forward.New("example.com", &tls.Config{}, slog.New(slog.DiscardHandler))
	t.Cleanup(f.Close)
	ended := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(ended) })
	w := httptest.NewRecorder()
	f.Forward(w, newRequest("/stuck", ""), own, ended)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("answered with %d", w.Code)
	}
}

// TestNotForwarded: a process passes on what clients send, and refuses what is marked as
// forwarded if it does not publish.
func TestNotForwarded(t *testing.T) {
	t.Parallel()
	r := newRequest("/", "")
	if sent := forward.Accept(httptest.NewRecorder(), r, nil); sent != r {
		t.Error("a request of a client is changed")
	}
	r.Header.Set("Lockstep-Forwarded", "term 192.0.2.1:1 code")
	w := httptest.NewRecorder()
	if sent := forward.Accept(w, r, nil); sent != nil || w.Code != http.StatusServiceUnavailable {
		t.Errorf("a standby takes a forwarded request, or answers with %d", w.Code)
	}
}
