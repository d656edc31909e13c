package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var fullMemory = flag.Bool("memory", false, "run the tests of memory with the sizes that are promised, which takes minutes")

// sized returns the size to test with.
func sized(full, quick int) int {
	if *fullMemory {
		return full
	}
	return quick
}

// peakOf runs a sync and returns its exit code, what it said, and the most
// memory it had.
func peakOf(t *testing.T, args ...string) (code int, said string, peak int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lockstep", append([]string{"sync"}, args...)...)
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if code, err = exitCodeOf(err); err != nil || ctx.Err() != nil {
				t.Fatalf("sync: %v, %v\n%s", err, ctx.Err(), &out)
			}
			return code, out.String(), peak
		case <-tick.C:
			peak = max(peak, highWater(cmd.Process.Pid))
		}
	}
}

// highWater returns the most memory a process had so far, or 0 if it has ended.
func highWater(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // none when it has ended
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return n << 10
}

// TestMemory mirrors many small resources and a large one.
func TestMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes several times the memory")
	}
	t.Parallel()
	large := int64(sized(400<<20, 60<<20))
	sum := sha256.New()
	_, _ = io.CopyN(sum, blank, large) // neither fails
	src := newLiveSource(t)
	src.churn(0, 0, sized(10_000, 1500))
	inner := http.HandlerFunc(src.serve)
	src.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(large))
			_, _ = io.CopyN(w, blank, large)
		case "/resourcelist.xml":
			rec := httptest.NewRecorder()
			inner.ServeHTTP(rec, r)
			entry := fmt.Sprintf(`<url><loc>%s/large</loc><rs:md hash="sha-256:%s" length="%d"/></url></urlset>`, src.URL, hex.EncodeToString(sum.Sum(nil)), large)
			_, _ = io.WriteString(w, strings.Replace(rec.Body.String(), "</urlset>", entry, 1))
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	dest := filepath.Join(t.TempDir(), "mirror")
	code, said, peak := peakOf(t, src.address(), dest)
	if info, err := os.Stat(filepath.Join(dest, "large")); code != 0 || err != nil || info.Size() != large {
		t.Fatalf("exit code %d, %v\n%s", code, err, said)
	}
	t.Logf("peak memory %d MiB", peak>>20)
	if peak > 128<<20 {
		t.Errorf("peak memory %d MiB, want at most 128", peak>>20)
	}
}

// endless repeats text for ever, from its beginning in each Read.
type endless string

var blank = endless(strings.Repeat(" ", 32<<10))

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	if n == 0 {
		return copy(p, e), nil
	}
	return n, nil
}

const hostileList = liveRoot + `<rs:md capability="resourcelist" at="2024-01-01T00:00:00Z"/>`

// sendText answers with a text that has a beginning, but no end.
func sendText(head, tail string) http.HandlerFunc {
	many := strings.Repeat(tail, 1+(32<<10)/len(tail)) // never cut in the middle
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for err == nil { // until the client has had enough
			_, err = io.WriteString(w, many)
		}
	}
}

// sendMuch is sendText for what a reader accepts, piece by piece, as far as its
// limit, which takes long. Without -memory it breaks off after size bytes.
func sendMuch(size int, head, tail string) http.HandlerFunc {
	if *fullMemory {
		return sendText(head, tail)
	}
	many := strings.Repeat(tail, 1+(32<<10)/len(tail))
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < size; n += len(many) {
			_, err = io.WriteString(w, many)
		}
	}
}

// quickBytes is how much an endless document has without -memory: many times
// what may be in memory of it at a time.
const quickBytes = 24 << 20

// TestMemoryHostile mirrors from Sources that send as much as they can.
func TestMemoryHostile(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes several times the memory")
	}
	t.Parallel()
	known := newLiveSource(t)
	known.put("a", 10)
	tests := []struct {
		name   string
		handle http.HandlerFunc
		args   []string // for a mirror there is already
		ends   bool     // with exit 0
	}{
		{"endless entries", endlessEntries(strings.Repeat("long/", 200)), []string{"--dry-run", "--baseline", "--delete", "keep"}, false},
		{"endless entries, nothing there", endlessEntries(strings.Repeat("long/", 200)), []string{"--dry-run"}, false},
		{"disorder, nothing there", disorder(sized(2_000_000, 60_000)), []string{"--dry-run"}, true}, // sorted in 80 MiB of memory
		{"disorder", disorder(sized(8_000_000, 80_000)), []string{"--dry-run", "--baseline", "--delete", "keep"}, true},
		{"endless comment", sendText(hostileList+"<!--", "for ever and ever "), nil, false},
		{"endless attribute", sendText(hostileList+`<url a="`, "for ever and ever "), nil, false},
		{"endless loc", sendText(hostileList+`<url><loc>http://HOST/`, "for/ever/"), nil, false},
		{"endless depth", sendText(hostileList, "<a>"), nil, false},
		{"endless blanks", sendText("", "          "), nil, false},
		{"endless page", sendText("<!DOCTYPE html><html><head>", `<link rel="resourcesync" href="/a">`), nil, false},
		{"gzip bomb", gzipBomb(sized(8<<30, 1<<30)), nil, false},
		{"huge headers", hugeHeaders, nil, false},
		{"long URIs", longURIs(sized(20, 2)), []string{"--dry-run", "--baseline", "--delete", "keep"}, true},
		{"many missing", longURIs(0), nil, false},
		{"index of many parts", manyParts(sized(50_000, 1000)), nil, false},
		{"endless resource", endlessResource, nil, false},
	}
	if *fullMemory { // ten million entries take a minute
		tests = append(tests, tests[0], tests[1])
		tests[len(tests)-2].name, tests[len(tests)-2].handle = "endless short entries", endlessEntries("")
		tests[len(tests)-1].name, tests[len(tests)-1].handle = "endless short entries, nothing there", endlessEntries("")
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.handle)
			t.Cleanup(srv.Close)
			start := time.Now()
			dest := filepath.Join(t.TempDir(), "mirror")
			if len(tt.args) > 1 {
				checkGoesOn(t, known, dest)
			}
			args := append([]string{srv.URL + "/resourcelist.xml", dest}, tt.args...)
			code, said, peak := peakOf(t, args...)
			if want := map[bool]int{true: 0, false: 1}[tt.ends]; code != want {
				t.Errorf("exit code %d, want %d\n%.2000s", code, want, said)
			}
			if strings.Contains(said, "goroutine ") {
				t.Errorf("a panic: %.2000s", said)
			}
			t.Logf("peak memory %d MiB, %v; %.300s", peak>>20, time.Since(start).Round(time.Millisecond), said)
			if peak > 256<<20 {
				t.Errorf("peak memory %d MiB, want at most 256", peak>>20)
			}
		})
	}
}

// endlessEntries serves a list without end: with -memory the document is cut off
// when it is longer than any may be, after a million or ten million entries.
func endlessEntries(long string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriterSize(w, 64<<10)
		_, err := io.WriteString(out, hostileList)
		for i := 0; err == nil && (*fullMemory || i*len(long) < quickBytes); i++ {
			_, err = fmt.Fprintf(out, "<url><loc>http://%s/%s%09d</loc><rs:md hash=\"md5:%032x\"/></url>\n", r.Host, long, i, uint64(i+1)*0x9e3779b97f4a7c15)
		}
	}
}

// disorder serves a list of n entries with hashes in no order, 126 bytes each: a
// document of eight million is just within the limit of one document, 1 GiB.
func disorder(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/resourcelist.xml" {
			http.NotFound(w, r)
			return
		}
		out := bufio.NewWriterSize(w, 64<<10)
		_, _ = io.WriteString(out, hostileList)
		for i := range n {
			h := uint64(i+1) * 0x9e3779b97f4a7c15 // odd: no two are alike
			fmt.Fprintf(out, "<url><loc>http://%s/%016x</loc><rs:md length=\"10\" hash=\"md5:%016x%016x\"/></url>\n", r.Host, h, h*h, h+uint64(n))
		}
		_, _ = io.WriteString(out, "</urlset>")
		_ = out.Flush() // the client tells
	}
}

// gzipBomb serves a document that is small only as long as it is compressed.
func gzipBomb(size int) http.HandlerFunc {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level there is
	_, _ = io.WriteString(z, hostileList)
	for n := 0; n < size; n += len(blank) {
		_, _ = io.WriteString(z, "<url>"+string(blank)+"<loc>http://127.0.0.1/a</loc></url>")
	}
	_ = z.Close() // a Buffer takes all
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	}
}

func hugeHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 64 {
		w.Header().Set(fmt.Sprint("X-Header-", i), strings.Repeat("x", 1<<20))
	}
	_, _ = io.WriteString(w, hostileList+"</urlset>")
}

// longURIs serves an index over parts of 50,000 entries with URIs of a kibibyte
// each, none of which leads anywhere; without parts, a single list.
func longURIs(parts int) http.HandlerFunc {
	list := func(w http.ResponseWriter, r *http.Request, n int) {
		long := strings.Repeat("long/", 190)
		_, _ = io.WriteString(w, hostileList)
		for i := range n {
			fmt.Fprintf(w, "<url><loc>http://%s%s/%s%d</loc><rs:md length=\"10\" hash=\"md5:1584abdf8ebdc9802ac0c6a7402c03b6\"/></url>\n", r.Host, r.URL.Path, long, i)
		}
		_, _ = io.WriteString(w, "</urlset>")
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/part") && strings.Count(r.URL.Path, "/") == 1:
			list(w, r, 50_000)
		case r.URL.Path != "/resourcelist.xml":
			http.NotFound(w, r)
		case parts == 0:
			list(w, r, sized(50_000, 1500))
		default:
			index(w, r, parts)
		}
	}
}

func index(w io.Writer, r *http.Request, parts int) {
	_, _ = io.WriteString(w, strings.Replace(hostileList, "urlset", "sitemapindex", 1))
	for i := range parts {
		fmt.Fprintf(w, "<sitemap><loc>http://%s/part%d</loc></sitemap>", r.Host, i)
	}
	_, _ = io.WriteString(w, "</sitemapindex>")
}

// manyParts serves an index over lists of one entry.
func manyParts(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/part"):
			fmt.Fprintf(w, "%s<url><loc>http://%s/resource%s</loc></url></urlset>", hostileList, r.Host, r.URL.Path[5:])
		case r.URL.Path == "/resourcelist.xml":
			index(w, r, n)
		default:
			http.NotFound(w, r)
		}
	}
}

// endlessResource serves a resource that is longer than it is said to be.
func endlessResource(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/resourcelist.xml" {
		fmt.Fprintf(w, `%s<url><loc>http://%s/a</loc><rs:md length="10"/></url></urlset>`, hostileList, r.Host)
		return
	}
	sendText("", "for ever and ever ")(w, r)
}
