package hub_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// failedVerifications returns the API's list of them.
func failedVerifications(t testing.TB, h *hub.Hub) (all []hub.FailedVerification) {
	t.Helper()
	w := httptest.NewRecorder()
	h.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/verifications", nil))
	var answer struct{ Failed []hub.FailedVerification }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != 200 || err != nil {
		t.Fatalf("GET /verifications = %d %s, %v", w.Code, w.Body, err)
	}
	return answer.Failed
}

// TestFailedVerificationReason: the status shows the class or HTTP status of a
// failed verification, and nothing else that the callback sent or that its
// address contains.
func TestFailedVerificationReason(t *testing.T) {
	t.Parallel()
	const private = "this-is-private"
	reset := func(w http.ResponseWriter, text string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"404": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, private, 404) }, "status 404"},
		"302": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/"+private)
			w.WriteHeader(302)
		}, "redirects are not followed"},
		"another body": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, private) }, "did not answer with the challenge"},
		"no answer":    {func(w http.ResponseWriter, _ *http.Request) { reset(w, "") }, "closed the connection"},
		"no HTTP":      {func(w http.ResponseWriter, _ *http.Request) { reset(w, "SSH-2.0-"+private+"\r\n\r\n") }, "not valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, hubstore.NewMem(), nil)
			s.VerifyWaits()
			sub := subscribe(t, tt.answer)
			callback := sub.url + "/" + private
			wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", callback), 202)
			eventually(t, "reported", func() bool { return len(failedVerifications(t, s.Hub)) == 1 })
			f := failedVerifications(t, s.Hub)[0]
			if !strings.Contains(f.Reason, tt.want) || f.Topic != topicA || f.Mode != "subscribe" || f.Attempts != 1 || !f.Next.IsZero() || f.At.IsZero() {
				t.Errorf("reported %+v, want a reason with %q, given up", f, tt.want)
			}
			w := httptest.NewRecorder()
			s.StatusPage("/-/api/v1/hub", nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/-/hub", nil))
			if page := w.Body.String(); !strings.Contains(page, "Failed verifications") || !strings.Contains(page, tt.want) || strings.Contains(page, private) {
				t.Errorf("page:\n%s", page)
			}
			if b, _ := json.Marshal(f); strings.Contains(string(b), private) {
				t.Errorf("reported %s: what the callback sent, or its path", b)
			}
		})
	}
}

// TestFailedVerificationsBounded: the newest hundred failures are remembered,
// and one that succeeds later is removed.
func TestFailedVerificationsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	s.VerifyWaits()
	var confirms atomic.Bool
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		if confirms.Load() {
			echo(w, r)
		}
	})
	for n := range numbersTo(120) {
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", sub.url+"/"+n), 202)
	}
	eventually(t, "all failed", func() bool { return s.Stats().Unverified == 120 })
	if n := len(failedVerifications(t, s.Hub)); n != 100 {
		t.Errorf("%d failures, want the newest 100", n)
	}
	confirms.Store(true)
	s.subscribed(t, sub, topicA)
	for _, f := range failedVerifications(t, s.Hub) {
		if f.Key == hubstore.KeyOf(topicA, sub.url) {
			t.Error("a request that was confirmed is still reported")
		}
	}
}

func numbersTo(n int) map[string]bool {
	all := map[string]bool{}
	for _, s := range numbers(1, n) {
		all[s] = true
	}
	return all
}

// TestMissingTopicReported: with CheckTopics, a topic that does not exist is
// reported at once, and the subscriber is notified.
func TestMissingTopicReported(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{404: "status 404", 410: "status 410", 401: "status 401"} {
		s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.CheckTopics = true })
		topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(topic.Close)
		sub := subscribe(t, nil)
		wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topic.URL, "hub.callback", sub.url), 202)
		if q := sub.nextAsked(t); q.Get("hub.mode") != "denied" || !strings.Contains(q.Get("hub.reason"), want) {
			t.Errorf("%d: asked %v, want a denial that says %s", status, q, want)
		}
		if all := failedVerifications(t, s.Hub); len(all) != 1 || !strings.Contains(all[0].Reason, "topic could not be read: "+want) {
			t.Errorf("%d: reported %+v", status, all)
		}
	}
}

// TestRootCAs: https callbacks and topics are verified with the certificates in
// the options; without them the error says what is missing.
func TestRootCAs(t *testing.T) {
	t.Parallel()
	var challenges, deliveries atomic.Int64
	callback := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			deliveries.Add(1)
			return
		}
		challenges.Add(1)
		echo(w, r)
	}))
	callback.Config.ErrorLog = nil
	t.Cleanup(callback.Close)
	s := start(t, hubstore.NewMem(), nil)
	s.VerifyWaits()
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topicA, "hub.callback", callback.URL), 202)
	eventually(t, "reported", func() bool { return len(failedVerifications(t, s.Hub)) == 1 })
	if f := failedVerifications(t, s.Hub)[0]; !strings.Contains(f.Reason, "--ca-file") {
		t.Errorf("reason %q, want the option that helps", f.Reason)
	}

	pool := x509.NewCertPool()
	pool.AddCert(callback.Certificate())
	s = start(t, hubstore.NewMem(), func(o *hub.Options) { o.RootCAs, o.CheckTopics = pool, true })
	topic := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+s.url+`>; rel="hub"`)
		_, _ = io.WriteString(w, "content")
	}))
	topic.TLS = callback.TLS.Clone()
	topic.StartTLS()
	t.Cleanup(topic.Close)
	wantStatus(t, s.post(t, "hub.mode", "subscribe", "hub.topic", topic.URL, "hub.callback", callback.URL), 202)
	eventually(t, "subscribed", func() bool { return len(s.subscriptions(t)) == 1 })
	wantStatus(t, s.post(t, "hub.mode", "publish", "hub.topic", topic.URL), 202)
	eventually(t, "delivered", func() bool { return deliveries.Load() == 1 })
}

// TestPublicationWithoutContentType is refused, and every delivery has one.
func TestPublicationWithoutContentType(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), nil)
	self := `<` + topicA + `>; rel="self"`
	for _, typ := range []string{"", " "} {
		r := httptest.NewRequest(http.MethodPost, s.url, strings.NewReader("<a/>"))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header = http.Header{"Link": {self}, "Content-Type": {typ}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "Content-Type") {
			t.Errorf("Content-Type %q: %d %s, want 415", typ, w.Code, w.Body)
		}
	}
	if err := s.Publish(t.Context(), topicA, http.Header{}, []byte("x")); err == nil {
		t.Error("Publish without a Content-Type succeeded")
	}
	if _, ok := s.Log(topicA); ok {
		t.Error("something was accepted")
	}
	untyped := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(untyped.Close)
	sub := subscribe(t, nil)
	s.subscribed(t, sub, untyped.URL)
	s.ping(t, untyped.URL)
	if d := sub.nextTaken(t); d.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("delivered with Content-Type %q, want application/octet-stream", d.header.Get("Content-Type"))
	}
}

// A checkedStore is a Store whose Check can be made to fail.
type checkedStore struct {
	*hubstore.Mem
	err atomic.Pointer[error]
}

func (c *checkedStore) Check(context.Context) error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// TestReadiness: a hub accepts requests from the end of loading until its end, as
// long as its store works; before, it answers every request with 503.
func TestReadiness(t *testing.T) {
	t.Parallel()
	store := &checkedStore{Mem: hubstore.NewMem()}
	h, err := hub.New(store, hub.Options{PublicURL: "https://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context()); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("before Run: %v", err)
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
		for _, handler := range []http.Handler{h, h.API(), h.StatusPage("/-/api/v1/hub", nil)} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			if w.Code != 503 && w.Code != 405 || w.Code == 503 && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s before Run: %d, want 503 with Retry-After", method, w.Code)
			}
		}
	}
	s := start(t, store, nil)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("running: %v", err)
	}
	broken := net.ErrClosed
	store.err.Store(&broken)
	if err := s.Check(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the store does not work: %v", err)
	}
	store.err.Store(nil)
	s.stop()
	if err := s.Check(t.Context()); !errors.Is(err, hub.ErrNotReady) {
		t.Errorf("after Run: %v", err)
	}
}
