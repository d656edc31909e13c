package websub_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/websub"
)

// raw sends a request head and part of a body, and returns the status and
// whether the server closed the connection.
func raw(t *testing.T, address, head, body string) (status int, closed bool) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/xml\r\n%s\r\n%s", u.RequestURI(), u.Host, head, body)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer before the body was sent: %v", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_, err = r.ReadByte()
	var timeout net.Error
	return resp.StatusCode, err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// Unknown callbacks are answered before anything is read, retired ones with
// 410, and a body beyond the limit while it is read (WS-SEC-06, WS-C-07).
func TestAnswersBeforeReading(t *testing.T) {
	t.Parallel()
	b, h, callback, form := subscribed(t, func(o *websub.SubscriberOptions) { o.MaxBody = 1000 })
	const never = "Content-Length: 1000000\r\n"
	if status, closed := raw(t, callback+"x", never, ""); status != 404 || !closed {
		t.Errorf("unknown: status %d, closed %v", status, closed)
	}
	if status, closed := raw(t, callback+"x", "Content-Length: 1000\r\n", "x"); status != 404 || !closed {
		t.Errorf("unknown, small: status %d, closed %v", status, closed)
	}
	if status, closed := raw(t, callback, never, ""); status != 413 || !closed {
		t.Errorf("announced as too large: status %d, closed %v", status, closed)
	}
	chunk := "3e8\r\n" + strings.Repeat("x", 1000) + "\r\n"
	if status, closed := raw(t, callback, "Transfer-Encoding: chunked\r\n", chunk+chunk); status != 413 || !closed {
		t.Errorf("found too large: status %d, closed %v", status, closed)
	}
	body := strings.Repeat("x", 1000)
	if status := h.deliver(callback, body, signed(t, "sha256", form.Get("hub.secret"), body)...); status != 202 {
		t.Errorf("as large as may be: status %d", status)
	}
	h.set(func() { h.silent = true })
	if err := b.Drop(context.Background(), "set"); err != nil {
		t.Fatal(err)
	}
	if status, closed := raw(t, callback, never, ""); status != 410 || !closed {
		t.Errorf("retired: status %d, closed %v", status, closed)
	}
	if n := len(b.told(websub.Unknown)); n != 2 {
		t.Errorf("%d events of unknown callbacks", n)
	}
}

func TestMethodsAndCodings(t *testing.T) {
	t.Parallel()
	b, h, callback, form := subscribed(t, nil)
	for _, method := range []string{"HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		req, err := http.NewRequest(method, callback, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, POST" {
			t.Errorf("%s: status %d, Allow %q", method, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
	sig := signed(t, "sha256", form.Get("hub.secret"), "x")
	if status := h.deliver(callback, "x", append(sig, "Content-Encoding", "gzip")...); status != 415 {
		t.Errorf("compressed: status %d", status)
	}
	if status := h.deliver(callback, "", signed(t, "sha256", form.Get("hub.secret"), "")...); status != 202 {
		t.Errorf("empty: status %d", status)
	}
	if n := len(b.delivered()); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// A delivery that cannot be stored is not acknowledged; a stored one is not
// delivered again, since a hub may have missed the answer (WS-C-06).
func TestKeptBeforeAcknowledged(t *testing.T) {
	t.Parallel()
	b, h, callback, form := subscribed(t, nil)
	send := func(body, id string) int {
		fields := signed(t, "sha256", form.Get("hub.secret"), body)
		if id != "" {
			fields = append(fields, "Hub-Delivery-Id", id)
		}
		return h.deliver(callback, body, fields...)
	}
	b.mu.Lock()
	b.kept = errFull
	b.mu.Unlock()
	if status := send("a", "1"); status != 503 {
		t.Errorf("not kept: status %d", status)
	}
	b.mu.Lock()
	b.kept = nil
	b.mu.Unlock()
	for i, m := range [][2]string{{"a", "1"}, {"a", "1"}, {"a", "2"}, {"b", ""}, {"b", ""}, {"c", "2"}} {
		if status := send(m[0], m[1]); status != 202 {
			t.Errorf("message %d: status %d", i, status)
		}
	}
	if got := fmt.Sprint(b.delivered()); got != "[a a b b c]" {
		t.Errorf("delivered %s", got)
	}
	for i := range 200 { // the remembered messages are bounded
		send(fmt.Sprint(i), fmt.Sprint("id", i))
	}
	send("a", "1")
	if n := len(b.delivered()); n != 206 {
		t.Errorf("%d deliveries", n)
	}
}

// Signatures made with sha1 are accepted with a warning, unless they are
// refused (WS-X-08); a delivery without Link is accepted (WS-OLD-04); a
// signature that does not match the secret is invalid, whatever its method.
func TestSHA1(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		b, h, callback, form := subscribed(t, func(o *websub.SubscriberOptions) { o.RefuseSHA1 = refuse })
		for _, body := range []string{"a", "b"} {
			req, err := http.NewRequest(http.MethodPost, callback, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			f := signed(t, "sha1", form.Get("hub.secret"), body)
			req.Header.Set(f[0], f[1])
			resp, err := h.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 202 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
		want := map[bool][3]int{false: {2, 1, 0}, true: {0, 0, 2}}[refuse]
		if got := [3]int{len(b.delivered()), len(b.told(websub.Weak)), len(b.told(websub.Forged))}; got != want {
			t.Errorf("refused %v: deliveries, warnings, forged = %v, want %v", refuse, got, want)
		}
	}
}

// Without a secret a signature means nothing (WS-X-10); with NoPlainSecret no
// secret is sent without TLS (WS-S-04).
func TestNoSecret(t *testing.T) {
	t.Parallel()
	b, h, callback, form := subscribed(t, func(o *websub.SubscriberOptions) { o.NoPlainSecret = true })
	if form.Has("hub.secret") {
		t.Error("the secret was sent in the clear")
	}
	for _, fields := range [][]string{nil, {"X-Hub-Signature", "sha256=00"}} {
		if status := h.deliver(callback, "x", fields...); status != 202 {
			t.Errorf("status %d", status)
		}
	}
	if len(b.delivered()) != 2 || len(b.told(websub.Forged)) != 0 {
		t.Errorf("delivered %q, events %+v", b.delivered(), b.events)
	}
}

// Hubs older than the Recommendation: they verify in the same call and answer
// 204, state no lease, and require hub.verify (WS-OLD-02, WS-OLD-03, WS-OLD-05,
// WS-S-07); any other 2xx means the same (WS-S-10).
func TestOldHub(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204} {
		h := newHub(t).listen()
		h.set(func() {
			h.answer = func(w http.ResponseWriter, form url.Values) bool {
				if v := form["hub.verify"]; len(v) != 2 {
					http.Error(w, "hub.verify", 400)
					return true
				}
				q := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {form.Get("hub.topic")}, "hub.challenge": {"c"}, "hub.verify_token": {"x"}}
				if code, _, body := h.get(websub.VerificationURL(form.Get("hub.callback"), q)); code != 200 || body != "c" {
					t.Errorf("verification: %d, %q", code, body)
				}
				w.WriteHeader(status)
				return true
			}
		})
		b := newBed(t, func(o *websub.SubscriberOptions) { o.OldHubs = true })
		b.want("http://h/t", h.url)
		e := b.wait(websub.Verified)
		if d := time.Until(e.Expires); d < 23*time.Hour || d > 24*time.Hour {
			t.Errorf("lease of %v", d)
		}
	}
}

// Every hub and Wish gets its own unguessable callback and secret (WS-S-05);
// the request conforms to the Recommendation (WS-S-01, WS-S-02).
func TestCallbacksAreUnguessable(t *testing.T) {
	t.Parallel()
	h := newHub(t).listen()
	b := newBed(t, nil)
	const n = 100
	for i := range n {
		if err := b.Want(context.Background(), websub.Wish{ID: fmt.Sprint(i), Topic: "http://h/t", Hubs: []string{h.url}}); err != nil {
			t.Fatal(err)
		}
	}
	b.waitFor(websub.Verified, n)
	seen := map[string]bool{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.requests {
		u, err := url.Parse(r.Get("hub.callback"))
		if err != nil {
			t.Fatal(err)
		}
		name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
		if len(name) < 32 || seen[name] || seen[r.Get("hub.secret")] {
			t.Errorf("callback %s, secret of %d", u, len(r.Get("hub.secret")))
		}
		seen[name], seen[r.Get("hub.secret")] = true, true
		if r.Get("hub.mode") != "subscribe" || r.Get("hub.topic") != "http://h/t" || len(r) != 4 || r.Has("hub.lease_seconds") ||
			h.bodies[i] != "POST /hub application/x-www-form-urlencoded" {
			t.Errorf("request %v, %s", r, h.bodies[i])
		}
	}
}

// TLS on both sides (WS-SEC-01): a secret is always sent (WS-S-04).
func TestOverTLS(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	var callback, secret string
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	h.url, h.client = srv.URL, srv.Client()
	h.answer = func(w http.ResponseWriter, form url.Values) bool {
		callback, secret = form.Get("hub.callback"), form.Get("hub.secret")
		h.verify(callback, "subscribe", form.Get("hub.topic"), "60")
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	b := &bed{t: t, keep: &keeper{}}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.front.ServeHTTP(w, r) }))
	t.Cleanup(front.Close) // it uses the hub's certificate
	o := b.options()
	o.Callback, o.Client, o.NoPlainSecret = front.URL+"/cb", srv.Client(), true
	b.start(o)
	b.want("https://h/t", srv.URL)
	b.wait(websub.Verified)
	if status := h.deliver(callback, "x", signed(t, "sha512", secret, "x")...); status != 202 || len(b.delivered()) != 1 || secret == "" {
		t.Errorf("status %d, delivered %q", status, b.delivered())
	}
}

// Logs, errors and events contain no secret, challenge or callback, though the
// hub repeats them all (WS-SEC-07).
func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	h := newHub(t).listen()
	b := newBed(t, func(o *websub.SubscriberOptions) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	repeat := func(w http.ResponseWriter, form url.Values) bool {
		http.Error(w, "refused: "+form.Encode()+" "+form.Get("hub.callback"), 400)
		return true
	}
	b.want("http://h/t", h.url)
	b.wait(websub.Verified)
	until(t, "subscription", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.subs) == 1 })
	callback, form := h.sub()
	h.set(func() { h.answer = repeat })
	h.deliver(callback, "forged", "X-Hub-Signature", "sha256=00")
	h.deliver(callback, "unsigned")
	h.deliver(callback+"x", "unknown")
	h.verify(callback, "subscribe", "http://h/t", "1") // renewed at once
	b.wait(websub.Refused)
	h.get(websub.VerificationURL(callback, url.Values{"hub.mode": {"denied"}, "hub.topic": {"http://h/t"}, "hub.reason": {callback + form.Get("hub.secret")}}))
	b.wait(websub.Denied)
	b.stop()
	b.mu.Lock()
	text := log.String() + fmt.Sprintf("%+v %+v", b.events, b.Subscriptions())
	b.mu.Unlock()
	name := callback[strings.LastIndexByte(callback, '/')+1:]
	for what, s := range map[string]string{"callback": name, "secret": form.Get("hub.secret"), "challenge": "challenge-of"} {
		if strings.Contains(text, s) {
			t.Errorf("%s in log or events:\n%s", what, text)
		}
	}
	if !strings.Contains(log.String(), "refused") || !strings.Contains(log.String(), "forged") {
		t.Errorf("log:\n%s", log.String())
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Invalid requests leave nothing behind: no memory, no writes. Not in parallel:
// other tests would use memory meanwhile.
func TestJunkKeepsNothing(t *testing.T) {
	k := &keeper{}
	s, err := websub.NewSubscriber(websub.SubscriberOptions{Callback: "http://sub/cb", State: k, Deliver: func(context.Context, websub.Delivery) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	front := s.Handler()
	junk := func(n int) {
		w := nowhere{}
		for i := range n {
			clear(w)
			r := &http.Request{Method: []string{"GET", "POST", "PUT"}[i%3], URL: &url.URL{Path: fmt.Sprintf("/cb/%d", i), RawQuery: "hub.mode=subscribe"}, Header: http.Header{}, ContentLength: 1 << 40, Body: nil}
			front.ServeHTTP(w, r)
		}
	}
	junk(1000)
	before := heap()
	junk(200_000) // a million give the same result
	if after := heap(); after > before+1<<20 {
		t.Errorf("memory grew by %d bytes", after-before)
	}
	if k.saves != 0 || len(s.Subscriptions()) != 0 {
		t.Errorf("%d documents saved", k.saves)
	}
}

// nowhere is a ResponseWriter that discards everything.
type nowhere http.Header

func (w nowhere) Header() http.Header         { return http.Header(w) }
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) WriteHeader(int)             {}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Invalid options and Wishes are refused with an explanation.
func TestNewSubscriber(t *testing.T) {
	t.Parallel()
	deliver := func(context.Context, websub.Delivery) error { return nil }
	good := websub.SubscriberOptions{Callback: "http://sub/cb", State: &keeper{}, Deliver: deliver}
	for name, change := range map[string]func(*websub.SubscriberOptions){
		"no callback":        func(o *websub.SubscriberOptions) { o.Callback = "" },
		"callback not a URL": func(o *websub.SubscriberOptions) { o.Callback = "sub:8080" },
		"a password":         func(o *websub.SubscriberOptions) { o.Callback = "http://u:p@sub/" },
		"no state":           func(o *websub.SubscriberOptions) { o.State = nil },
		"no deliver":         func(o *websub.SubscriberOptions) { o.Deliver = nil },
		"negative lease":     func(o *websub.SubscriberOptions) { o.Lease = -1 },
	} {
		o := good
		change(&o)
		if _, err := websub.NewSubscriber(o); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := websub.NewSubscriber(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []websub.Wish{{Topic: "t", Hubs: []string{"http://h/"}}, {Topic: "http://h/"}, {Topic: "http://h/", Hubs: []string{"h"}}} {
		if err := s.Want(context.Background(), w); err == nil {
			t.Errorf("Want(%+v): no error", w)
		}
	}
}

// A damaged state is a clear error for all methods that need it.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{"{": "read state of subscriptions", `{"version": 2}`: "version 2", `{"version":1,"wishes":null,"subscriptions":null}`: "damaged"} {
		o := websub.SubscriberOptions{Callback: "http://sub/cb", State: &keeper{doc: []byte(doc)}, Deliver: func(context.Context, websub.Delivery) error { return nil }}
		s, err := websub.NewSubscriber(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v, want %s", err, want)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/cb/x", nil))
		if w.Code != 503 {
			t.Errorf("status %d", w.Code)
		}
	}
	odd := `{"version":1,"wishes":{"a":null,"b":{"ID":"b"},"c":{"ID":"x","Hubs":["h"]}},"subscriptions":{"n":null,"m":{"name":"x"}}}`
	o := websub.SubscriberOptions{Callback: "http://sub/cb", State: &keeper{doc: []byte(odd)}, Deliver: func(context.Context, websub.Delivery) error { return nil }}
	s, err := websub.NewSubscriber(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err != nil || len(s.Subscriptions()) != 0 {
		t.Errorf("Run: %v, %+v", err, s.Subscriptions())
	}
}

// Everything at once: verification, denial, deliveries, Wishes that are added
// and dropped. In the end all Wishes are fulfilled.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t).listen()
	h.set(func() { h.lease = "1" })
	b := newBed(t, func(o *websub.SubscriberOptions) { o.NewSecrets, o.FreshCallback = true, 3 })
	var all sync.WaitGroup
	stop := time.Now().Add(1500 * time.Millisecond)
	for i := range 4 {
		all.Go(func() {
			id := fmt.Sprint(i % 3)
			for n := 0; time.Now().Before(stop); n++ {
				if err := b.Want(context.Background(), websub.Wish{ID: id, Topic: "http://h/" + id, Hubs: []string{h.url}}); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
				if n%5 == 4 && i%2 == 0 {
					if err := b.Drop(context.Background(), id); err != nil {
						t.Error(err)
					}
				}
				_ = b.Subscriptions()
			}
		})
		all.Go(func() {
			for n := 0; time.Now().Before(stop); n++ {
				h.mu.Lock()
				for callback, form := range h.subs {
					h.mu.Unlock()
					body := fmt.Sprint(i, n)
					h.deliver(callback, body, signed(t, "sha256", form.Get("hub.secret"), body)...)
					h.mu.Lock()
					break
				}
				h.mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	for i := range 3 {
		id := fmt.Sprint(i)
		if err := b.Want(context.Background(), websub.Wish{ID: id, Topic: "http://h/" + id, Hubs: []string{h.url}}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "three subscriptions", func() bool {
		n := 0
		for _, st := range b.Subscriptions() {
			if st.State == "active" {
				n++
			}
		}
		return n == 3
	})
}

// Any document leads to an error or to a Subscriber that works.
func FuzzMemory(f *testing.F) {
	f.Add(`{"version":1,"wishes":{"a":{"ID":"a","Topic":"http://h/t","Hubs":["http://a/","b"],"At":9,"Round":99999}},"subscriptions":{"n":{"name":"n","wish":"a","topic":"http://h/t","named":"http://a/","state":"active","expires":"2999-01-01T00:00:00Z"}}}`)
	f.Add(`{"version":1,"wishes":{"a":{"ID":"a","Hubs":["\u0000","x"],"At":-1}},"subscriptions":{"n":{"name":"n","wish":"a","state":"pending","waiting":true,"attempts":-5}}}`)
	f.Fuzz(func(t *testing.T, doc string) {
		s, err := websub.NewSubscriber(websub.SubscriberOptions{
			Callback: "http://sub/cb", State: &keeper{doc: []byte(doc)}, Client: wire{},
			Deliver: func(context.Context, websub.Delivery) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		wish := websub.Wish{ID: "a", Topic: "http://h/t", Hubs: []string{"http://a/", "http://b/"}}
		if err := s.Want(context.Background(), wish); err != nil {
			if !strings.HasPrefix(err.Error(), "read state of subscriptions: ") {
				t.Errorf("%q: %v", doc, err)
			}
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Millisecond)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("%q: %v", doc, err)
		}
		for _, method := range []string{"GET", "POST"} {
			s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/cb/n?hub.mode=subscribe&hub.topic=http://h/t&hub.challenge=c", nil))
		}
		_ = s.Subscriptions()
	})
}

func FuzzCallback(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=http%3A%2F%2Fh%2Ft&hub.challenge=c&hub.lease_seconds=60")
	f.Add("x=1&hub.mode=zzz&hub.mode=denied&hub.topic=http://h/t;&hub.reason=%1b%zz")
	f.Add("hub.mode=subscribe&hub.topic=http://h/%74&hub.challenge=%00&hub.lease_seconds=-1")
	h := newHub(f)
	w := wire{"a": h}
	b := &bed{t: f, keep: &keeper{}}
	w["sub"] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { b.front.ServeHTTP(rw, r) })
	h.client = &http.Client{Transport: w}
	o := b.options()
	o.Callback, o.Client = "http://sub/cb", w
	b.start(o)
	f.Fuzz(func(t *testing.T, query string) {
		if err := b.Want(context.Background(), websub.Wish{ID: "set", Topic: "http://h/t", Hubs: []string{"http://a/hub"}}); err != nil {
			t.Fatal(err)
		}
		var callback string
		until(t, "request", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			if n := len(h.requests); n > 0 {
				callback = h.requests[n-1].Get("hub.callback")
			}
			return callback != ""
		})
		r := httptest.NewRequest(http.MethodGet, callback, nil)
		r.URL.RawQuery = query
		rec := httptest.NewRecorder()
		b.front.ServeHTTP(rec, r)
		body := rec.Body.String()
		switch {
		case rec.Code != 200 && rec.Code != 404 && rec.Code != 410:
			t.Errorf("%q: status %d", query, rec.Code)
		case rec.Code != 200 && body != "":
			t.Errorf("%q: status %d with %q", query, rec.Code, body)
		case len(body) > 4096 || strings.IndexFunc(body, func(r rune) bool { return r < ' ' || r > '~' }) >= 0:
			t.Errorf("%q: echoed %q", query, body)
		}
	})
}
