package websub_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/websub"
)

// A post is a publisher's request to a hub.
type post struct {
	header http.Header
	body   string
}

func (p post) form() url.Values {
	v, _ := url.ParseQuery(p.body)
	return v
}

// newPublishingHub starts a hub that records publications, and answers with the
// result of answer.
func newPublishingHub(t *testing.T, answer func(w http.ResponseWriter, p post)) (address string, posts func() []post) {
	t.Helper()
	var mu sync.Mutex
	var got []post
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		p := post{r.Header.Clone(), string(b)}
		mu.Lock()
		if r.Method == http.MethodPost {
			got = append(got, p)
		}
		mu.Unlock()
		answer(w, p)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []post { mu.Lock(); defer mu.Unlock(); return slices.Clone(got) }
}

func newPublisher(t *testing.T, o websub.PublisherOptions) *websub.Publisher {
	t.Helper()
	p, err := websub.NewPublisher(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Fat publishing: payload, its type, and the links (RN-PB-01).
func TestPublishFat(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 204} { // RN-AMB-14
		hub, posts := newPublishingHub(t, func(w http.ResponseWriter, _ post) { w.WriteHeader(status) })
		p := newPublisher(t, websub.PublisherOptions{Hub: hub, Token: "secret-token"})
		header := http.Header{"Content-Type": {"application/xml"}, "Link": {`<http://h/cl.xml>; rel="resourcesync"`}}
		body := "\ufeff<urlset>\r\nä\x00</urlset>"
		if err := p.Publish(context.Background(), "http://h/topic", header, []byte(body)); err != nil {
			t.Fatal(err)
		}
		got := posts()[0]
		if got.body != body || got.header.Get("Content-Type") != "application/xml" || got.header.Get("Authorization") != "Bearer secret-token" || got.header.Get("User-Agent") != "lockstep" {
			t.Errorf("posted %+v", got)
		}
		links := websub.ParseLinks(got.header.Values("Link"), nil)
		for rel, want := range map[string]string{"self": "http://h/topic", "hub": hub, "resourcesync": "http://h/cl.xml"} {
			if !slices.ContainsFunc(links, func(l websub.Link) bool { return l.Has(rel) && l.Target == want }) {
				t.Errorf("links %+v, want %s %s", links, rel, want)
			}
		}
		if len(header) != 2 || len(header["Link"]) != 1 {
			t.Errorf("the caller's header was changed: %v", header)
		}
	}
}

// Existing links are kept unchanged, none is duplicated.
func TestPublishKeepsLinks(t *testing.T) {
	t.Parallel()
	hub, posts := newPublishingHub(t, func(w http.ResponseWriter, _ post) { w.WriteHeader(202) })
	p := newPublisher(t, websub.PublisherOptions{Hub: hub, Manner: websub.Fat})
	own := `<http://h/topic>; rel="self", <http://other-hub/>; rel="hub"; title="x"`
	if err := p.Publish(context.Background(), "http://h/topic", http.Header{"Link": {own}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := posts()[0]; !slices.Equal(got.header.Values("Link"), []string{own}) || got.body != "" || got.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("posted %+v", got)
	}
}

// A thin publication names the topic in both parameters (WS-P-02).
func TestPublishThin(t *testing.T) {
	t.Parallel()
	hub, posts := newPublishingHub(t, func(w http.ResponseWriter, _ post) { w.WriteHeader(204) })
	p := newPublisher(t, websub.PublisherOptions{Hub: hub, Manner: websub.Thin})
	if err := p.Publish(context.Background(), "http://h/t?a=b&c=d", http.Header{"Content-Type": {"application/xml"}}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	got := posts()[0]
	if f := got.form(); got.header.Get("Content-Type") != "application/x-www-form-urlencoded" || f.Get("hub.mode") != "publish" ||
		f.Get("hub.url") != "http://h/t?a=b&c=d" || f.Get("hub.topic") != "http://h/t?a=b&c=d" || !p.Thin() {
		t.Errorf("posted %+v", got)
	}
}

// A hub that supports only pings is detected once.
func TestPublishAuto(t *testing.T) {
	t.Parallel()
	hub, posts := newPublishingHub(t, func(w http.ResponseWriter, p post) {
		if p.form().Get("hub.mode") != "publish" {
			http.Error(w, "hub.mode is missing", http.StatusBadRequest)
		}
	})
	p := newPublisher(t, websub.PublisherOptions{Hub: hub})
	for range 2 {
		if err := p.Publish(context.Background(), "http://h/t", nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(posts()); n != 3 || !p.Thin() {
		t.Errorf("%d requests, thin: %v", n, p.Thin())
	}
}

// Errors contain what helps to solve them (RN-PB-06).
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status    int
		after     string
		permanent bool
		wait      time.Duration
	}{
		{400, "", true, 0}, {409, "", true, 0}, {413, "", true, 0}, {415, "", true, 0}, {422, "", true, 0},
		{401, "", false, 0}, {403, "", false, 0}, {404, "", false, 0}, {405, "", false, 0}, {407, "", false, 0}, {410, "", false, 0}, // of the address or the token
		{421, "", false, 0}, {426, "", false, 0}, {303, "", false, 0}, {304, "", false, 0},
		{408, "", false, 0}, {425, "", false, 0}, {429, "7", false, 7 * time.Second}, {500, "", false, 0}, {503, "120", false, 2 * time.Minute}, {503, "soon", false, 0},
	}
	for _, tt := range tests {
		hub, _ := newPublishingHub(t, func(w http.ResponseWriter, _ post) {
			w.Header().Set("Retry-After", tt.after)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, "because\x1b[31m of\nthis"+strings.Repeat("!", 10_000))
		})
		p := newPublisher(t, websub.PublisherOptions{Hub: hub})
		err := p.Publish(context.Background(), "http://h/t", nil, []byte("x"))
		var refused *websub.RefusedError
		if !errors.As(err, &refused) || refused.Status != tt.status || refused.Permanent() != tt.permanent || refused.RetryAfter != tt.wait || p.Thin() {
			t.Errorf("%d: %#v", tt.status, err)
			continue
		}
		if tt.status != 304 && !strings.HasPrefix(err.Error(), "publish http://h/t: hub "+hub+": status ") || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 2000 {
			t.Errorf("%d: %s", tt.status, err)
		}
	}
	p := newPublisher(t, websub.PublisherOptions{Hub: "http://127.0.0.1:1/hub"})
	var refused *websub.RefusedError
	if err := p.Publish(context.Background(), "http://h/t", nil, nil); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "hub http://127.0.0.1:1/hub: ") {
		t.Errorf("no hub there: %v", err)
	}
	if err := p.Publish(context.Background(), "topic", nil, nil); err == nil {
		t.Error("published a topic that is no URL")
	}
}

func TestNewPublisher(t *testing.T) {
	t.Parallel()
	for _, o := range []websub.PublisherOptions{{}, {Hub: "hub"}, {Hub: "ftp://h/"}, {Hub: "http://h/", Manner: "slim"}, {Hub: "http://h/", Token: "a\r\nb"}} {
		if _, err := websub.NewPublisher(o); err == nil {
			t.Errorf("NewPublisher(%+v): no error", o)
		}
	}
}

// The suite's tests of a publisher. This test performs discovery, subscriber
// and hub around the Publisher: WR-P-1 hub and self are found by each method;
// WR-P-2, WR-P-3 a subscription for two hours without a secret is accepted and
// verified with topic, challenge and lease; WR-P-4 an update arrives, with its
// type (WS-P-01, WS-D-01, WS-D-02).
func TestSuitePublisher(t *testing.T) {
	t.Parallel()
	ways := map[string]page{
		"headers": {head("Link", links), head("Link", links), ""},
		"HTML":    {nil, nil, htmlPage},
		"Atom":    {nil, nil, atomFeed},
		"RSS":     {nil, nil, rssFeed},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t).listen()
			h.set(func() { h.lease = "7200" })
			h.set(func() {
				h.answer = func(w http.ResponseWriter, form url.Values) bool {
					if form.Get("hub.mode") != "publish" {
						return false
					}
					for callback := range h.subs { // it would fetch the topic
						if form.Get("hub.topic") == h.subs[callback].Get("hub.topic") {
							go h.deliver(callback, "updated")
						}
					}
					w.WriteHeader(http.StatusAccepted)
					return true
				}
			})
			address, self := serve(t, way, h.url)
			d, err := websub.Discover(context.Background(), http.DefaultClient, address) // WR-P-1
			if err != nil || len(d.Hubs) != 1 || d.Hubs[0] != h.url || d.Topic != self {
				t.Fatalf("discovered %+v, %v", d, err)
			}
			b := newBed(t, func(o *websub.SubscriberOptions) { o.Lease, o.NoPlainSecret = 2*time.Hour, true })
			b.want(d.Topic, d.Hubs...)
			e := b.wait(websub.Verified)
			until(t, "subscription", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.subs) == 1 })
			_, form := h.sub()
			if form.Get("hub.lease_seconds") != "7200" || form.Has("hub.secret") || time.Until(e.Expires) < 110*time.Minute { // WR-P-2, WR-P-3
				t.Errorf("subscribed with %v until %v", form, e.Expires)
			}
			p := newPublisher(t, websub.PublisherOptions{Hub: h.url, Manner: websub.Thin})
			if err := p.Publish(context.Background(), self, nil, nil); err != nil {
				t.Fatal(err)
			}
			until(t, "WR-P-4", func() bool { return slices.Equal(b.delivered(), []string{"updated"}) })
		})
	}
}
