package memento_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/weblink"
	"lockstep/memento"
)

// A site serves versions over HTTP, and stores their bytes.
type site struct {
	*httptest.Server
	store *memento.Mem
	base  memento.Base

	mu       sync.Mutex // guards what follows
	contents map[[32]byte][]byte
	log      bytes.Buffer
}

func newSite(t testing.TB, o memento.Options) *site {
	t.Helper()
	s := &site{store: memento.NewMem(), contents: make(map[[32]byte][]byte)}
	var h *memento.Handler
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	s.base = memento.Base(s.URL + "/past/")
	o.Base, o.Open = s.base, s.open
	o.Logger = slog.New(slog.NewTextHandler(lockedWriter{s}, nil))
	h = memento.NewHandler(s.store, o)
	return s
}

type lockedWriter struct{ s *site }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

func (s *site) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// A content is bytes whose reading fails at a position.
type content struct {
	*bytes.Reader
	fails int64
}

var errFlipped = errors.New("blob x has a flipped bit")

func (c content) Read(p []byte) (int, error) {
	at, _ := c.Seek(0, io.SeekCurrent)
	if c.fails > 0 && at+int64(len(p)) > c.fails {
		if at >= c.fails {
			return 0, errFlipped
		}
		p = p[:c.fails-at]
	}
	return c.Reader.Read(p)
}

func (content) Close() error { return nil }

func (s *site) open(_ context.Context, v memento.Version) (memento.Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.contents[v.Digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return content{Reader: bytes.NewReader(text)}, nil
}

// put adds a version with a text; with an empty one, a deletion.
func (s *site) put(t testing.TB, uri string, at time.Time, text string, change ...func(*memento.Version)) {
	t.Helper()
	v := memento.Version{URI: uri, At: at, Gone: text == "", Length: int64(len(text)), Seq: at.UnixMicro()}
	if !v.Gone {
		v.Digest, v.Type, v.Lastmod = sha256.Sum256([]byte(text)), "text/plain", at
		s.mu.Lock()
		s.contents[v.Digest] = []byte(text)
		s.mu.Unlock()
	}
	for _, f := range change {
		f(&v)
	}
	if err := s.store.Append(t.Context(), "set", v.Seq, []memento.Version{v}); err != nil {
		t.Fatal(err)
	}
}

// A response is a response whose body was read.
type response struct {
	*http.Response
	text  string
	links []weblink.Link
}

// link returns the targets of a relation, and their datetimes.
func (r *response) link(rel string) (targets []string) {
	for _, l := range r.links {
		if l.Has(rel) {
			targets = append(targets, l.Target)
		}
	}
	return targets
}

// ask requests an address unchanged; the header is names and values in turn.
func ask(t testing.TB, method, address string, header ...string) *response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return &response{resp, string(text), weblink.Parse(resp.Header.Values("Link"), nil)}
}

func get(t testing.TB, address string, header ...string) *response {
	t.Helper()
	return ask(t, http.MethodGet, address, header...)
}

func day(n int) time.Time { return time.Date(2026, 3, n, 6, 0, 0, 0, time.UTC) }

func one(list []string) string { return strings.Join(list, " ") }

// serve serves h and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
