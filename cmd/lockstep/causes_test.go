package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A brokenSource is a plain Sitemap of n resources, which answer as told.
func brokenSource(t *testing.T, n int, answer func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/sitemap.xml":
			_, _ = fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for i := range n {
				_, _ = fmt.Fprintf(w, "<url><loc>%s/x%05d</loc></url>", srv.URL, i)
			}
			_, _ = fmt.Fprint(w, `</urlset>`)
		case strings.HasPrefix(r.URL.Path, "/x"):
			answer(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// lockstepRun runs the binary and returns its exit code, stdout and stderr.
func lockstepRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("lockstep", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestFailuresOfOneCauseAreOneLine(t *testing.T) {
	t.Parallel()
	const n = 3000
	srv := brokenSource(t, n, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "7") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.NotFound(w, r)
	})
	dest := filepath.Join(t.TempDir(), "mirror")
	code, stdout, stderr := lockstepRun(t, "sync", "-q", srv.URL+"/sitemap.xml", dest, "--json")
	var result struct {
		Failed   int64
		Failures []struct{ URI, Cause string }
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatal(err)
	}
	if code != 1 || result.Failed != n || len(result.Failures) != n {
		t.Errorf("exit code %d, %d failed, %d in the JSON; want 1 and %d of each", code, result.Failed, len(result.Failures), n)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	host := strings.TrimPrefix(srv.URL, "http://")
	for _, want := range []string{
		"failed: 2,700 resources at " + host + ": status 404 Not Found; for example " + srv.URL + "/x",
		"failed: 300 resources at " + host + ": status 403 Forbidden; for example " + srv.URL + "/x",
		"hint: the server refuses access",
		"--bearer-token-file FILE, --netrc, or --header",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%.2000s", want, stderr)
		}
	}
	if len(lines) > 6 {
		t.Errorf("%d lines on stderr, want a handful:\n%.2000s", len(lines), stderr)
	}
}

func TestWhatTheFinalPassRepairsIsNotReported(t *testing.T) {
	t.Parallel()
	var failed atomic.Int64
	srv := brokenSource(t, 20, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x00003" && failed.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, "x")
	})
	code, stdout, stderr := lockstepRun(t, "sync", "--retries", "0", srv.URL+"/sitemap.xml", filepath.Join(t.TempDir(), "mirror"))
	if code != 0 || strings.Contains(stderr, "failed") || !strings.Contains(stdout, "20 created") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestASourceThatAsksForCredentialsSaysWhichFlagHelps(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(srv.Close)
	for _, args := range [][]string{
		{"sync", srv.URL + "/", filepath.Join(t.TempDir(), "m")}, {"audit", srv.URL + "/", t.TempDir()},
		{"validate", srv.URL + "/"}, {"sync", srv.URL + "/list.xml", filepath.Join(t.TempDir(), "m")}, {"diff", srv.URL + "/", "--from", "2026-01-01"},
	} {
		code, _, stderr := lockstepRun(t, args...)
		if code == 0 || !strings.Contains(stderr, "401 Unauthorized") || !strings.Contains(stderr, "hint: the server asks for credentials") || !strings.Contains(stderr, "--bearer-token-file") {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
}
