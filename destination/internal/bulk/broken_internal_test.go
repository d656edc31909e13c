package bulk

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/dump"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// serveContent answers with body as servers do, and hangs up after most bytes.
func serveContent(w http.ResponseWriter, r *http.Request, body []byte, most int64) {
	cut := &cutWriter{ResponseWriter: w, left: most}
	http.ServeContent(cut, r, "", time.Time{}, bytes.NewReader(body))
	if cut.left <= 0 {
		panic(http.ErrAbortHandler)
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrShortWrite
	}
	p = p[:min(int64(len(p)), c.left)]
	n, err := c.ResponseWriter.Write(p)
	if c.left -= int64(n); c.left <= 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush() // what was written arrives
		return n, io.ErrShortWrite
	}
	return n, err
}

// TestPackageBroken: a transfer that breaks off resumes where it was, at little cost.
func TestPackageBroken(t *testing.T) {
	t.Parallel()
	files := someFiles(300, 3_000_000, 700_000)
	body := packOf(t, files, zip.Store)
	for _, most := range []int64{100_000, 1_000_000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			g := newPackageRig(t, body)
			g.answer = func(w http.ResponseWriter, r *http.Request) bool {
				serveContent(w, r, body, most)
				return true
			}
			g.get(g.job(files))
			g.expect(files)
			if g.sent.Load() > int64(len(body))*5/4+1<<20 {
				t.Errorf("%d bytes sent of %d", g.sent.Load(), len(body))
			}
		})
	}
	t.Run("held whole", func(t *testing.T) {
		t.Parallel()
		g := newPackageRig(t, body)
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			serveContent(w, r, body, 2_000_000)
			return true
		}
		g.get(g.bare(files, sumOf(body)))
		g.expect(files)
		if g.sent.Load() > int64(len(body))*5/4 {
			t.Errorf("%d bytes sent of %d", g.sent.Load(), len(body))
		}
	})
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		few := map[string]string{"d0/f0000": files["d0/f0000"], "large/0": files["large/0"]}
		g := newPackageRig(t, body)
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			most := int64(1 << 30)
			if n := len(g.requests()); n == 2 || n == 3 {
				most = 50
			}
			serveContent(w, r, body, most)
			return true
		}
		g.get(g.job(few))
		g.expect(few)
	})
	t.Run("for ever", func(t *testing.T) {
		t.Parallel()
		few := someFiles(3)
		g := newPackageRig(t, packOf(t, few, zip.Store))
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			most := int64(1 << 20)
			if len(g.requests()) > 1 {
				most = 1
			}
			serveContent(w, r, body, most)
			return true
		}
		g.get(g.job(few))
		g.expect(few, pathsOf(few)[:3]...) // the manifest is in the last bytes
		if len(g.requests()) > 1+fetch.MaxTries*fetch.MaxTries {
			t.Errorf("%d requests", len(g.requests()))
		}
	})
}

// bare requests these files, which only the hash of the package verifies.
func (g *packageRig) bare(files map[string]string, hs resourcesync.Hashes) *packageJob {
	job := g.job(files)
	job.Hashes = hs
	for _, a := range job.Wanted {
		a.Hashes = nil
	}
	return job
}

// sorted returns what seq yields, in order.
func sorted(seq iter.Seq[string]) []string { return slices.Sorted(seq) }

func sumOf(b []byte) resourcesync.Hashes {
	sum := sha256.Sum256(b)
	return resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}
}

func pathsOf(files map[string]string) []string {
	var paths []string
	for _, name := range sorted(maps.Keys(files)) {
		paths = append(paths, "/"+name)
	}
	return paths
}

// TestPackageChanged: a package that is replaced while it is read is read again,
// and members received from the old one are kept.
func TestPackageChanged(t *testing.T) {
	t.Parallel()
	old := someFiles(100, 9_000_000)
	now := maps.Clone(old)
	now["d0/another"] = strings.Repeat("moves all that is behind it", 1000)
	g := newPackageRig(t, packOf(t, old, zip.Store))
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		g.mu.Lock()
		change := len(g.ranges) == 2
		body := g.body
		g.mu.Unlock()
		if !change {
			return false
		}
		next := packOf(t, now, zip.Store)
		g.mu.Lock()
		g.body, g.etag = next, `"2"`
		g.mu.Unlock()
		serveContent(w, r, body, 1<<20) // the old one, while it is there
		return true
	}
	g.get(g.job(old))
	g.expect(old)
}

// TestPackageServer: whatever a server answers, each member is either received or
// handed back, and reported once.
func TestPackageServer(t *testing.T) {
	t.Parallel()
	files := someFiles(40, 600_000)
	body := packOf(t, files, zip.Deflate)
	all := pathsOf(files) // the manifest last
	first := func(f func(w http.ResponseWriter, r *http.Request, nth int)) func(*packageRig) func(http.ResponseWriter, *http.Request) bool {
		return func(g *packageRig) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				g.mu.Lock()
				n := len(g.ranges)
				g.mu.Unlock()
				f(w, r, n)
				return true
			}
		}
	}
	plain := func(status int, text string) func(*packageRig) func(http.ResponseWriter, *http.Request) bool {
		return first(func(w http.ResponseWriter, r *http.Request, _ int) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})
	}
	ranged := func(w http.ResponseWriter, contentRange string, part []byte) {
		w.Header().Set("Content-Range", contentRange)
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(part)
	}
	n := len(body)
	tests := map[string]struct {
		answer func(*packageRig) func(http.ResponseWriter, *http.Request) bool
		want   []string // handed back
	}{
		"missing":   {plain(404, "no"), all},
		"forbidden": {plain(403, "no"), all},
		"empty":     {plain(200, ""), all},
		"no range of nothing": {first(func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes */0")
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
		}), all},
		"a page":  {plain(200, "<!DOCTYPE html><title>Log in</title>"), all},
		"a tar":   {plain(200, strings.Repeat("ustar\x00", 1000)), all},
		"part":    {plain(200, string(body[:n-100])), all},
		"nothing": {plain(204, ""), all},
		"whole instead of parts": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			if nth == 1 {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			} else {
				_, _ = w.Write(body)
			}
		}), nil},
		"no last bytes": {first(func(w http.ResponseWriter, r *http.Request, _ int) {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=-") {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			} else {
				_, _ = w.Write(body)
			}
		}), nil},
		"another range": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			switch {
			case nth == 1:
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			case r.Header.Get("Range") == "":
				_, _ = w.Write(body)
			default:
				ranged(w, fmt.Sprintf("bytes 5-104/%d", n), body[5:105])
			}
		}), nil},
		"another total": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			var from, to int
			if k, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); k == 2 && from >= 0 {
				ranged(w, fmt.Sprintf("bytes %d-%d/%d", from, to, n+5), body[from:to+1])
			} else {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			}
		}), all},
		"a total that lies": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			tail := body[n-1000:]
			if nth == 1 {
				tail = append(make([]byte, 100_000), tail...)
				var k int
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=-%d", &k)
				ranged(w, fmt.Sprintf("bytes %d-%d/%d", 1<<40-k, 1<<40-1, 1<<40), tail[len(tail)-k:])
			} else {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
		}), all},
		"wrong bytes": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			b := body
			if nth > 1 {
				b = bytes.Clone(body)
				for i := range b {
					b[i] ^= 1
				}
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		}), all[:len(all)-1]}, // the manifest is in the last bytes
		"another every time": {first(func(w http.ResponseWriter, r *http.Request, nth int) {
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, nth))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		}), all},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPackageRig(t, body)
			g.answer = tt.answer(g)
			g.get(g.job(files))
			g.expect(files, tt.want...)
			if len(g.warnings) > 1 || len(g.requests()) > 12 {
				t.Errorf("%d requests, warnings: %q", len(g.requests()), g.warnings)
			}
		})
	}
}

// TestPackageNotWorth: a package that can only be fetched whole is not fetched for
// a small part of it.
func TestPackageNotWorth(t *testing.T) {
	t.Parallel()
	files := someFiles(300, 3_000_000)
	body := packOf(t, files, zip.Store)
	g := newPackageRig(t, body)
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
		return true
	}
	few := map[string]string{"d0/f0000": files["d0/f0000"]}
	job := g.job(few)
	g.p.get(t.Context(), job)
	if len(g.singles) != 1 || len(g.warnings) > 0 || len(g.requests()) != 1 {
		t.Errorf("handed back %q, warnings %q, %d requests", g.singles, g.warnings, len(g.requests()))
	}
}

// slowWriter writes slowly, so that members are verified while others are read.
type slowWriter struct{ http.ResponseWriter }

func (s slowWriter) Write(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.ResponseWriter.Write(p)
}

// TestPackageMany: packages with many members are read, one at a time.
func TestPackageMany(t *testing.T) {
	t.Parallel()
	files := someFiles(3)
	files["manifest.xml"] = manifestText("http://x", "a")
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := range dump.ManyMembers + 1 {
		if _, err := w.CreateRaw(&zip.FileHeader{Name: fmt.Sprint("empty", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g := newPackageRig(t, buf.Bytes())
	for range 2 { // the second holds its directory while it waits to be read
		m, err := g.opener.OpenManifest(t.Context(), g.entry(), new(dump.Shelf), true, allowAll)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
	}
	g.get(g.job(files))
	g.expect(files)
}
