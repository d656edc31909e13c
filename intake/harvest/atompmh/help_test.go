package atompmh_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/atompmh"
	"lockstep/intake/harvest/ledger"
	"lockstep/internal/fetch"
)

// A feedSite serves the documents of a feed, with entity tags, and notes what
// was asked for.
type feedSite struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	pages  map[string]string
	answer map[string]http.HandlerFunc // instead of a page
	plain  bool                        // no entity tags
	asked  []string
	onAsk  func(path string) // before a request is answered; holds no lock
}

func newFeedSite(t *testing.T) *feedSite {
	t.Helper()
	s := &feedSite{pages: make(map[string]string), answer: make(map[string]http.HandlerFunc)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *feedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	onAsk := s.onAsk
	s.mu.Unlock()
	if onAsk != nil {
		onAsk(r.URL.Path)
	}
	s.mu.Lock()
	text, ok := s.pages[r.URL.Path]
	answer, plain := s.answer[r.URL.Path], s.plain
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
	note := r.URL.Path
	if answer == nil && !plain && ok && r.Header.Get("If-None-Match") == tag {
		note += " 304"
	}
	s.asked = append(s.asked, note)
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/atom+xml")
		if !plain {
			w.Header().Set("ETag", tag)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

// put replaces pages; an empty text removes one. What was asked is forgotten.
func (s *feedSite) put(pages map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, text := range pages {
		if text == "" {
			delete(s.pages, path)
			continue
		}
		s.pages[path] = strings.ReplaceAll(text, "BASE", s.URL)
	}
	s.asked = nil
}

// status has a path answered with a status.
func (s *feedSite) status(path string, status int) {
	s.handle(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// handle has a path answered by f; nil as it was.
func (s *feedSite) handle(path string, f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil {
		delete(s.answer, path)
		return
	}
	s.answer[path] = f
}

// took returns what was asked since, in order.
func (s *feedSite) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := strings.Join(s.asked, ", ")
	s.asked = nil
	return asked
}

func (s *feedSite) client(t *testing.T) *fetch.Client {
	t.Helper()
	home, err := url.Parse(s.URL)
	must(t, err)
	c, err := fetch.New(fetch.Options{Home: home, Retries: -1})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// A harvest is a feed being harvested.
type harvest struct {
	*atompmh.Harvester
	t      *testing.T
	site   *feedSite
	cat    catalog.Catalog
	ledger ledger.Ledger
	o      atompmh.Options
}

// follow returns a harvest of the feed at /feed, with its memory in a file.
func follow(t *testing.T, s *feedSite, o atompmh.Options) *harvest {
	t.Helper()
	if o.State == "" {
		o.State = filepath.Join(t.TempDir(), "state.json")
	}
	h := &harvest{t: t, site: s, cat: catalog.NewMem(nil), ledger: new(ledger.Mem), o: o}
	h.reopen(o)
	return h
}

// reopen replaces the Harvester by one that has only the stored state.
func (h *harvest) reopen(o atompmh.Options) {
	h.t.Helper()
	o.State = h.o.State
	a, err := atompmh.New(h.site.URL+"/feed", h.site.client(h.t), h.cat, set, h.ledger, o)
	must(h.t, err)
	h.Harvester = a
}

func (h *harvest) run() intake.Report {
	h.t.Helper()
	r, err := h.Scan(h.t.Context())
	must(h.t, err)
	return r
}

// clean harvests, without anything being the matter.
func (h *harvest) clean() intake.Report {
	h.t.Helper()
	r := h.run()
	for _, p := range append(slices.Clone(r.Unreadable.First), r.Skipped.First...) {
		h.t.Errorf("told of %v", p)
	}
	return r
}

// holds checks what the catalog holds: paths, or where given paths and the time
// of the entry behind an at sign.
func (h *harvest) holds(want string) {
	h.t.Helper()
	var have []string
	for r, err := range h.cat.Resources(h.t.Context(), set, catalog.Range{}) {
		must(h.t, err)
		path := strings.TrimPrefix(r.URI, h.site.URL+"/")
		if strings.Contains(want, "@") {
			path += "@" + r.Lastmod.Format("15:04")
		}
		have = append(have, path)
	}
	if got := strings.Join(have, " "); got != want {
		h.t.Errorf("the catalog holds %q, want %q", got, want)
	}
}

func (h *harvest) asked(want string) {
	h.t.Helper()
	if got := h.site.took(); got != want {
		h.t.Errorf("asked for %q, want %q", got, want)
	}
}

func (h *harvest) watermark(want string) {
	h.t.Helper()
	if got := h.Status().Watermark.Format("15:04:05.999"); got != want {
		h.t.Errorf("watermark %s, want %s", got, want)
	}
}

// reported checks that some problem has these words.
func reported(t *testing.T, ps intake.Problems, words string) {
	t.Helper()
	for _, p := range ps.First {
		if strings.Contains(p.String(), words) {
			return
		}
	}
	t.Errorf("told of %v, want something of %q", ps.First, words)
}

// feedOf is a feed of that updated time: head is what stands before the entries,
// as links or fh:complete; and "id:…" for another id.
func feedOf(updated, head string, entries ...string) string {
	id := "urn:x-test:feed"
	if rest, ok := strings.CutPrefix(head, "id:"); ok {
		id, head, _ = strings.Cut(rest, " ")
	}
	return `<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0">` +
		`<id>` + id + `</id><title>Test</title><author><name>A</name></author><updated>` + stamp(updated) + `</updated>` + head + strings.Join(entries, "") + `</feed>`
}

const complete = `<fh:complete/>`

func prev(path string) string { return `<link rel="prev-archive" href="BASE` + path + `"/>` }

// stamp makes 10:00 a time of one day; what is longer stays.
func stamp(at string) string {
	if len(at) > 8 {
		return at
	}
	if len(at) == 5 {
		at += ":00"
	}
	return "2024-05-02T" + at + "Z"
}

func live(id, at string, paths ...string) string {
	if len(paths) == 0 {
		paths = []string{"/" + id}
	}
	var e strings.Builder
	e.WriteString(`<entry><id>urn:x-test:` + id + `</id><title>` + id + `</title><updated>` + stamp(at) + `</updated>`)
	for i, p := range paths {
		p, typ, ok := strings.Cut(p, " ")
		if !ok {
			typ = fmt.Sprintf("text/x-%d", i)
		}
		e.WriteString(`<link rel="alternate" type="` + typ + `" href="BASE` + p + `"/>`)
	}
	e.WriteString(`</entry>`)
	return e.String()
}

func dead(id, at string) string {
	return `<entry><id>urn:x-test:` + id + `</id><title>gone</title><updated>` + stamp(at) + `</updated><content/></entry>`
}

func wantEmpty(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, intake.ErrEmpty) {
		t.Errorf("error %v, want one that refuses to delete so much", err)
	}
}

const set = "https://example.org/resourcesync/main/capabilitylist.xml"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
