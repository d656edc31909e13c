package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a release is tested with larger numbers of.
var (
	swapFiles = flag.Int("swap-files", 300, "files of the directory that becomes a file and back in TestKillSwap")
	swapKills = flag.Int("swap-kills", 3, "how often TestKillSwap kills a sync")
)

// A swapSource lists what it has now, as of a time that increases with each change.
type swapSource struct {
	*httptest.Server
	mu    sync.Mutex // guards what follows
	files map[string]string
	at    time.Time
}

func (s *swapSource) set(files map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.at = files, s.at.Add(time.Second)
}

func (s *swapSource) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	files, at := s.files, s.at
	s.mu.Unlock()
	if r.URL.Path == "/resourcelist.xml" {
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at=%q/>`, at.Format(time.RFC3339))
		for path, text := range files {
			fmt.Fprintf(w, `<url><loc>%s/%s</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, s.URL, path, sha256.Sum256([]byte(text)), len(text))
		}
		fmt.Fprint(w, `</urlset>`)
		return
	}
	text, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = fmt.Fprint(w, text) // a client that was killed need not have it
}

// swapped returns the files of one round: a file, or a directory in its place, and one
// file that stays.
func swapped(round int) map[string]string {
	files := map[string]string{"keep.txt": "stays"}
	if round%2 == 1 {
		files["a"] = fmt.Sprint("the only one of round ", round)
		return files
	}
	for i := range *swapFiles {
		files[fmt.Sprintf("a/%d/%d.txt", i%9, i)] = fmt.Sprint("one of many, round ", round)
	}
	return files
}

// TestKillSwap kills the binary (SIGKILL) at random moments while a directory becomes a
// file and back: the next run brings the mirror into step with the Source, with every
// file in its own place and nothing else beside them.
func TestKillSwap(t *testing.T) {
	t.Parallel()
	s := &swapSource{at: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Start() // only now: requests may come at once, and serve looks at the Server
	t.Cleanup(s.Close)
	dest := filepath.Join(t.TempDir(), "mirror")
	run := func(limit time.Duration) (done bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "lockstep", "sync", "-q", "--max-delete", "100", s.URL+"/resourcelist.xml", dest)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("sync: %v\n%s", err, &stderr)
		}
		return err == nil
	}
	check := func(round int) {
		t.Helper()
		want, got := swapped(round), map[string]string{}
		for path, text := range readMirror(t, dest) {
			got[path] = string(text)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: the mirror has %d files, want %d, or others", round, len(got), len(want))
		}
		checkNoLitter(t, dest)
	}
	s.set(swapped(0))
	run(readyLimit)
	check(0)
	took := 300 * time.Millisecond // of a run; measured with each that is not killed
	for round, kills := 1, 0; kills < *swapKills; round++ {
		s.set(swapped(round))
		for !run(time.Duration(rand.Int64N(int64(took)))) {
			if kills++; kills >= *swapKills {
				break
			}
		}
		start := time.Now()
		if !run(readyLimit) {
			t.Fatalf("round %d: the run after a kill did not end", round)
		}
		took = max(took, time.Since(start))
		check(round)
	}
}
