package discover_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/discover"
	"lockstep/resourcesync"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http logs unsolicited responses there
	goleak.VerifyTestMain(m)
}

func zip(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func locs(t testing.TB, d *discover.Document) (string, error) {
	t.Helper()
	var all []string
	for e, err := range d.Entries() {
		if err != nil {
			return strings.Join(all, " "), err
		}
		all = append(all, e.Loc)
	}
	return strings.Join(all, " "), nil
}

func TestOpen(t *testing.T) {
	t.Parallel()
	list := doc(`capability="resourcelist"`+at, nil, "http://h/a", "b")
	file := filepath.Join(t.TempDir(), "list.xml")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := site{"/d/list.xml": list, "/d/list.xml.gz": zip(t, list), "/moved": "-> HOST/d/list.xml"}.serve(t)
	for _, tt := range []struct{ uri, final string }{
		{srv.URL + "/d/list.xml", srv.URL + "/d/list.xml"},
		{srv.URL + "/d/list.xml.gz", srv.URL + "/d/list.xml.gz"},
		{srv.URL + "/moved", srv.URL + "/d/list.xml"},
		{file, "file://" + filepath.ToSlash(file)},
		{"file://" + filepath.ToSlash(file), "file://" + filepath.ToSlash(file)},
	} {
		client := srv.client
		if !strings.HasPrefix(tt.uri, "http") {
			if _, err := discover.Open(t.Context(), client, tt.uri, discover.Validators{}); !errors.Is(err, discover.ErrLocal) {
				t.Errorf("Open(%s) where a Source on the network names it: %v, want %v", tt.uri, err, discover.ErrLocal)
			}
			client = newClient(t, file)
		}
		d, err := discover.Open(t.Context(), client, tt.uri, discover.Validators{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := locs(t, d)
		want := "http://h/a " + tt.final[:strings.LastIndex(tt.final, "/")] + "/b"
		if err != nil || got != want || d.URI != tt.uri || d.Final != tt.final {
			t.Errorf("Open(%s) = %q at %s, %v, want %q at %s", tt.uri, got, d.Final, err, want, tt.final)
		}
		if d.Header.Capability != resourcesync.ResourceList || d.Header.At.Time().Hour() != 2 || len(d.Warnings()) == 0 {
			t.Errorf("Open(%s) = %+v, warnings %v", tt.uri, d.Header, d.Warnings())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenConditional(t *testing.T) {
	t.Parallel()
	when := time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)
	list := doc(`capability="resourcelist"`+at, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, zip(t, list))
			return
		}
		http.ServeContent(w, r, "x.xml", when, strings.NewReader(list))
	}))
	t.Cleanup(s.Close)
	c := newClient(t, s.URL)
	d, err := discover.Open(t.Context(), c, s.URL, discover.Validators{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	srv := site{"/l": list}.serve(t)
	if d, err = discover.Open(t.Context(), srv.client, srv.URL+"/l", discover.Validators{}); err != nil {
		t.Fatal(err)
	}
	_ = d.Close() // only the validators are needed
	if _, err = discover.Open(t.Context(), srv.client, srv.URL+"/l", d.Validators); !errors.Is(err, discover.ErrNotModified) || d.ETag == "" {
		t.Errorf("Open with %+v = %v, want ErrNotModified", d.Validators, err)
	}
}

// TestOpenFresh: a document may change within the second in which it was read,
// so its Last-Modified is not a validator yet.
func TestOpenFresh(t *testing.T) {
	t.Parallel()
	list := doc(`capability="resourcelist"`+at, nil)
	now := time.Now().Truncate(time.Second)
	for _, tt := range []struct {
		name     string
		modified time.Time
		want     bool
	}{{"this second", now, false}, {"a second ago", now.Add(-time.Second), true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
				http.ServeContent(w, r, "x.xml", tt.modified, strings.NewReader(list))
			}))
			t.Cleanup(s.Close)
			d, err := discover.Open(t.Context(), newClient(t, s.URL), s.URL, discover.Validators{})
			if err != nil {
				t.Fatal(err)
			}
			_ = d.Close() // only the validators are needed
			if got := d.LastModified != ""; got != tt.want {
				t.Errorf("Last-Modified %q kept: %t, want %t", d.LastModified, got, tt.want)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	whole := doc(`capability="resourcelist"`+at, nil, "http://h/a")
	srv := site{
		"/login": "<!DOCTYPE html><html><body>Log in</body></html>", "/text": "hello", "/empty": "",
		"/feed": `<feed xmlns="http://www.w3.org/2005/Atom"/>`, "/cut": whole[:len(whole)-5], "/gz": zip(t, whole)[:60],
		"/bomb": `<!DOCTYPE x [<!ENTITY a "aaaa">]><urlset/>`, "/busy": "status 501",
	}.serve(t)
	for _, tt := range []struct {
		path string
		is   error
		want string
	}{
		{"/login", resourcesync.ErrHTML, "read HOST/login: "},
		{"/text", nil, "read HOST/text: "},
		{"/empty", nil, "read HOST/empty: "},
		{"/feed", resourcesync.ErrNotDocument, "feed"},
		{"/cut", io.ErrUnexpectedEOF, "read HOST/cut: line "},
		{"/gz", io.ErrUnexpectedEOF, "read HOST/gz: "},
		{"/bomb", nil, "read HOST/bomb: "},
		{"/none", nil, "get HOST/none: status 404 Not Found"},
		{"/busy", nil, "get HOST/busy: status 501"},
	} {
		d, err := discover.Open(t.Context(), srv.client, srv.URL+tt.path, discover.Validators{})
		if err == nil {
			_, err = locs(t, d)
			_ = d.Close() // the error of reading is more important
		}
		if err == nil || !strings.Contains(srv.strip(err.Error()), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("Open(%s) = %v, want %v, %s", tt.path, err, tt.is, tt.want)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := discover.Open(t.Context(), srv.client, path, discover.Validators{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Open(%s) = %v", path, err)
		}
	}
}

// A document whose connection breaks is still read to its end.
func TestOpenMends(t *testing.T) {
	t.Parallel()
	var entries []string
	for i := range 2000 {
		entries = append(entries, fmt.Sprintf("http://h/%d", i))
	}
	list := doc(`capability="resourcelist"`+at, nil, entries...)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Length", fmt.Sprint(len(list)))
		if n < 4 {
			_, _ = io.WriteString(w, list[:n*len(list)/4])
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, list)
	}))
	t.Cleanup(s.Close)
	d, err := discover.Open(t.Context(), newClient(t, s.URL), s.URL, discover.Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := locs(t, d); err != nil || got != strings.Join(entries, " ") {
		t.Errorf("read %d bytes of URIs, %v", len(got), err)
	}
}

// If a server stops sending in the middle of a document (the network reports
// only "EOF"), the document is not complete.
func TestOpenSilenced(t *testing.T) {
	t.Parallel()
	var entries []string
	for i := range 2000 {
		entries = append(entries, fmt.Sprintf("http://h/%d", i))
	}
	list := doc(`capability="resourcelist"`+at, nil, entries...)
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(list)))
			_, _ = io.WriteString(w, list[:len(list)/2])
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(s.Close)
	d, err := discover.Open(t.Context(), newClient(t, s.URL), s.URL, discover.Validators{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := locs(t, d); err == nil {
		t.Errorf("read %d of %d bytes of URIs and no error", len(got), len(strings.Join(entries, " ")))
	} else {
		t.Log(err)
	}
}
