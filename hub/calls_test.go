package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/websub"
)

func at(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCallRate: after a burst, a host is called at a limited rate, whatever the
// port; other hosts are unaffected, and none starves.
func TestCallRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(100, 5, rate{burst: 10, per: 2}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		var one, two, other atomic.Int64
		count := func(n *atomic.Int64) func(context.Context) { return func(context.Context) { n.Add(1) } }
		for range 1000 {
			c.add(at(t, "http://a.example:1/"), unknown, time.Time{}, count(&one))
		}
		for range 10 {
			c.add(at(t, "http://A.example.:2/"), unknown, time.Time{}, count(&two))
		}
		c.add(at(t, "http://b.example/"), unknown, time.Time{}, count(&other))
		c.add(at(t, "http://b.example/"), unknown, time.Now().Add(time.Minute), count(&other))
		synctest.Wait()
		if a, b := one.Load()+two.Load(), other.Load(); a != 10 || b != 1 {
			t.Errorf("at once %d and %d calls, want 10 and 1", a, b)
		}
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		if a := one.Load() + two.Load(); a < 68 || a > 71 {
			t.Errorf("after 30 s %d calls, want about 70", a)
		}
		if b := two.Load(); b != 10 {
			t.Errorf("of the other port %d were carried out, want all 10", b)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if b := other.Load(); b != 2 {
			t.Errorf("%d calls at the other host, want 2", b)
		}
		cancel()
		synctest.Wait()
	})
}

// TestCallConcurrency: few calls are under way at one host and port, while
// others continue.
func TestCallConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(9, 3, rate{burst: 1000, per: 1000}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		var slow, quick, most atomic.Int64
		for range 20 {
			c.add(at(t, "http://a.example/"), unknown, time.Time{}, func(ctx context.Context) {
				most.Store(max(most.Load(), slow.Add(1)))
				defer slow.Add(-1)
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			})
		}
		for range 20 {
			c.add(at(t, "http://a.example:81/"), unknown, time.Time{}, func(context.Context) { quick.Add(1) })
		}
		synctest.Wait()
		if s, q := most.Load(), quick.Load(); s != 3 || q != 20 {
			t.Errorf("%d slow ones under way, %d quick ones done, want 3 and 20", s, q)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if most.Load() != 3 || slow.Load() != 0 || len(c.hosts) != 0 {
			t.Errorf("%d under way at most, %d still, %d hosts remembered, want 3, none and none", most.Load(), slow.Load(), len(c.hosts))
		}
		cancel()
		synctest.Wait()
	})
}

// TestCallReserve: however many unknown hosts never answer, known ones are called
// at once, even through a lane in which unknown calls wait.
func TestCallReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(64, 4, rate{burst: 1000, per: 1000}, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		hang := func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		for i := range 1000 {
			c.add(at(t, fmt.Sprintf("http://h%d.example/", i)), unknown, time.Time{}, hang)
		}
		synctest.Wait()
		var done atomic.Int64
		for i := range 20 {
			c.add(at(t, fmt.Sprintf("http://h%d.example/", 980+i)), known, time.Time{}, func(context.Context) { done.Add(1) })
		}
		synctest.Wait()
		if n := done.Load(); n != 20 {
			t.Errorf("%d known ones are done, want all 20", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(c.hosts) + c.active + len(c.ready[known]) + len(c.ready[unknown]) + len(c.delayed); n != 0 {
			t.Errorf("%d things are left of it, want none", n)
		}
		cancel()
		synctest.Wait()
	})
}

// TestBuckets: buckets refill, and their number is bounded.
func TestBuckets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newBuckets[int](rate{burst: 10, per: 2}, func() time.Time { return now })
	for i := range 10 {
		if d := b.take(1, 1); d != 0 {
			t.Fatalf("token %d: wait %v", i, d)
		}
	}
	if d := b.take(1, 1); d != 500*time.Millisecond {
		t.Errorf("beyond the burst: wait %v, want 500ms", d)
	}
	if d := b.take(2, 50); d != 0 {
		t.Errorf("more than the burst: wait %v, want all of it to do", d)
	}
	now = now.Add(500 * time.Millisecond)
	if d := b.take(1, 1); d != 0 {
		t.Errorf("after the wait: wait %v", d)
	}
	b.give(1, 3)
	if d := b.take(1, 3); d != 0 {
		t.Errorf("given back: wait %v", d)
	}
	now = now.Add(-time.Hour) // the clock was set back
	if d := b.take(1, 1); d <= 0 || d > time.Minute {
		t.Errorf("with the clock set back: wait %v", d)
	}
	for i := range 2 * maxBuckets {
		b.take(i, 1)
	}
	if n := len(b.m); n > maxBuckets {
		t.Errorf("%d are remembered, want at most %d", n, maxBuckets)
	}
}

// TestBudget: all bodies together are limited to a number of bytes, and release
// them.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := &budget{left: 14_000}
	body, done, err := b.read(strings.NewReader(strings.Repeat("x", 9000)), -1, 10_000)
	if err != nil || len(body) != 9000 {
		t.Fatalf("read = %d bytes, %v", len(body), err)
	}
	var refused *refusal
	if _, _, err := b.read(strings.NewReader(strings.Repeat("x", 12_000)), -1, 50_000); !errors.As(err, &refused) || refused.status != 503 || refused.after == 0 {
		t.Errorf("beyond the budget: %v, want to come back later", err)
	}
	if _, _, err := b.read(strings.NewReader("x"), 1, 50_000); err != nil {
		t.Errorf("a small body: %v, want it to pass whatever is left", err)
	}
	done()
	for _, r := range []io.Reader{strings.NewReader(strings.Repeat("x", 10_001)), io.MultiReader(strings.NewReader("x"), broken{})} {
		if _, _, err := b.read(r, -1, 10_000); err == nil {
			t.Error("read = nil, want an error")
		}
	}
	if b.left != 14_000 {
		t.Errorf("%d bytes are left, want all", b.left)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// FuzzForm: no form makes the hub panic, and accepted forms obey the rules.
func FuzzForm(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=http%3A%2F%2Fa.example%2F&hub.callback=https%3A%2F%2Fb.example%2F%3Fx%3D1&hub.secret=s&hub.lease_seconds=60")
	f.Add("hub.mode=unsubscribe&hub.topic=http://a.example/%257E&hub.callback=http://[::1]:80/&hub.verify_token=t")
	f.Add("hub.mode=publish&hub.url=http://a.example/&hub.topic=http://a.example/&hub.topic=http://b.example:8080/%23")
	f.Add("hub.mode=subscribe;%zz")
	o, err := Options{PublicURL: "http://hub.example/"}.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, err := parseForm([]byte(body))
		if err != nil {
			wantRefusal(t, err)
			return
		}
		mode, err := one(form, "hub.mode")
		if err != nil {
			wantRefusal(t, err)
		}
		if s, err := parseSubscribing(mode, form, &o); err != nil {
			wantRefusal(t, err)
		} else {
			if len(s.secret) >= maxSecret || s.lease < o.LeaseMin || s.lease > o.LeaseMax || s.lease%time.Second != 0 {
				t.Errorf("passed: %+v", s)
			}
			wantSendable(t, s.callback)
			wantSendable(t, s.topic)
			u := at(t, websub.VerificationURL(s.callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {s.topic}}))
			if u.Host != s.target.Host || u.Scheme != s.target.Scheme || u.Path != s.target.Path {
				t.Errorf("%q is asked at %q", s.callback, u)
			}
			if (&hubstore.Changes{Put: []hubstore.Subscription{{Key: hubstore.KeyOf(s.topic, s.callback)}}}).Check() != nil {
				t.Errorf("no key of %q and %q", s.topic, s.callback)
			}
		}
		if urls, topics, err := parsePing(form, &o); err != nil {
			wantRefusal(t, err)
		} else if len(urls) != len(topics) || len(urls) == 0 {
			t.Errorf("%d URLs of %d topics", len(urls), len(topics))
		}
	})
}

// FuzzPublishing: no header of a publication makes the hub panic, and relayed
// values can be sent.
func FuzzPublishing(f *testing.F) {
	f.Add(`<http://a.example/>; rel="self", <http://hub.example/>; rel=hub, <http://a.example/cap>; rel="resourcesync"`, "application/xml", "")
	f.Add(`<http://a.example/>; rel="self"; anchor="http://b.example/"`, "text/plain; charset=\"x\"", "identity")
	f.Add(`<>; rel="SELF alternate"; title="a, b`, "", "gzip")
	f.Add("<http://a.example/\x80>;rel=self", "x", "")
	f.Fuzz(func(t *testing.T, link, contentType, encoding string) {
		h := http.Header{"Link": {link}, "Content-Type": {contentType}, "Content-Encoding": {encoding}}
		p, err := parsePublishing(h)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		wantSendable(t, p.topic)
		if p.contentType != contentType {
			t.Errorf("Content-Type %q became %q", contentType, p.contentType)
		}
		for _, l := range p.links {
			if !strings.Contains(link, l) {
				t.Errorf("%q is relayed, which was not in %q", l, link)
			}
			all := websub.ParseLinks([]string{l, "<urn:x>; rel=end"}, nil)
			if joined := websub.ParseLinks([]string{l + ", <urn:x>; rel=end"}, nil); len(all) != 2 || len(joined) != 2 {
				t.Errorf("%q is relayed, which is not one link", l)
			}
			if all[0].Has("self") || all[0].Has("hub") {
				t.Errorf("%q is relayed: a link of the hub's own", l)
			}
		}
		_ = within([]topicPrefix{{"http://a.example:80", "/"}}, p.url)
	})
}

func wantRefusal(t *testing.T, err error) {
	t.Helper()
	var r *refusal
	if !errors.As(err, &r) || r.status < 400 || r.status > 499 || r.text == "" {
		t.Errorf("error %v, want a refusal in words", err)
	}
}

func wantSendable(t *testing.T, uri string) {
	t.Helper()
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '<' || r == '>' || r == '"' }) {
		t.Errorf("%q can not be sent", uri)
	}
	if u := at(t, uri); u.Host == "" || u.Fragment != "" || u.User != nil {
		t.Errorf("%q passed", uri)
	}
	if _, err := http.NewRequest(http.MethodGet, uri, bytes.NewReader(nil)); err != nil {
		t.Error(fmt.Errorf("%q can not be called: %w", uri, err))
	}
}
