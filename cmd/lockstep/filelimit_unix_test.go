//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fileLimit is a command line of the binary whose files may not grow beyond so many
// bytes: a disk that is full for them, without a file system of its own.
func fileLimit(size int64, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d && exec lockstep "$@"`, size/512), "sh"}, args...)...)
}

// runLimited runs it, and returns its exit code and what it said.
func runLimited(t *testing.T, size int64, args ...string) (code int, said string) {
	t.Helper()
	out, err := fileLimit(size, args...).CombinedOutput()
	code, err = exitCodeOf(err)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "goroutine ") {
		t.Fatalf("a panic:\n%s", out)
	}
	return code, string(out)
}

// TestNoRoomForOneUpdate: where the new version of a resource has no room the old
// one stays, the others are updated, and the next run with room ends in step.
func TestNoRoomForOneUpdate(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.churn(0, 0, 30)
	src.put("grows", 1000)
	dest := filepath.Join(t.TempDir(), "mirror")
	checkGoesOn(t, src, dest)
	before := readMirror(t, dest)
	src.churn(10, 0, 10)
	src.put("grows", 3<<20)
	code, said := runLimited(t, 2<<20, "sync", "-q", src.address(), dest)
	if code != exitFailed || strings.Count(said, "file too large") != 1 || !strings.Contains(said, "/grows") {
		t.Errorf("exit code %d, want %d and one line that names the resource and the cause:\n%s", code, exitFailed, said)
	}
	left := readMirror(t, dest)
	if left["grows"] != before["grows"] {
		t.Errorf("the old version of the resource is gone: %d bytes", len(left["grows"]))
	}
	if diff := src.differ(left); strings.Count(diff, "\n") > 0 || !strings.Contains(diff, "grows") {
		t.Errorf("other resources are not updated: %s", diff)
	}
	checkNoLitter(t, dest)
	checkGoesOn(t, src, dest)
}

// TestNoRoomForTheJournal: where the journal cannot grow, the run fails with its
// cause, all old versions are whole, and the next run with room ends in step.
func TestNoRoomForTheJournal(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.churn(0, 0, 30)
	dest := filepath.Join(t.TempDir(), "mirror")
	checkGoesOn(t, src, dest)
	before := readMirror(t, dest)
	info, err := os.Stat(filepath.Join(dest, ".lockstep", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	src.churn(20, 0, 2000) // more than fits in the log of the database, too
	code, said := runLimited(t, info.Size()+8<<10, "sync", "-q", src.address(), dest)
	if code != exitFailed || !strings.Contains(said, dest) {
		t.Errorf("exit code %d, want %d and the place:\n%s", code, exitFailed, said)
	}
	left := readMirror(t, dest)
	if bad := src.notWhole(left); bad != "" {
		t.Errorf("%s is no version that existed", bad)
	}
	for path := range before {
		if left[path] == "" {
			t.Errorf("%s is gone", path)
		}
	}
	checkGoesOn(t, src, dest)
}

// TestNoRoomForAPackage: where a package of a dump cannot be written, what was
// published stays as it was, and the next run with room publishes everything.
func TestNoRoomForAPackage(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	dir, out := filepath.Join(room, "files"), filepath.Join(room, "out")
	args := []string{"publish", dir, "--out", out, "--base-url", "http://example.org/", "--state", filepath.Join(room, "state"), "--dump"}
	write(t, dir, "old.txt", "old")
	if text, err := exec.Command("lockstep", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	before, err := contents(out)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // each fits, the package does not
		write(t, dir, fmt.Sprint("new", i), incompressible(i, 200<<10))
	}
	code, said := runLimited(t, 2<<20, args...)
	if code != exitFailed || strings.Count(said, "file too large") != 1 {
		t.Errorf("exit code %d, want %d and one line with the cause:\n%s", code, exitFailed, said)
	}
	after, err := contents(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if strings.HasSuffix(name, ".zip") && after[name] != text {
			t.Errorf("the package %s is not what it was", name)
		}
	}
	if text, err := exec.Command("lockstep", args...).CombinedOutput(); err != nil {
		t.Fatalf("with room: %v\n%s", err, text)
	}
	if now, err := contents(out); err != nil || maps.Equal(now, before) {
		t.Errorf("with room nothing new was published: %v", err)
	}
}

// incompressible returns so many bytes that do not repeat.
func incompressible(seed, n int) string {
	b := make([]byte, n)
	x := uint32(seed + 1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return string(b)
}
