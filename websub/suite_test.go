package websub_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lockstep/websub"
)

// A page is a topic of the public suite.
type page struct {
	head, get http.Header
	body      string
}

// serve serves the page at /topic, and at /old a redirect to it. In header and
// body {hub} and {self} are replaced by their URLs.
func serve(t *testing.T, p page, hub string) (address, self string) {
	t.Helper()
	var base string
	fill := func(s string) string {
		return strings.NewReplacer("{hub}", hub, "{self}", base+"/topic?self=1", "{wrong}", base+"/wrong-hub").Replace(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/topic", func(w http.ResponseWriter, r *http.Request) {
		h := p.get
		if r.Method == http.MethodHead {
			h = p.head
		}
		for k, vs := range h {
			for _, v := range vs {
				w.Header().Add(k, fill(v))
			}
		}
		_, _ = w.Write([]byte(fill(p.body)))
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		mux.HandleFunc(fmt.Sprintf("/old/%d", status), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `</wrong-hub>; rel="hub", </wrong>; rel="self"`) // links of a redirect do not count
			w.Header().Set("Location", "/topic")
			w.WriteHeader(status)
		})
	}
	mux.HandleFunc("/wrong-hub", func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the wrong hub was asked")
		http.Error(w, "wrong hub", http.StatusBadRequest)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	base = srv.URL
	return base + "/topic", base + "/topic?self=1"
}

const (
	links     = `<{hub}>; rel="hub", <{self}>; rel="self"`
	htmlPage  = `<!doctype html><html><head><title>t</title><link rel="hub" href="{hub}"><link rel="self" href="{self}"></head><body>text</body></html>`
	atomFeed  = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><link rel="hub" href="{hub}"/><link rel="self" href="{self}"/><entry><link rel="self" href="/wrong"/></entry></feed>`
	rssFeed   = `<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>t</title><link>http://wrong/</link><atom:link rel="hub" href="{hub}"/><atom:link rel="self" href="{self}"/><item><atom:link rel="self" href="/wrong"/></item></channel></rss>`
	wrongPage = `<html><head><link rel="hub" href="{wrong}"><link rel="self" href="/wrong"></head></html>`
)

func head(fields ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

// The suite's tests of discovery, each up to a subscription that receives a
// delivery: WR-S-100 to WR-S-104, WR-S-200 to WR-S-202.
func TestSuiteDiscovery(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		page page
		path string // in place of /topic
	}{
		{"WR-S-100 Link headers", page{head("Link", links), head("Link", links), "text"}, ""},
		{"WR-S-100 two fields", page{head("Link", `<{hub}>; rel="hub"`, "Link", `<{self}>; rel="self"`), nil, "text"}, ""},
		{"WR-S-101 HTML", page{head("Content-Type", "text/html"), head("Content-Type", "text/html"), htmlPage}, ""},
		{"WR-S-102 Atom", page{head("Content-Type", "application/atom+xml"), head("Content-Type", "text/xml"), atomFeed}, ""},
		{"WR-S-103 RSS", page{head("Content-Type", "application/rss+xml"), head("Content-Type", "text/xml"), rssFeed}, ""},
		{"WR-S-104 header and body differ", page{head("Link", links), head("Link", links), wrongPage}, ""},
		{"WR-S-104 only GET has the header", page{nil, head("Link", links), wrongPage}, ""},
		{"WR-S-200 self differs", page{nil, nil, htmlPage}, ""},
		{"WR-S-201 302", page{head("Link", links), head("Link", links), ""}, "/old/302"},
		{"WR-S-202 301", page{head("Link", links), head("Link", links), ""}, "/old/301"},
		{"WS-D-09 303", page{nil, nil, atomFeed}, "/old/303"},
		{"WS-D-09 307", page{nil, nil, rssFeed}, "/old/307"},
		{"WS-D-09 308", page{nil, nil, htmlPage}, "/old/308"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t).listen()
			address, self := serve(t, tt.page, h.url)
			if tt.path != "" {
				address = strings.TrimSuffix(address, "/topic") + tt.path
			}
			d, err := websub.Discover(context.Background(), http.DefaultClient, address)
			if err != nil {
				t.Fatal(err)
			}
			b := newBed(t, nil)
			b.want(d.Topic, d.Hubs...)
			b.wait(websub.Verified)
			until(t, "subscription", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.subs) == 1 })
			callback, form := h.sub()
			if got := form.Get("hub.topic"); got != self { // WS-D-06
				t.Errorf("hub.topic = %s, want %s", got, self)
			}
			if status := h.deliver(callback, "news", signed(t, "sha256", form.Get("hub.secret"), "news")...); status/100 != 2 { // WR-S-300
				t.Errorf("delivery: status %d", status)
			}
			if got := b.delivered(); len(got) != 1 || got[0] != "news" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}

// The hub answers with a redirect; the POST must be repeated there: WR-S-203,
// WR-S-204, also with the statuses of older hubs (WS-S-09, RN-AMB-13).
func TestSuiteHubRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			h := newHub(t).listen()
			asked := 0
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Location", h.url)
				w.WriteHeader(status)
			}))
			t.Cleanup(first.Close)
			b := newBed(t, nil)
			b.want("http://h/topic", first.URL)
			b.wait(websub.Verified)
			until(t, "subscription", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.subs) == 1 })
			h.mu.Lock()
			if got := h.bodies[0]; got != "POST /hub application/x-www-form-urlencoded" {
				t.Errorf("repeated as %s", got)
			}
			h.mu.Unlock()
			want := first.URL
			if status == http.StatusPermanentRedirect {
				want = h.url // from now on
			}
			until(t, "hub "+want, func() bool { return b.state().Hub == want })
			if asked != 1 {
				t.Errorf("the first hub was asked %d times", asked)
			}
		})
	}
}

// Redirects that turn the POST into another request, never end, or lead away
// from TLS are not followed (WS-S-09).
func TestHubRedirectsRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t).listen()
	tests := map[string]func(w http.ResponseWriter, r *http.Request){
		"status 303":            func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", h.url); w.WriteHeader(303) },
		"more than 5 redirects": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Location", "/x"); w.WriteHeader(307) },
		"without a Location":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(308) },
		"not an http or https": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///x")
			w.WriteHeader(307)
		},
		"https down to http": nil,
	}
	for want, serve := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewUnstartedServer(http.HandlerFunc(serve))
			if serve == nil {
				srv.Config.Handler = http.RedirectHandler(h.url, http.StatusPermanentRedirect)
				srv.StartTLS()
			} else {
				srv.Start()
			}
			t.Cleanup(srv.Close)
			b := newBed(t, func(o *websub.SubscriberOptions) { o.Client = srv.Client() })
			b.want("http://h/topic", srv.URL)
			until(t, want, func() bool { return strings.Contains(b.state().LastError, want) })
		})
	}
	if n := h.asked("subscribe"); n != 0 {
		t.Errorf("the hub behind was asked %d times", n)
	}
}

// subscribed returns a bed with one subscription at a hub.
func subscribed(t *testing.T, change func(*websub.SubscriberOptions)) (b *bed, h *hub, callback string, form url.Values) {
	t.Helper()
	h = newHub(t).listen()
	b = newBed(t, change)
	b.want("http://h/topic?a=%7Eb", h.url)
	b.wait(websub.Verified)
	until(t, "subscription", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.subs) == 1 })
	callback, form = h.sub()
	return b, h, callback, form
}

// WR-S-205, and other verifications of unknown requests: exactly 404 (WS-I-03,
// WS-I-07, WS-I-09).
func TestSuiteWrongQuestion(t *testing.T) {
	t.Parallel()
	_, h, callback, form := subscribed(t, nil)
	topic := form.Get("hub.topic")
	other, err := url.Parse(callback)
	if err != nil {
		t.Fatal(err)
	}
	other.Path = other.Path[:len(other.Path)-1] + "x"
	tests := []struct {
		name, callback string
		q              url.Values
		want           int
	}{
		{"WR-S-205 wrong topic", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic + "x"}, "hub.challenge": {"c"}}, 404},
		{"wrong mode", callback, url.Values{"hub.mode": {"unsubscribe"}, "hub.topic": {topic}, "hub.challenge": {"c"}}, 404},
		{"unknown mode", callback, url.Values{"hub.mode": {"publish"}, "hub.topic": {topic}, "hub.challenge": {"c"}}, 404},
		{"no mode", callback, url.Values{"hub.topic": {topic}, "hub.challenge": {"c"}}, 404},
		{"no topic", callback, url.Values{"hub.mode": {"subscribe"}, "hub.challenge": {"c"}}, 404},
		{"no challenge", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}}, 404},
		{"nothing", callback, nil, 404},
		{"denial of another topic", callback, url.Values{"hub.mode": {"denied"}, "hub.topic": {"http://h/"}}, 404},
		{"unknown callback", other.String(), url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {"c"}}, 404},
		{"no callback", other.Scheme + "://" + other.Host + "/", url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {"c"}}, 404},
		{"long challenge", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {strings.Repeat("c", 4097)}}, 404},
		{"challenge with a line feed", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {"c\n"}}, 404},
		{"challenge that is not ASCII", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {"ç"}}, 404},
		{"reflected markup", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {"<b>&amp;</b>"}}, 200},
		{"longest challenge", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.challenge": {strings.Repeat("c", 4096)}}, 200},
		{"confirmed again, RN-AMB-16", callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {strings.Replace(topic, "%7E", "~", 1)}, "hub.challenge": {"c"}, "hub.verify_token": {"t"}}, 200},
	}
	for _, tt := range tests {
		status, header, body := h.get(websub.VerificationURL(tt.callback, tt.q))
		if status != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, status, tt.want)
		}
		if want := tt.q.Get("hub.challenge"); status == 200 && body != want {
			t.Errorf("%s: body %q, want %q", tt.name, body, want)
		}
		if status != 200 && body != "" {
			t.Errorf("%s: body %q", tt.name, body)
		}
		if got := header.Get("Content-Type"); status == 200 && got != "text/plain" { // WS-I-05
			t.Errorf("%s: Content-Type %q", tt.name, got)
		}
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Content-Encoding") != "" {
			t.Errorf("%s: header %v", tt.name, header)
		}
	}
}

// Deliveries: WR-S-300 to WR-S-302; a wrong signature gets the same answer as a
// valid one (WS-X-05, WS-X-06, RN-AMB-10), but the delivery is discarded.
func TestSuiteDelivery(t *testing.T) {
	t.Parallel()
	b, h, callback, form := subscribed(t, nil)
	secret := form.Get("hub.secret")
	if len(secret) != 64 || len(secret) >= 200 { // WS-S-04, RN-AMB-08
		t.Errorf("a secret of %d characters", len(secret))
	}
	right := signed(t, "sha256", secret, "news")
	if status := h.deliver(callback, "news", right...); status != 202 {
		t.Errorf("WR-S-300: status %d", status)
	}
	if status := h.deliver(callback, "wrong", "X-Hub-Signature", right[1]+"00"); status != 202 {
		t.Errorf("WR-S-301: status %d", status)
	}
	if status := h.deliver(callback, "bare"); status != 403 {
		t.Errorf("WR-S-302: status %d", status)
	}
	if got := b.delivered(); len(got) != 1 || got[0] != "news" {
		t.Errorf("delivered %q", got)
	}
	forged := b.told(websub.Forged)
	if len(forged) != 2 || forged[0].Reason == forged[1].Reason || forged[0].ID != "set" {
		t.Errorf("events %+v", forged)
	}
	b.mu.Lock()
	d := b.deliveries[0]
	b.mu.Unlock()
	if d.ID != "set" || d.Topic != form.Get("hub.topic") || d.ContentType != "text/html" || len(d.Links) != 1 || d.At.IsZero() {
		t.Errorf("delivery %+v", d) // WS-C-05, WS-X-09: the topic is that of the callback, whatever Link says
	}
	if st := b.state(); st.State != "active" || st.Deliveries != 1 || st.Forged != 2 || st.Delivered.IsZero() {
		t.Errorf("state %+v", st)
	}
}
