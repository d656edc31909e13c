package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// killCount is what a release is tested with a larger number of.
var killCount = flag.Int("kills", 10, "how often TestKillAnywhere kills a sync")

// killRequests is how many requests are under way at most when a sync that has just begun is
// killed: their answers are lost, while what was received before is used by the next run. On
// a slow machine that many of all kills are of one mirror.
const killRequests = 64

// TestKillAnywhere kills the binary at random moments of a sync and runs it
// again: what stands under a final name is always whole and is never fetched a
// second time, and the mirror ends exact, without litter.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	kills := *killCount
	src := newCountingSource(t, 2000)
	for killed := 0; killed < kills; {
		dest := filepath.Join(t.TempDir(), "mirror")
		src.reset()
		here := 0 // kills of this mirror
		for {
			finished := readMirror(t, dest)
			before := src.counts()
			limit := time.Duration(rand.IntN(400)) * time.Millisecond
			if killed >= kills {
				limit = time.Minute // enough; a slow machine must come to an end, too
			}
			done := runAndKill(t, src.URL, dest, limit)
			for path := range finished {
				if got, was := src.count("/"+path), before["/"+path]; got != was {
					t.Fatalf("%s was finished, yet fetched again (%d requests, then %d)", path, was, got)
				}
			}
			if done {
				break
			}
			killed++
			here++
		}
		src.check(t, readMirror(t, dest))
		checkNoLitter(t, dest)
		if total, limit := src.total(), max(len(src.files)*12/10, len(src.files)+here*killRequests); total > limit {
			t.Errorf("%d requests for %d resources after %d kills, want at most %d", total, len(src.files), here, limit)
		}
	}
}

// runAndKill starts a sync and kills it after d, unless it has ended before;
// it reports whether the run came to its end.
func runAndKill(t *testing.T, address, dest string, d time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lockstep", "sync", "-q", address+"/resourcelist.xml", dest)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("sync: %v\n%s", err, &stderr)
	}
	return err == nil
}

// A countingSource is a Source of small files that counts the requests for each.
type countingSource struct {
	*httptest.Server
	files map[string][]byte
	mu    sync.Mutex // guards hits
	hits  map[string]int
}

// newCountingSource starts a Source of n small files, and of others by their
// paths.
func newCountingSource(t *testing.T, n int, others ...map[string][]byte) *countingSource {
	t.Helper()
	s := &countingSource{files: map[string][]byte{}, hits: map[string]int{}}
	for _, o := range others {
		maps.Copy(s.files, o)
	}
	for i := range n {
		s.files[fmt.Sprintf("/d%02d/file-%04d.txt", i%23, i)] = fmt.Appendf(nil, "%d:%s", i, strings.Repeat("x", rand.IntN(3000)))
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Start() // only now: requests may come at once, and serve looks at the Server
	t.Cleanup(s.Close)
	return s
}

func (s *countingSource) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/resourcelist.xml" {
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2024-01-01T00:00:00Z"/>`)
		for p, b := range s.files {
			sum := sha256.Sum256(b)
			fmt.Fprintf(w, `<url><loc>%s%s</loc><rs:md hash="sha-256:%s" length="%d"/></url>`, s.URL, p, hex.EncodeToString(sum[:]), len(b))
		}
		fmt.Fprint(w, `</urlset>`)
		return
	}
	body, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	s.hits[r.URL.Path]++
	s.mu.Unlock()
	_, _ = w.Write(body) // a client that was killed is what the test is about
}

func (s *countingSource) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hits)
}

func (s *countingSource) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

func (s *countingSource) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]int, len(s.hits))
	for p, n := range s.hits {
		m[p] = n
	}
	return m
}

func (s *countingSource) total() int {
	n := 0
	for _, c := range s.counts() {
		n += c
	}
	return n
}

func (s *countingSource) check(t *testing.T, got map[string]string) {
	t.Helper()
	if len(got) != len(s.files) {
		t.Errorf("the mirror holds %d files, want %d", len(got), len(s.files))
	}
	for p, want := range s.files {
		if got[p[1:]] != string(want) {
			t.Errorf("%s differs from the Source's", p)
		}
	}
}

// readMirror returns the files of a mirror by path, its own state left out.
func readMirror(t *testing.T, dest string) map[string]string {
	t.Helper()
	files, err := contents(dest)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// checkNoLitter fails if unfinished downloads are left behind.
func checkNoLitter(t *testing.T, dest string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dest, ".lockstep", "tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: .lockstep/tmp/%s", e.Name())
	}
}
