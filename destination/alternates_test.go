package destination_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// alternate is a link to another representation, and said a description of it.
func alternate(rel, href, mediaType, said string) string {
	return fmt.Sprintf(`<rs:ln rel="%s" href="%s" type="%s"%s/>`, rel, href, mediaType, said)
}

func described(text string) string {
	return fmt.Sprintf(` hash="sha-256:%x" length="%d"`, sha256.Sum256([]byte(text)), len(text))
}

// TestPrefer chooses among representations.
//
// Requirements: RS-PRI-02.
func TestPrefer(t *testing.T) {
	t.Parallel()
	const json, html, xml = `{"a": "representation"}`, "<p>a representation</p>", "<a>representation</a>"
	for _, tt := range []struct {
		name   string
		prefer []string
		md     string // of the entry
		links  func(s *site) string
		want   string
	}{
		{name: "nothing", md: described("own") + ` type="text/plain"`, want: "own"},
		{name: "the resource's own", prefer: []string{"text/plain", "application/json"}, md: described("own") + ` type="Text/Plain; charset=utf-8"`, want: "own"},
		{name: "another", prefer: []string{"application/json"}, md: described("own") + ` type="text/plain"`, want: json},
		{name: "the first wins", prefer: []string{"text/html", "application/json"}, want: html},
		{name: "a pattern", prefer: []string{"application/*"}, want: json},
		{name: "parameters aside", prefer: []string{"text/html"}, want: html},
		{name: "none of them", prefer: []string{"image/*"}, md: described("own"), want: "own"},
		{name: "canonical", prefer: []string{"application/xml"}, want: xml},
		{name: "pri", prefer: []string{"text/*"}, links: func(s *site) string {
			return `<rs:ln rel="alternate" href="` + s.url("/r.html") + `" type="text/html" pri="5"/><rs:ln rel="alternate" href="` + s.url("/r.txt") + `" type="text/plain" pri="2"/>`
		}, want: "own"},
		{name: "on another host", prefer: []string{"text/html"}, md: described("own"), links: func(s *site) string {
			return alternate("alternate", strings.Replace(s.url("/r.html"), "127.0.0.1", "127.0.0.2", 1), "text/html", "")
		}, want: "own"},
		{name: "without a type", prefer: []string{"*/*"}, md: described("own"), links: func(s *site) string {
			return `<rs:ln rel="alternate" href="` + s.url("/r.html") + `"/><rs:ln rel="alternate" href="` + s.url("/r") + `?x" pri="1"/>`
		}, want: html}, // by its file name extension
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			links := alternate("alternate", s.url("/r.json"), "application/json", described(json)) +
				alternate("alternate", s.url("/r.html"), "text/html; charset=utf-8", described(html)) +
				alternate("canonical", s.url("/r.xml"), "application/xml", described(xml))
			if tt.links != nil {
				links = tt.links(s)
			}
			s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`,
				"<url><loc>"+s.url("/r")+"</loc><rs:md"+tt.md+"/>"+links+"</url>"))
			bodies := map[string]string{"/r": "own", "/r.json": json, "/r.html": html, "/r.xml": xml, "/r.txt": "own"}
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				body, ok := bodies[r.URL.Path]
				if ok {
					_, _ = io.WriteString(w, body) // the client finds out
				}
				return ok
			})
			m := newMirror(t, s)
			m.opts.Prefer = tt.prefer
			if _, err := m.sync(); err != nil || m.files()["r"] != tt.want || len(m.files()) != 1 {
				t.Fatalf("%v, files %q, want %q", err, m.files(), tt.want)
			}
		})
	}
}

// TestPreferAgain: stored representations are not fetched again; changed ones, and
// those that another preference chooses, are fetched.
func TestPreferAgain(t *testing.T) {
	t.Parallel()
	for _, stated := range []bool{true, false} {
		s := newSite(t, style{})
		s.put("/doc/r", "a page 1")
		s.put("/plain", "no other")
		reps := map[string]string{"/doc/r": `{"version": 1}`}
		s.links = func(e siteEvent) string {
			if e.path != "/doc/r" {
				return ""
			}
			said := ""
			if stated {
				said = described(reps[e.path])
			}
			return alternate("alternate", s.url("/alt"+e.path), "application/json", said)
		}
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			body, ok := reps[strings.TrimPrefix(r.URL.Path, "/alt")]
			if ok = ok && strings.HasPrefix(r.URL.Path, "/alt"); ok {
				_, _ = io.WriteString(w, body) // the client finds out
			}
			return ok
		})
		m := newMirror(t, s)
		sync := func(want string, gets int) {
			t.Helper()
			r, err := m.sync()
			got := s.got("/alt/doc/r") + s.got("/doc/r") + s.got("/plain")
			if err != nil || m.files()["doc/r"] != want || got != gets {
				t.Fatalf("stated %v: %v, %q with %d requests, want %q with %d\n%+v", stated, err, m.files(), got, want, gets, r)
			}
		}
		sync("a page 1", 2)
		m.opts.Prefer = []string{"application/json"}
		sync(`{"version": 1}`, 1)
		sync(`{"version": 1}`, 0)
		s.mu.Lock()
		reps["/doc/r"] = `{"version": 2}`
		s.mu.Unlock()
		s.put("/doc/r", "a page 2")
		sync(`{"version": 2}`, 1)
		if a := m.audit(); !a.InSync {
			t.Errorf("audit: %+v", a)
		}
		m.opts.Prefer = nil
		sync("a page 2", 1)
		if a := m.audit(); !a.InSync {
			t.Errorf("audit: %+v", a)
		}
	}
}

// TestPreferAlike has two representations that the Source describes alike.
func TestPreferAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	links := ""
	list := func() {
		s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`,
			"<url><loc>"+s.url("/r")+`</loc><lastmod>2024-05-01T01:00:00Z</lastmod><rs:md length="3"/>`+links+"</url>"))
	}
	links = `<rs:ln rel="alternate" href="` + s.url("/alt") + `" type="text/x" length="3"/>`
	list()
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		body, ok := map[string]string{"/r": "own", "/alt": "alt"}[r.URL.Path]
		if ok {
			w.Header().Set("ETag", `"the same"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
			} else {
				_, _ = io.WriteString(w, body) // the client finds out
			}
		}
		return ok
	})
	m := newMirror(t, s)
	for i, want := range []string{"own", "alt", "own"} {
		m.opts.Prefer = nil
		if want == "alt" {
			m.opts.Prefer = []string{"text/x"}
		}
		for range 2 {
			if r, err := m.sync(); err != nil || m.files()["r"] != want {
				t.Fatalf("%d: %v, %q, want %q\n%+v", i, err, m.files(), want, r)
			}
		}
	}
}

// TestPreferFails: where a preferred representation cannot be fetched, the
// resource's own is kept. That is reported once, and is no failure.
func TestPreferFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/r", "own")
	there := false
	s.links = func(siteEvent) string {
		return alternate("alternate", s.url("/alt"), "application/json", described("{}"))
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.URL.Path == "/alt" && there {
			_, _ = io.WriteString(w, "{}") // the client finds out
			return true
		}
		return false
	})
	m := newMirror(t, s)
	m.opts.Prefer = []string{"application/json"}
	for i, baseline := range []bool{false, false, true, true} {
		m.opts.Baseline = baseline
		r, err := m.sync()
		if err != nil || m.files()["r"] != "own" || len(r.Warnings) > 0 != (i == 0) || i == 0 && !strings.Contains(r.Warnings[0], "/alt") {
			t.Fatalf("run %d: %v %v\n%+v", i, err, m.files(), r)
		}
		if a := m.audit(); !a.InSync {
			t.Errorf("audit: %+v", a)
		}
	}
	s.mu.Lock()
	there = true
	s.mu.Unlock()
	if r, err := m.sync(); err != nil || m.files()["r"] != "{}" { // by the next comparison of all
		t.Fatalf("%v %v\n%+v", err, m.files(), r)
	}
}
