package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A twin is a server with copies of a site's resources.
type twin struct {
	srv   *httptest.Server
	gets  atomic.Int64
	fault func(w http.ResponseWriter, r *http.Request) bool // may answer instead
}

func newTwin(t *testing.T, s *site) *twin {
	w := &twin{}
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.gets.Add(1)
		if w.fault != nil && w.fault(rw, r) {
			return
		}
		s.mu.Lock()
		f, ok := s.files[r.URL.Path]
		s.mu.Unlock()
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("ETag", `"of the twin"`)
		_, _ = rw.Write(f.data) // the client finds out
	}))
	t.Cleanup(w.srv.Close)
	return w
}

// at is the twin's address under another name of this machine.
func (w *twin) at(host string) string { return strings.Replace(w.srv.URL, "127.0.0.1", host, 1) }

func duplicate(base, path string, pri int) string {
	return fmt.Sprintf(`<rs:ln rel="duplicate" href="%s" pri="%d"/>`, base+path, pri)
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
}

// TestMirrors: which addresses are asked, in which order.
func TestMirrors(t *testing.T) {
	t.Parallel()
	const near, far = "127.0.0.1", "localhost"
	answer := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, text); return true }
	}
	for _, tt := range []struct {
		name        string
		style       style
		links       func(a, b *twin) string
		a, b        func(http.ResponseWriter, *http.Request) bool
		own         func(http.ResponseWriter, *http.Request) bool
		hosts       []string
		gets        [3]int64 // own, a, b
		mirror, bad bool
	}{
		{name: "preferred", links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 2) + duplicate(b.at(near), "/x", 1) },
			gets: [3]int64{0, 0, 1}, mirror: true},
		{name: "order of the links", links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 7) + duplicate(b.at(near), "/x", 7) },
			gets: [3]int64{0, 1, 0}, mirror: true},
		{name: "no pri is last", links: func(a, b *twin) string {
			return strings.Replace(duplicate(a.at(near), "/x", 7), `pri="7"`, "", 1) + duplicate(b.at(near), "/x", 500)
		}, gets: [3]int64{0, 0, 1}, mirror: true},
		{name: "dead, wrong, then the resource", links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) + duplicate(b.at(near), "/x", 2) },
			a: status(503), b: answer("something else"), gets: [3]int64{1, 1, 1}},
		{name: "dead, then the next", links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) + duplicate(b.at(near), "/x", 2) },
			a: status(404), gets: [3]int64{0, 1, 1}, mirror: true},
		{name: "no scheme we know", links: func(a, b *twin) string {
			return duplicate("ftp://127.0.0.1", "/x", 1) + duplicate("urn:x:", "y", 1) + duplicate("magnet:?xt=", "z", 1) + duplicate("file:///etc", "/passwd", 1)
		}, gets: [3]int64{1, 0, 0}},
		{name: "the resource itself", links: func(a, b *twin) string { return "" }, gets: [3]int64{1, 0, 0}},
		{name: "another host", links: func(a, b *twin) string { return duplicate(a.at(far), "/x", 1) }, gets: [3]int64{1, 0, 0}},
		{name: "another host, allowed", links: func(a, b *twin) string { return duplicate(a.at(far), "/x", 1) }, hosts: []string{far},
			gets: [3]int64{0, 1, 0}, mirror: true},
		{name: "another host, as the last resort", links: func(a, b *twin) string { return duplicate(a.at(far), "/x", 1) }, own: status(404),
			gets: [3]int64{1, 1, 0}, mirror: true},
		{name: "another host, without a hash", style: style{noHash: true}, links: func(a, b *twin) string { return duplicate(a.at(far), "/x", 1) }, own: status(404),
			gets: [3]int64{1, 0, 0}, bad: true},
		{name: "without a hash", style: style{noHash: true}, links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) },
			gets: [3]int64{1, 0, 0}},
		{name: "without a hash, in need", style: style{noHash: true}, links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) }, own: status(404),
			gets: [3]int64{1, 1, 0}, mirror: true},
		{name: "without a hash, of another length", style: style{noHash: true}, links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) }, own: status(404), a: answer("longer than it should be"),
			gets: [3]int64{1, 1, 0}, bad: true},
		{name: "all wrong", links: func(a, b *twin) string { return duplicate(a.at(near), "/x", 1) }, own: answer("?"), a: answer("!"),
			gets: [3]int64{2, 1, 0}, bad: true}, // its own again, bypassing caches
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.style)
			s.put("/x", "content")
			a, b := newTwin(t, s), newTwin(t, s)
			a.fault, b.fault = tt.a, tt.b
			s.links = func(siteEvent) string { return tt.links(a, b) + duplicate(s.srv.URL, "/x", 1) }
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == "/x" && tt.own != nil && tt.own(w, r)
			})
			m := newMirror(t, s)
			m.opts.AllowHosts = append(tt.hosts, near) // the twins are at other ports
			r, err := m.sync()
			if (err != nil) != tt.bad {
				t.Fatalf("Sync: %v\n%+v", err, r)
			}
			if got := [3]int64{int64(s.got("/x")), a.gets.Load(), b.gets.Load()}; got != tt.gets {
				t.Errorf("asked %v (own, first, second), want %v", got, tt.gets)
			}
			if (r.By.Mirror == 1) != tt.mirror {
				t.Errorf("by %+v", r.By)
			}
			if !tt.bad {
				m.same()
			}
		})
	}
}

// TestMirrorDead: a dead host is not tried for every resource, and no host receives
// the validators of another.
func TestMirrorDead(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	a, b := newTwin(t, s), newTwin(t, s)
	a.fault = status(500)
	b.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" || r.Header.Get("If-None-Match") != "" {
			t.Errorf("the mirror was sent %v", r.Header)
		}
		return false
	}
	s.links = func(e siteEvent) string { return duplicate(a.srv.URL, e.path, 1) + duplicate(b.srv.URL, e.path, 2) }
	for i := range 200 {
		s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("content ", i))
	}
	m := newMirror(t, s)
	m.opts.Jobs, m.opts.AllowHosts = 8, []string{"127.0.0.1"}
	r := m.mustSync()
	if r.By.Mirror != 200 || s.sent != 0 || b.gets.Load() != 200 {
		t.Errorf("by %+v, %d bytes from the Source itself", r.By, s.sent)
	}
	if n := a.gets.Load(); n > 8+3 { // as many as are under way at a time may begin
		t.Errorf("the dead mirror was asked %d times", n)
	}
	if wantNone := m.mustSync(); wantNone.Updated+wantNone.Created != 0 {
		t.Errorf("%+v", wantNone)
	}
}

// TestMirrorsElsewhere: where a Source names another dead mirror for each of its
// resources, not all of them are tried.
func TestMirrorsElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	n := 0
	s.links = func(e siteEvent) string {
		n++ // under the site's lock
		return duplicate(fmt.Sprintf("http://127.0.0.1:%d", 1+n%700), e.path, 1) + duplicate(fmt.Sprintf("http://127.%d.0.1:1", n%200), e.path, 2)
	}
	for i := range 500 {
		s.put(fmt.Sprintf("/f%d", i), fmt.Sprint("content ", i))
	}
	m := newMirror(t, s)
	m.opts.Jobs = 4
	m.opts.AllowHosts = []string{"*"}
	if r := m.mustSync(); r.By.Request != 500 || r.Requests > 500+2*64+20 {
		t.Errorf("by %+v, %d requests", r.By, r.Requests)
	}
}

// TestMirrorBreaksOff: the transfer of a large resource from a mirror that dies is
// resumed from another one.
func TestMirrorBreaksOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	text := strings.Repeat("0123456789abcdef", 256<<10) // 4 MiB
	s.put("/large", text)
	a := newTwin(t, s)
	a.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text[:3<<20])
		panic(http.ErrAbortHandler)
	}
	s.links = func(e siteEvent) string { return duplicate(a.srv.URL, e.path, 1) }
	m := newMirror(t, s)
	m.opts.AllowHosts = []string{"127.0.0.1"}
	m.mustSync()
	if sent := s.sent; sent > 1<<20+4096 {
		t.Errorf("%d bytes were fetched again", sent)
	}

	// What came does not fit what is there: then all of it.
	s.put("/large", strings.Repeat("fedcba9876543210", 256<<10))
	m.mustSync()
}
