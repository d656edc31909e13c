package source_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lockstep/source"
)

const linkToMain = `<https://data.example.org/resourcesync/main/capabilitylist.xml>; rel="resourcesync"`

// A site is a published Source with content on disk, served over a real
// connection.
type site struct {
	*world
	dir    string
	server *httptest.Server
	src    *source.Source
}

// newSite serves files, whose names may hold any byte.
func newSite(t testing.TB, o source.Options, files map[string]string) *site {
	t.Helper()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	o.Content = func(rel string) (*os.File, fs.FileInfo, error) {
		f, err := root.Open(rel)
		if err != nil {
			return nil, nil, err
		}
		info, err := f.Stat()
		return f, info, err
	}
	s := &site{world: newWorld(t, o), dir: dir}
	s.world.clock.Set(time.Now().Add(-time.Hour))
	s.put("a.txt=1")
	s.src = s.source()
	s.publish(s.src)
	s.world.clock.Set(time.Now())
	s.server = httptest.NewServer(source.NewServer(s.src.Handler()).Handler)
	t.Cleanup(s.server.Close)
	return s
}

// do sends a request with the target exactly as given.
func (s *site) do(method, target string, header ...string) (*http.Response, string) {
	s.Helper()
	resp, body, err := exchange(s.server.Listener.Addr().String(), method, target, header...)
	if err != nil {
		s.Fatalf("%s %s: %v", method, target, err)
	}
	return resp, body
}

func exchange(addr, method, target string, header ...string) (*http.Response, string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: data.example.org\r\nConnection: close\r\n", method, target)
	for _, h := range header {
		request += h + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil { // at once: who refuses the first line does not wait for more
		return nil, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

const (
	list        = "/resourcesync/main/resourcelist.xml"
	description = "/.well-known/resourcesync"
)

func TestServeStatuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{
		"a.txt": "hello", "dir/b.txt": "b", "dir/\"b.txt": "q", "empty": "", "sp ace.txt": "space", "q?x": "question", "p%41": "percent",
		"\xff\xfe": "bytes", "é": "composed", "e\u0301": "decomposed", "new\nline": "newline", "a+b&c;d=e,f@g:h": "sub-delims",
		"robots.txt": "hidden", "resourcesync/x": "hidden", "-/x": "hidden", ".lockstep/x": "hidden", ".well-known/other": "shown",
		"index.html": "<p>mine",
	})
	for _, tt := range []struct {
		target string
		status int
		body   string // contained in the body
	}{
		{"/a.txt", 200, "hello"},
		{"/%61.txt", 200, "hello"},
		{"/a%2Etxt", 200, "hello"},
		{"/a.txt?x=y", 200, "hello"},
		{"http://data.example.org/a.txt", 200, "hello"},
		{"/dir/b.txt", 200, "b"},
		{"/empty", 200, ""},
		{"/sp%20ace.txt", 200, "space"},
		{"/q%3Fx", 200, "question"},
		{"/q%3fx", 200, "question"},
		{"/q?x", 404, ""},
		{"/p%2541", 200, "percent"},
		{"/pA", 404, ""},
		{"/%FF%FE", 200, "bytes"},
		{"/%C3%A9", 200, "composed"},
		{"/e%CC%81", 200, "decomposed"},
		{"/new%0Aline", 200, "newline"},
		{"/a+b&c;d=e,f@g:h", 200, "sub-delims"},
		{"/a%2Bb%26c%3Bd%3De%2Cf%40g%3Ah", 200, "sub-delims"},
		{"/.well-known/other", 200, "shown"},
		{"/index.html", 200, "<p>mine"},
		{"/", 200, "A ResourceSync Source"},
		{"/-/healthz", 200, "ok\n"},
		{description, 200, `capability="description"`},
		{list, 200, `capability="resourcelist"`},
		{"/resourcesync/main/changelist.xml", 200, `capability="changelist"`},
		{"/resourcesync/main/capabilitylist.xml", 200, `capability="capabilitylist"`},
		{"/resourcesync/m%61in/resourcelist.xml", 200, `capability="resourcelist"`},
		{"/robots.txt", 200, "Sitemap: https://data.example.org/resourcesync/main/resourcelist.xml"},

		{"/dir", 404, "nothing at this address"},
		{"/dir/", 404, "capabilitylist.xml"},
		{"/dir/../a.txt", 404, ""},
		{"/dir/%2e%2e/a.txt", 404, ""},
		{"/./a.txt", 404, ""},
		{"//a.txt", 404, ""},
		{"/dir//b.txt", 404, ""},
		{"/dir%2Fb.txt", 404, ""},
		{"/dir%2fb.txt", 404, ""},
		{"/dir%2F\"b.txt", 404, ""}, // a byte that should be encoded, and a slash that must not be decoded
		{"/a.txt/", 404, ""},
		{"/a.txt%00", 404, ""},
		{"/a.txt/b", 404, ""},
		{"/../a.txt", 404, ""},
		{"/" + strings.Repeat("x", 3000), 404, ""},
		{"/" + strings.Repeat("x/", 3000) + "x", 404, ""},
		{"/a.txt%", 400, ""},
		{"/a.txt%zz", 400, ""},
		{"/resourcesync/x", 404, ""},
		{"/resourcesync/main", 404, ""},
		{"/resourcesync/index.html/x", 404, ""},
		{"/resourcesync", 404, ""},
		{"/resourcesync/", 200, `rel="resourcesync"`},
		{"/-/x", 404, ""},
		{"/-/", 404, ""},
		{"/.lockstep/x", 404, ""},
		{"/.lockstep/main.json", 404, ""},
		{"/resourcesync/../.lockstep/main.json", 404, ""},
		{"/resourcesync/%2e%2e/.lockstep/main.json", 404, ""},
	} {
		resp, body := s.do("GET", tt.target)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("GET %.80q = %s, %.200q; want %d, %q", tt.target, resp.Status, body, tt.status, tt.body)
		}
		if tt.status == 400 {
			continue // net/http's own answer
		}
		if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("GET %.80q: X-Content-Type-Options %q", tt.target, got)
		}
		head, empty := s.do("HEAD", tt.target)
		if head.StatusCode != resp.StatusCode || empty != "" {
			t.Errorf("HEAD %.80q = %s, %d bytes; want %d, none", tt.target, head.Status, len(empty), resp.StatusCode)
		}
		for _, name := range []string{"Content-Length", "Content-Type", "Etag", "Last-Modified", "Link", "Cache-Control", "Vary"} {
			if got, want := head.Header.Get(name), resp.Header.Get(name); got != want {
				t.Errorf("HEAD %.80q: %s %q, GET has %q", tt.target, name, got, want)
			}
		}
	}
}

func TestServeMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": "hello"})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "XYZ"} {
		for _, target := range []string{"/a.txt", list, "/", "/nothing"} {
			resp, _ := s.do(method, target, "Content-Length: 0")
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s = %s, Allow %q", method, target, resp.Status, resp.Header.Get("Allow"))
			}
		}
	}
}

func TestServeHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{
		Type: func(rel string, head []byte) string {
			if strings.HasSuffix(rel, ".txt") && string(head) == "hello" {
				return "text/plain; charset=utf-8"
			}
			return ""
		},
	}, map[string]string{"a.txt": "hello", "b": "?"})
	for _, tt := range []struct{ target, typ, link, cache string }{
		{"/a.txt", "text/plain; charset=utf-8", linkToMain, "no-cache"},
		{"/b", "application/octet-stream", linkToMain, "no-cache"},
		{"/", "text/html; charset=utf-8", linkToMain, "no-cache"},
		{"/nothing", "text/html; charset=utf-8", linkToMain, "no-store"},
		{list, "application/xml; charset=utf-8", "", "no-cache"},
		{description, "application/xml; charset=utf-8", "", "no-cache"},
		{"/robots.txt", "text/plain; charset=utf-8", "", "no-cache"},
	} {
		resp, _ := s.do("GET", tt.target)
		for name, want := range map[string]string{"Content-Type": tt.typ, "Link": tt.link, "Cache-Control": tt.cache} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("GET %s: %s %q, want %q", tt.target, name, got, want)
			}
		}
		etag := resp.Header.Get("ETag")
		if tt.cache == "no-cache" && (len(etag) < 10 || etag[0] != '"') {
			t.Errorf("GET %s: ETag %q, want a strong one", tt.target, etag)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); strings.HasPrefix(tt.typ, "text/html") != strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("GET %s: Content-Security-Policy %q", tt.target, csp)
		}
	}
}

func TestServeConditional(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": "hello"})
	for _, target := range []string{"/a.txt", list, description, "/robots.txt"} {
		resp, _ := s.do("GET", target)
		etag, mod := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
		at, err := http.ParseTime(mod)
		if err != nil {
			t.Fatalf("%s: Last-Modified %q", target, mod)
		}
		earlier, later := at.Add(-time.Second).Format(http.TimeFormat), at.Add(time.Hour).Format(http.TimeFormat)
		for _, tt := range []struct {
			header string
			status int
		}{
			{"If-None-Match: " + etag, 304},
			{"If-None-Match: W/" + etag, 304},
			{"If-None-Match: \"x\", " + etag, 304},
			{"If-None-Match: *", 304},
			{"If-None-Match: \"x\"", 200},
			{"If-None-Match: \"x\"\r\nIf-Modified-Since: " + mod, 200},
			{"If-Modified-Since: " + mod, 304},
			{"If-Modified-Since: " + later, 304},
			{"If-Modified-Since: " + earlier, 200},
			{"If-Modified-Since: nonsense", 200},
			{"If-Match: " + etag, 200},
			{"If-Match: \"x\"", 412},
			{"If-Unmodified-Since: " + mod, 200},
			{"If-Unmodified-Since: " + earlier, 412},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				resp, body := s.do(method, target, tt.header)
				if resp.StatusCode != tt.status || tt.status == 304 && body != "" {
					t.Errorf("%s %s, %s = %s, want %d", method, target, tt.header, resp.Status, tt.status)
				}
				if tt.status == 304 && (resp.Header.Get("ETag") != etag || resp.Header.Get("Cache-Control") == "") {
					t.Errorf("%s %s, %s: 304 with header %v", method, target, tt.header, resp.Header)
				}
			}
		}
	}
}

func TestServeRanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": "0123456789"})
	full, whole := s.do("GET", list)
	if full.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("Accept-Ranges %q", full.Header.Get("Accept-Ranges"))
	}
	size := len(whole)
	resp, _ := s.do("GET", "/a.txt")
	etag, mod := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	for _, tt := range []struct {
		target, header string
		status         int
		body           string
	}{
		{"/a.txt", "Range: bytes=2-4", 206, "234"},
		{"/a.txt", "Range: bytes=7-", 206, "789"},
		{"/a.txt", "Range: bytes=-3", 206, "789"},
		{"/a.txt", "Range: bytes=-0", 416, ""},
		{list, "Range: bytes=-0", 416, ""},
		{list, "Range: bytes=-0\r\nAccept-Encoding: gzip", 416, ""},
		{"/a.txt", "Range: bytes=8-100", 206, "89"},
		{"/a.txt", "Range: bytes=10-", 416, ""},
		{"/a.txt", "Range: bytes=5-2", 416, ""},
		{"/a.txt", "Range: bytes=a-b", 416, ""},
		{"/a.txt", "Range: bytes=2-4\r\nIf-Range: " + etag, 206, "234"},
		{"/a.txt", "Range: bytes=2-4\r\nIf-Range: \"x\"", 200, "0123456789"},
		{"/a.txt", "Range: bytes=2-4\r\nIf-Range: W/" + etag, 200, "0123456789"},
		{"/a.txt", "Range: bytes=2-4\r\nIf-Range: " + mod, 206, "234"},
		{"/a.txt", "Range: bytes=2-4\r\nIf-Range: Sat, 01 Jan 2000 00:00:00 GMT", 200, "0123456789"},
		{"/a.txt", "Range: bytes=2-4\r\nIf-None-Match: " + etag, 304, ""},
		{list, "Range: bytes=0-4", 206, whole[:5]},
		{list, "Range: bytes=10-", 206, whole[10:]},
		{list, fmt.Sprintf("Range: bytes=%d-", size), 416, ""},
	} {
		resp, body := s.do("GET", tt.target, tt.header)
		if resp.StatusCode != tt.status || tt.status < 300 && body != tt.body {
			t.Errorf("GET %s, %s = %s, %q; want %d, %q", tt.target, tt.header, resp.Status, body, tt.status, tt.body)
		}
	}

	resp, body := s.do("GET", "/a.txt", "Range: bytes=0-1,5-6,-1")
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || resp.StatusCode != 206 {
		t.Fatalf("several ranges: %s, %v", resp.Status, err)
	}
	var got []string
	for r := multipart.NewReader(strings.NewReader(body), params["boundary"]); ; {
		part, err := r.NextPart()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(part)
		got = append(got, part.Header.Get("Content-Range")+" "+string(data))
	}
	if want := "bytes 0-1/10 01|bytes 5-6/10 56|bytes 9-9/10 9"; strings.Join(got, "|") != want {
		t.Errorf("several ranges: %q, want %q", got, want)
	}
}

func TestServeGzip(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": strings.Repeat("hello", 1000)})
	plain, whole := s.do("GET", list)
	var zipped string
	for _, tt := range []struct {
		accept string
		gzip   bool
	}{
		{"", false}, {"gzip", true}, {"GZIP", true}, {"x-gzip", true}, {"gzip, deflate, br", true}, {"br;q=1.0, gzip;q=0.8, *;q=0.1", true},
		{"gzip;q=0", false}, {"gzip; q=0.000", false}, {"gzip;q=0.001", true}, {"identity", false}, {"*", true}, {"*;q=0", false},
		{"identity;q=0.5, gzip", true}, {"identity, gzip;q=0.5", false}, {"gzip;q=0, *", false}, {"gzip;q=2", false}, {"gzip;q=x", false},
		{"br\r\nAccept-Encoding: gzip", true}, {"deflate", false}, {"gzipped", false}, {" gzip ; q=1 ", true},
	} {
		resp, body := s.do("GET", list, "Accept-Encoding: "+tt.accept)
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != tt.gzip || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding: %s: gzip %v, want %v; Vary %q", tt.accept, got, tt.gzip, resp.Header.Get("Vary"))
		}
		if !tt.gzip {
			if body != whole || resp.Header.Get("ETag") != plain.Header.Get("ETag") {
				t.Errorf("Accept-Encoding: %s: another document", tt.accept)
			}
			continue
		}
		zipped = body
		r, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != whole {
			t.Errorf("Accept-Encoding: %s: %d bytes, %v, want %d", tt.accept, len(got), err, len(whole))
		}
		if resp.ContentLength != int64(len(body)) {
			t.Errorf("Accept-Encoding: %s: Content-Length %d, want %d", tt.accept, resp.ContentLength, len(body))
		}
	}
	resp, _ := s.do("HEAD", list, "Accept-Encoding: gzip")
	etag := resp.Header.Get("ETag")
	if etag == plain.Header.Get("ETag") || resp.ContentLength != int64(len(zipped)) {
		t.Errorf("HEAD: ETag %s, length %d", etag, resp.ContentLength)
	}
	if resp, _ := s.do("GET", list, "Accept-Encoding: gzip", "If-None-Match: "+etag); resp.StatusCode != 304 {
		t.Errorf("If-None-Match with the compressed form's tag = %s", resp.Status)
	}
	if resp, body := s.do("GET", list, "Accept-Encoding: gzip", "Range: bytes=5-9", "If-Range: "+etag); resp.StatusCode != 206 || body != zipped[5:10] {
		t.Errorf("range of the compressed form = %s, %q, want %q", resp.Status, body, zipped[5:10])
	}
	if resp, body := s.do("GET", "/a.txt", "Accept-Encoding: gzip"); resp.Header.Get("Content-Encoding") != "" || len(body) != 5000 {
		t.Errorf("resource: Content-Encoding %q, %d bytes; want it as it is", resp.Header.Get("Content-Encoding"), len(body))
	}
}

// An entity tag changes with the bytes of a document, and only with them.
func TestEntityTagsOfDocuments(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, nil)
	tags := func() map[string]string {
		all := make(map[string]string)
		for _, target := range []string{list, "/resourcesync/main/changelist.xml", description, "/resourcesync/main/capabilitylist.xml", "/robots.txt"} {
			resp, body := s.do("GET", target)
			all[target] = resp.Header.Get("ETag") + " " + body
		}
		return all
	}
	first := tags()
	s.src = s.source()
	s.publish(s.src)
	s.server.Config.Handler = s.src.Handler()
	for target, was := range first {
		if now := tags()[target]; now != was {
			t.Errorf("%s after a restart without changes: %.40s, was %.40s", target, now, was)
		}
	}
	s.put("b.txt=2")
	s.publish(s.src)
	for target, was := range first {
		oldTag, oldBody, _ := strings.Cut(was, " ")
		newTag, newBody, _ := strings.Cut(tags()[target], " ")
		if (oldTag == newTag) != (oldBody == newBody) {
			t.Errorf("%s: tag %s, was %s; body the same: %v", target, newTag, oldTag, oldBody == newBody)
		}
		if strings.HasSuffix(target, "list.xml") && !strings.Contains(target, "capability") && oldTag == newTag {
			t.Errorf("%s has not changed", target)
		}
	}
}

// A file that changes without its length or times showing it at once must not
// be taken for what it was.
func TestEntityTagsOfResources(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, map[string]string{"a.txt": "11111"})
	time.Sleep(60 * time.Millisecond) // the file is no longer young
	s.pass(60 * time.Millisecond)
	resp, _ := s.do("GET", "/a.txt")
	first := resp.Header.Get("ETag")
	if resp, _ := s.do("GET", "/a.txt"); resp.Header.Get("ETag") != first {
		t.Errorf("ETag %s, was %s", resp.Header.Get("ETag"), first)
	}
	path := filepath.Join(s.dir, "a.txt")
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, []byte("22222"), 0o666)
	}
	if err == nil {
		err = os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.pass(time.Second)
	if resp, body := s.do("GET", "/a.txt", "If-None-Match: "+first); resp.StatusCode != 200 || body != "22222" {
		t.Errorf("after a change: %s, %q", resp.Status, body)
	}
}

// Two versions within a second have the same time in seconds: whoever has the
// first must get the second.
func TestLastModifiedWithinASecond(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, nil)
	s.world.clock.Set(time.Now().Truncate(time.Second).Add(100 * time.Millisecond))
	s.put("b.txt=1")
	s.publish(s.src)
	resp, _ := s.do("GET", list)
	since := "If-Modified-Since: " + resp.Header.Get("Last-Modified")
	s.pass(100 * time.Millisecond)
	s.put("c.txt=1")
	s.publish(s.src)
	s.pass(10 * time.Second)
	resp, body := s.do("GET", list, since)
	if resp.StatusCode != 200 || !strings.Contains(body, "c.txt") {
		t.Errorf("second version = %s", resp.Status)
	}
	if resp, _ := s.do("GET", list, "If-Modified-Since: "+resp.Header.Get("Last-Modified")); resp.StatusCode != 304 {
		t.Errorf("second version again = %s", resp.Status)
	}
}

// TestLastModifiedOfAClockAhead: a process whose clock is behind serves a document that
// another has changed. Clients that know the version before it, by its time, get it.
func TestLastModifiedOfAClockAhead(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, nil)
	s.put("b.txt=1")
	s.publish(s.src)
	s.pass(time.Minute)
	resp, _ := s.do("GET", list)
	since := "If-Modified-Since: " + resp.Header.Get("Last-Modified")
	s.put("c.txt=1")
	s.publish(s.src)
	s.pass(-5 * time.Minute)
	resp, body := s.do("GET", list, since)
	if resp.StatusCode != 200 || !strings.Contains(body, "c.txt") || resp.Header.Get("Last-Modified") != "" {
		t.Errorf("by a clock behind: %s, Last-Modified %q", resp.Status, resp.Header.Get("Last-Modified"))
	}
	if resp, _ := s.do("GET", list, "If-None-Match: "+resp.Header.Get("ETag")); resp.StatusCode != 304 {
		t.Errorf("the same by its entity tag: %s", resp.Status)
	}
	s.pass(6 * time.Minute)
	if resp, _ := s.do("GET", list, since); resp.StatusCode != 200 || resp.Header.Get("Last-Modified") == "" {
		t.Errorf("later: %s, Last-Modified %q", resp.Status, resp.Header.Get("Last-Modified"))
	}
}

func TestServeBelowAPath(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{BaseURL: "https://data.example.org/some/d%C3%A9p%20ot"}, map[string]string{"a.txt": "hello"})
	for target, status := range map[string]int{
		"/some/d%C3%A9p%20ot/a.txt":                                200,
		"/some/d%c3%a9p%20ot/a.txt":                                200,
		"/some/d%C3%A9p%20ot/":                                     200,
		"/some/d%C3%A9p%20ot/.well-known/resourcesync":             200,
		"/some/d%C3%A9p%20ot/resourcesync/main/capabilitylist.xml": 200,
		"/some/d%C3%A9p%20ot/robots.txt":                           200,
		"/.well-known/resourcesync":                                200,
		"/robots.txt":                                              200,
		"/some/d%C3%A9p%20ot":                                      404,
		"/":                                                        404,
		"/a.txt":                                                   404,
		"/resourcesync/main/capabilitylist.xml":                    404,
		"/some/d%C3%A9p%20ot/some/d%C3%A9p%20ot/a.txt":             404,
		"/some/d%C3%A9p%20otter/a.txt":                             404,
	} {
		if resp, _ := s.do("GET", target); resp.StatusCode != status {
			t.Errorf("GET %s = %s, want %d", target, resp.Status, status)
		}
	}
	resp, body := s.do("GET", "/robots.txt")
	if want := "Sitemap: https://data.example.org/some/d%C3%A9p%20ot/resourcesync/main/resourcelist.xml\n"; !strings.Contains(body, want) {
		t.Errorf("robots.txt %s\n%s\nwant %s", resp.Status, body, want)
	}
}

func TestLinksOfSets(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{Sets: []source.Set{{Name: "all"}, {Name: "one", Path: "/dir/one/"}, {Name: "main", Path: "other"}}},
		map[string]string{"dir/one/x": "1", "dir/one two": "2", "other/y": "3"})
	link := func(set string) string {
		return "<https://data.example.org/resourcesync/" + set + `/capabilitylist.xml>; rel="resourcesync"`
	}
	for target, want := range map[string][]string{
		"/dir/one/x":     {link("all"), link("one")},
		"/dir/one%20two": {link("all")},
		"/other/y":       {link("all"), link("main")},
		"/":              {link("all")}, // the others do not cover it (RS-DISC-04)
		"/other/missing": {link("all"), link("main")},
	} {
		resp, _ := s.do("GET", target)
		if got := strings.Join(resp.Header.Values("Link"), "\n"); got != strings.Join(want, "\n") {
			t.Errorf("GET %s: Link\n%s\nwant\n%s", target, got, strings.Join(want, "\n"))
		}
	}
	if _, body := s.do("GET", description); strings.Count(body, "<url>") != 3 {
		t.Errorf("Source Description\n%s", body)
	}
}

func TestHomePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{Sets: []source.Set{{Name: "main", Description: "https://data.example.org/about?a&b", OAI: "https://data.example.org/oai"}}}, nil)
	_, body := s.do("GET", "/")
	for _, want := range []string{
		`<link rel="resourcesync" href="https://data.example.org/resourcesync/main/capabilitylist.xml">`,
		`<a href="https://data.example.org/.well-known/resourcesync">`,
		`<a href="https://data.example.org/about?a&amp;b">`,
		`<a href="https://data.example.org/oai?verb=Identify">OAI-PMH</a>`,
		"1 resource on <time",
		"<h1>A ResourceSync Source</h1>",
		`<html lang="en">`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("home page lacks %s:\n%s", want, body)
		}
	}
	resp, body := s.do("GET", "/nothing/%3Cscript%3E")
	_, style, _ := strings.Cut(body, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, base64.StdEncoding.EncodeToString(sum[:])) {
		t.Errorf("Content-Security-Policy %q does not allow our own style", csp)
	}
	if strings.Contains(body, "<script") || !strings.Contains(body, "There is nothing at this address.") ||
		!strings.Contains(body, `<link rel="resourcesync"`) {
		t.Errorf("page not found:\n%s", body)
	}
}

// TestLandingPage: the home page has the title and the description of the collection, commands
// to copy, and of private sets nothing for strangers. What an operator copied from elsewhere stays
// text.
func TestLandingPage(t *testing.T) {
	t.Parallel()
	const hostile = `Maps"><script src=//evil.example></script><img src=x onerror=alert(1)>`
	o := source.Options{
		Title: hostile, Summary: "All maps & plans", Explore: "https://data.example.org/-/explore/",
		Sets: []source.Set{
			{Name: "main", Title: "Coast", Summary: hostile, Atom: &source.Atom{}, OAI: "https://data.example.org/oai", Path: "coast"},
			{Name: "hush", Title: "Hushed title", Summary: "Hushed summary", Path: "hush", Private: true, Atom: &source.Atom{}},
		},
	}
	s := newSite(t, o, nil)
	resp, body := s.do("GET", "/")
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	var copied, links []string
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" {
				t.Errorf("element %s has %s=%s", n.Data, a.Key, a.Val)
			}
			if n.Data == "a" && a.Key == "href" {
				links = append(links, a.Val)
			}
		}
		if n.Data == "pre" {
			var text strings.Builder
			for d := range n.Descendants() {
				if d.Type == html.TextNode {
					text.WriteString(d.Data)
				}
			}
			copied = append(copied, text.String())
		}
	}
	if count["script"] != 1 || count["img"] != 0 || count["h1"] != 1 {
		t.Errorf("elements %v", count)
	}
	want := []string{
		"lockstep sync https://data.example.org/ DIRECTORY", "lockstep follow https://data.example.org/ DIRECTORY",
		"https://data.example.org/resourcesync/main/atom.xml", "https://data.example.org/oai",
	}
	if !slices.Equal(copied, want) {
		t.Errorf("to copy: %q, want %q", copied, want)
	}
	if !slices.Contains(links, "https://data.example.org/-/explore/") {
		t.Errorf("no link to the pages for browsing: %q", links)
	}
	for _, not := range []string{"hush", "Hushed"} {
		if strings.Contains(body, not) {
			t.Errorf("strangers see %q:\n%s", not, body)
		}
	}
	for _, part := range []string{"All maps &amp; plans", "Coast", "<dt>Resources</dt>"} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s in\n%s", part, body)
		}
	}
	csp := resp.Header.Get("Content-Security-Policy")
	for _, name := range []string{"style", "script"} {
		_, text, _ := strings.Cut(body, "<"+name+">")
		text, _, _ = strings.Cut(text, "</"+name+">")
		sum := sha256.Sum256([]byte(text))
		if !strings.Contains(csp, name+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("Content-Security-Policy %q does not allow our own %s", csp, name)
		}
	}
	if strings.Contains(csp, "connect-src") || strings.Contains(csp, "unsafe") {
		t.Errorf("Content-Security-Policy %q allows more", csp)
	}
	if _, feed := s.do("GET", "/resourcesync/main/atom.xml"); !strings.Contains(feed, "<title>Coast</title>") {
		t.Errorf("feed:\n%.500s", feed)
	}
	for _, target := range []string{"/resourcesync/", "/nothing"} {
		if _, body := s.do("GET", target); strings.Contains(body, "Hushed") || strings.Contains(body, "<script") {
			t.Errorf("%s:\n%s", target, body)
		}
	}
}

// A document that is replaced while it is read stays what it was.
func TestDocumentReplacedWhileRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{}, nil)
	s.fill("x/%06d", 6000)
	s.publish(s.src)
	_, want := s.do("GET", list)
	resp, err := s.server.Client().Get(s.server.URL + list)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	if _, err := io.CopyN(&got, resp.Body, 1000); err != nil {
		t.Fatal(err)
	}
	s.put("y=1", "x/000001")
	s.publish(s.src)
	if _, err := io.Copy(&got, resp.Body); err != nil || got.String() != want {
		t.Errorf("read %d bytes, %v; want the %d bytes of the version that was begun", got.Len(), err, len(want))
	}
}
