package source_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/intake/dir"
	"lockstep/internal/mediatype"
	"lockstep/source"
)

// A frontWorld is a Source of a directory, served with and without a front.
type frontWorld struct {
	t     *testing.T
	dir   string
	src   *source.Source
	front string // HOST:PORT
	plain string
	stop  func() error // of the server behind the front
}

func newFrontWorld(t *testing.T, files map[string]string, sets ...source.Set) *frontWorld {
	t.Helper()
	w := &frontWorld{t: t, dir: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // tags of what is younger are for one answer only
	cat := catalog.NewMem(nil)
	const base = "http://data.example.org/"
	list, err := source.CapabilityListURI(base, source.DefaultSet)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dir.New(w.dir, cat, list, dir.Options{BaseURI: base, Exclude: []string{"*.hidden"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := source.New(cat, new(blob.Mem), source.Options{
		BaseURL: base, Content: d.Open, Mark: d.Mark, Type: mediatype.Of, Sets: sets,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.src = s
	h := s.Handler()
	serve := func(l net.Listener) *http.Server {
		srv := source.NewServer(h)
		go func() { _ = srv.Serve(l) }() // ends with Close
		t.Cleanup(func() { _ = srv.Close() })
		return srv
	}
	l := listen(t)
	w.plain = l.Addr().String()
	serve(l)
	l = listen(t)
	w.front = l.Addr().String()
	srv := serve(s.Front(l, h))
	w.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return srv.Shutdown(ctx)
	}
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *frontWorld) dial(address string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c, bufio.NewReader(c)
}

// exchange sends requests on one connection and tells what comes back, but for
// the Date.
func (w *frontWorld) exchange(address string, requests ...string) []string {
	w.t.Helper()
	c, r := w.dial(address)
	var got []string
	for _, request := range requests {
		if _, err := io.WriteString(c, request); err != nil {
			return append(got, "cannot be sent")
		}
		method, _, _ := strings.Cut(request, " ")
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return append(got, "no answer")
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.Header.Get("Date") == "" && resp.StatusCode < 400 {
			w.t.Errorf("%q: an answer without Date", request)
		}
		resp.Header.Del("Date")
		var header bytes.Buffer
		_ = resp.Header.Write(&header) // into memory
		got = append(got, fmt.Sprintf("%s %s\n%s\n%s%v %v", resp.Proto, resp.Status, header.String(), body, err, resp.Close))
		if resp.Close {
			break
		}
	}
	return got
}

const plainHead = " HTTP/1.1\r\nHost: data.example.org\r\n"

// TestFrontAnswersAlike sends the same requests with and without a front,
// before and after answers are kept, and demands the same answers.
func TestFrontAnswersAlike(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.txt": "hello", "empty.bin": "", "d/page.html": "<p>page</p>", "big.bin": strings.Repeat("0123456789", 100_000),
		"x.hidden": "secret", "odd name.txt": "odd", ".dot": "dotted",
	}
	w := newFrontWorld(t, files)
	get := func(path string, lines ...string) string {
		return "GET " + path + plainHead + joined(lines) + "\r\n"
	}
	list := "/resourcesync/main/resourcelist.xml"
	cases := [][]string{
		{get("/a.txt"), get("/a.txt"), get("/d/page.html"), get("/empty.bin"), get("/big.bin"), get("/a.txt")},
		{get("/a.txt", "Accept-Encoding: gzip"), get(list, "Accept-Encoding: gzip"), get(list), get(list, "Accept-Encoding: gzip;q=0")},
		{get("/"), get("/a.txt")}, {get("/nothing"), get("/a.txt")}, {get("/x.hidden"), get("/d"), get("/d/")},
		{get("/odd%20name.txt"), get("/.dot"), get("/a.txt?q"), get("/a.txt#f")},
		{get("/d/../a.txt"), get("//a.txt"), get("/./a.txt")},
		{get("/a.txt", "Range: bytes=1-2"), get("/a.txt", "If-None-Match: *"), get("/a.txt", "If-Modified-Since: Mon, 02 Jan 2040 15:04:05 GMT")},
		{"HEAD /a.txt" + plainHead + "\r\n", get("/a.txt")},
		{"POST /a.txt" + plainHead + "Content-Length: 2\r\n\r\nxx", get("/a.txt")},
		{get("/a.txt", "Connection: close")}, {"GET /a.txt HTTP/1.0\r\n\r\n"}, {"GET /a.txt HTTP/1.1\r\n\r\n"},
		{"GET /a.txt" + plainHead + "Host: other\r\n\r\n"}, {"GET /a.txt\r\n\r\n"}, {"nonsense\r\n\r\n"},
		{get("/robots.txt"), get("/.well-known/resourcesync"), get("/-/healthz"), get("/resourcesync/")},
		{get("/a.txt", "X-Long: "+strings.Repeat("x", 6000)), get("/a.txt")},
		{get("/a.txt", "Expect: 100-continue"), get("/a.txt")}, {get("/a.txt", "Upgrade: h2c", "Connection: Upgrade")},
	}
	time.Sleep(1200 * time.Millisecond) // what is younger than a second says so, and a second later otherwise
	for round := range 3 {
		for _, c := range cases {
			want, got := w.exchange(w.plain, c...), w.exchange(w.front, c...)
			if strings.Join(want, "\n---\n") != strings.Join(got, "\n---\n") {
				t.Errorf("round %d: %.300q:\n%.600q\nwithout a front:\n%.600q", round, c, got, want)
			}
		}
		time.Sleep(1200 * time.Millisecond) // answers become ripe
	}
}

func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String()
}

// TestFrontPipelined sends many requests at once, some of them for the server
// behind.
func TestFrontPipelined(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"a.txt": "one", "b.txt": "two"})
	for _, last := range []string{"", "If-None-Match: \"no\"\r\n"} {
		c, r := w.dial(w.front)
		var all strings.Builder
		for i := range 20 {
			all.WriteString("GET /" + []string{"a", "b"}[i%2] + ".txt" + plainHead)
			if i == 13 {
				all.WriteString(last)
			}
			all.WriteString("\r\n")
		}
		if _, err := io.WriteString(c, all.String()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(i, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(body) != []string{"one", "two"}[i%2] {
				t.Fatalf("answer %d is %q, %v", i, body, err)
			}
		}
	}
}

// TestFrontIsNeverStale reads a file while it is replaced and rewritten in
// place: an answer is never older than what was there when it was asked for.
func TestFrontIsNeverStale(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"f.txt": "0000000000"})
	path := filepath.Join(w.dir, "f.txt")
	var mu sync.Mutex
	version := 0
	stop := time.Now().Add(2 * time.Second)
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() {
			c, r := w.dial(w.front)
			for time.Now().Before(stop) {
				mu.Lock()
				before := version
				mu.Unlock()
				if _, err := io.WriteString(c, "GET /f.txt"+plainHead+"\r\n"); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				got, perr := strconv.Atoi(string(body))
				if err != nil || perr != nil || got < before {
					t.Errorf("got %q, %v, when version %d was there", body, err, before)
					return
				}
			}
		})
	}
	for i := 1; time.Now().Before(stop); i++ {
		text := fmt.Appendf(nil, "%010d", i)
		var err error
		if i%2 == 0 {
			if err = os.WriteFile(path+".hidden", text, 0o666); err == nil {
				err = os.Rename(path+".hidden", path)
			}
		} else {
			err = overwrite(path, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		version = i
		mu.Unlock()
		pause := time.Duration(i%7) * time.Millisecond
		if i%100 == 0 {
			pause = 2500 * time.Millisecond // time to become ripe
		}
		time.Sleep(pause)
	}
	g.Wait()
}

// overwrite writes the same number of bytes in place.
func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// TestFrontOutlivesPanics has the handler panic: that ends one connection.
func TestFrontOutlivesPanics(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"a.txt": "one"})
	l := listen(t)
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	srv := source.NewServer(h)
	go func() { _ = srv.Serve(w.src.Front(l, h)) }() // ends with Close
	defer srv.Close()
	for range 3 {
		if got := w.exchange(l.Addr().String(), "GET /a.txt"+plainHead+"\r\n"); got[0] != "no answer" {
			t.Errorf("got %q", got)
		}
	}
}

// TestFrontStops ends a server with connections of every kind.
func TestFrontStops(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"a.txt": "one"})
	for i := range 30 {
		c, r := w.dial(w.front)
		switch i % 3 {
		case 0: // silent
		case 1: // in the middle of a request
			_, _ = io.WriteString(c, "GET /a.tx")
		case 2: // idle after an answer
			_, _ = io.WriteString(c, "GET /a.txt"+plainHead+"\r\n")
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	start := time.Now()
	if err := w.stop(); err != nil || time.Since(start) > 30*time.Second {
		t.Errorf("stopped after %v: %v", time.Since(start), err)
	}
	if c, err := net.Dial("tcp", w.front); err == nil {
		_ = c.Close()
		t.Error("still takes connections")
	}
}
