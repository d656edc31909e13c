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
		t.Skip(err)
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

func says(stderr *safeBuffer, text string) {
	for !strings.Contains(stderr.String(), text) {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestStalledReader: requests are answered while nothing reads the log; the lines for which there is no room are lost
// and counted, and the others are written when it is read again.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	l, stderr, stop, read := stalled(t)
	const requests = 2000
	answered(t, l, requests)
	says(stderr, "warning: --access-log: lines cannot be written as fast as requests are answered")
	lost := lostLines(t, l)
	lines := make(chan int)
	go func() {
		n := 0
		for in := bufio.NewScanner(read); in.Scan(); {
			n++
		}
		lines <- n
	}()
	says(stderr, "note: --access-log: ")
	answered(t, l, 1)
	stop()
	if n := <-lines; lost == 0 || n+lost != requests+1 || lostLines(t, l) != lost {
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
