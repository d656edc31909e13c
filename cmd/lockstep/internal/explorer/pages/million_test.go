package pages_test

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var million = flag.Bool("million", false, "test with a million entries, and measure times and memory")

// newLarge returns a Source whose Resource List has a number of parts of 50,000 entries.
// The documents are made when they are requested.
func newLarge(t *testing.T, parts int) *httptest.Server {
	t.Helper()
	const root = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bufio.NewWriterSize(w, 64<<10)
		defer b.Flush()
		var part int
		switch _, err := fmt.Sscanf(r.URL.Path, "/part%d.xml", &part); {
		case r.URL.Path == "/.well-known/resourcesync":
			_, _ = fmt.Fprintf(b, `<urlset%s<rs:md capability="description"/><url><loc>%s/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`, root, server.URL)
		case r.URL.Path == "/capabilitylist.xml":
			_, _ = fmt.Fprintf(b, `<urlset%s<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url></urlset>`, root, server.URL)
		case r.URL.Path == "/resourcelist.xml":
			_, _ = fmt.Fprintf(b, `<sitemapindex%s<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`, root)
			for n := range parts {
				_, _ = fmt.Fprintf(b, `<sitemap><loc>%s/part%d.xml</loc></sitemap>`, server.URL, n)
			}
			_, _ = b.WriteString("</sitemapindex>")
		case err == nil:
			_, _ = fmt.Fprintf(b, `<urlset%s<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`, root)
			for n := part * 50_000; n < (part+1)*50_000; n++ {
				_, _ = fmt.Fprintf(b, `<url><loc>%s/articles/%d/document-%d.html</loc><lastmod>2025-%02d-%02dT12:00:00Z</lastmod><rs:md hash="md5:%032x" length="%d" type="text/%d"/></url>`, server.URL, n/1000, n, n%12+1, n%28+1, n, n%100_000, n%4)
			}
			_, _ = b.WriteString("</urlset>")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestMillion reads a large Source part by part. With -million it has 10^6 entries, and
// times and memory are compared with what is promised.
func TestMillion(t *testing.T) {
	if !*million {
		t.Parallel()
	}
	parts := 3
	if *million {
		parts = 20
	}
	source := newLarge(t, parts)
	v := visit(t, source.URL, nil)
	timed := func(path string, limit time.Duration) *shown {
		t.Helper()
		start := time.Now()
		p := v.get(path)
		took := time.Since(start)
		if t.Logf("%s took %v, %d bytes", path, took, len(p.body)); *million && took > limit {
			t.Errorf("%s took %v, more than %v", path, took, limit)
		}
		if len(p.body) > 100_000 {
			t.Errorf("%s has %d bytes", path, len(p.body))
		}
		return p
	}
	timed("/", time.Second)
	v.until("/", fmt.Sprintf("1 of %d parts read: 50,000 entries", parts))
	timed("/list?list=1&part=0&row=25000", 200*time.Millisecond).has("Entries 25,001 to 25,050 of part 1")
	v.post("/read", "list", "1", "all", "1")
	v.until("/list?list=1", fmt.Sprintf("%d of %d parts read", parts, parts))
	for _, path := range []string{"/", "/list?list=1&part=1&row=49990", "/list?list=1&q=document-99999", "/list?list=1&q=nothing", "/list?list=1&type=text/3", "/list?list=1&from=2025-12-01", "/parts?list=1", "/resource?list=1&part=2&row=7"} {
		timed(path, 400*time.Millisecond) // searches read all parts: promised is twice what a page takes
	}
	if *million {
		if peak := peakMemory(t); peak > 100<<20 {
			t.Errorf("%d MB of memory, more than 100", peak>>20)
		}
	}
}

// peakMemory returns the most memory that this process has used; 0 where that is unknown.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MB of memory", kB>>10)
			return kB << 10
		}
	}
	return 0
}
