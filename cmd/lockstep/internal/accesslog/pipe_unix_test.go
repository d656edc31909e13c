//go:build unix

package accesslog_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
)

// stalled opens a log that is a pipe, and its other end, from which nothing is read.
func stalled(t *testing.T) (l *accesslog.Log, stderr *safeBuffer, stop func(), read *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	l, stderr, stop = open(t, admin.KindOf("file"), "--access-log", path)
	return l, stderr, stop, read
}

// answered has requests answered whose lines are 8 kB long.
func answered(t *testing.T, l *accesslog.Log, requests int) {
	t.Helper()
	h := l.Handler(http.HandlerFunc(files))
	for range requests {
		r, answer := httptest.NewRequest("GET", "/a", nil), httptest.NewRecorder()
		r.Header.Set("User-Agent", strings.Repeat("x", 8<<10))
		if h.ServeHTTP(answer, r); answer.Body.String() != "content" {
			t.Fatalf("answered %q", answer.Body)
		}
	}
}

func lostLines(t *testing.T, l *accesslog.Log) int {
	t.Helper()
	m := admin.NewMetrics()
	m.Register(l.Figures)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	found := regexp.MustCompile(`(?m)^lockstep_access_log_lines_lost_total (\d+)$`).FindStringSubmatch(w.Body.String())
	if found == nil {
		t.Fatalf("no figure in %q", w.Body)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits until a condition is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
}

func says(t *testing.T, stderr *safeBuffer, text string) {
	t.Helper()
	until(t, "the message "+text, func() bool { return strings.Contains(stderr.String(), text) })
}

// TestStalledReader: requests are answered while nothing reads the log; the lines for which there is no room are lost
// and counted, and the others are written when it is read again.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	l, stderr, stop, read := stalled(t)
	const requests = 2000
	answered(t, l, requests)
	says(t, stderr, "warning: --access-log: lines cannot be written as fast as requests are answered")
	lost := lostLines(t, l)
	var written atomic.Int64
	go func() {
		for in := bufio.NewScanner(read); in.Scan(); {
			written.Add(1)
		}
	}()
	says(t, stderr, "note: --access-log: ")
	answered(t, l, 1)
	stop()
	// On a slow machine the log may still be written when it is closed, and then the pipe has no end.
	until(t, "all lines that are not lost", func() bool { return int(written.Load())+lost >= requests+1 })
	if n := int(written.Load()); lost == 0 || n+lost != requests+1 || lostLines(t, l) != lost {
		t.Errorf("%d lines written and %d lost, want %d together", n, lost, requests+1)
	}
}

// TestEndWhileStalled: a log that nothing reads does not keep the process from ending.
func TestEndWhileStalled(t *testing.T) {
	t.Parallel()
	l, stderr, stop, _ := stalled(t)
	answered(t, l, 100)
	stop()
	if !strings.Contains(stderr.String(), "warning: --access-log: ") {
		t.Errorf("warned %q", stderr)
	}
}
