package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestSignal interrupts a sync from a Source that stalls: some resources send
// nothing at all, a large one stops half way. The program ends in time with
// exit code 130; the next run fetches nothing again that was finished, and of
// the large one only what is missing.
func TestSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			interrupt(t, sig)
		})
	}
}

const largeSize = 8_000_000

func interrupt(t *testing.T, sig os.Signal) {
	src := newLiveSource(t)
	src.churn(0, 0, 300)
	src.put("large", largeSize)
	src.put("silent", 100)
	stalled := stall(t, src)
	dest := filepath.Join(t.TempDir(), "mirror")
	cmd := exec.Command("lockstep", "sync", "-q", "--jobs", "8", src.address(), dest)
	var stderr syncBuffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // has ended, unless the test has failed
	deadline := time.After(readyLimit)
	for len(readMirror(t, dest)) < 300 {
		select {
		case <-deadline:
			t.Fatalf("only %d files arrived\n%s", len(readMirror(t, dest)), &stderr)
		case err := <-done:
			t.Fatalf("ended: %v\n%s", err, &stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
	stalled.Wait()
	waitFor(t, "half of the large resource", func() bool { return holdsFile(dest, largeSize*9/20) })
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if code, err := exitCodeOf(err); code != 130 || err != nil {
			t.Fatalf("exit code %d, %v, want 130\n%s", code, err, &stderr)
		}
	case <-time.After(endLimit):
		t.Fatal("still running long after the signal")
	}
	if said := stderr.String(); strings.Contains(said, "failed:") || !strings.Contains(said, "interrupted") {
		t.Errorf("stderr: %s", said)
	}
	before := src.requests()
	var sent atomic.Int64
	src.before(func(_ http.ResponseWriter, r *http.Request, path string) bool {
		if path == "large" {
			from, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"), 10, 64)
			sent.Add(largeSize - from)
		}
		return true
	})
	checkGoesOn(t, src, dest)
	for path, n := range src.requests() {
		if n != before[path] && path != "large" && path != "silent" {
			t.Errorf("%s was finished, yet fetched again", path)
		}
	}
	if sent.Load() > largeSize/2+largeSize/10 {
		t.Errorf("the large resource was half here; %d of %d bytes were fetched", sent.Load(), largeSize)
	}
}

// holdsFile reports whether there is a file of at least size bytes below dir.
func holdsFile(dir string, size int64) (found bool) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what is gone was not it
		if err == nil && d.Type().IsRegular() {
			info, err := d.Info()
			found = found || err == nil && info.Size() >= size && info.Size() < largeSize
		}
		return nil
	})
	return found
}

// stall has the Source serve half of "large" and nothing of "silent", and
// neither go on nor end. Wait returns when both have come so far.
func stall(t *testing.T, src *liveSource) *sync.WaitGroup {
	var reached sync.WaitGroup
	reached.Add(2)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var once [2]sync.Once
	src.before(func(w http.ResponseWriter, r *http.Request, path string) bool {
		switch path {
		case "large":
			w.Header().Set("Content-Length", fmt.Sprint(largeSize))
			_, _ = w.Write([]byte(src.contents()["large"])[:largeSize/2])
			_ = http.NewResponseController(w).Flush()
			once[0].Do(reached.Done)
		case "silent":
			once[1].Do(reached.Done)
		default:
			return true
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	return &reached
}

// TestSignalEarly interrupts a sync while the Source has not answered anything
// yet.
func TestSignalEarly(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	src := newLiveSource(t)
	t.Cleanup(func() { close(release) })
	src.handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	cmd := exec.Command("lockstep", "sync", "-q", src.address(), filepath.Join(t.TempDir(), "mirror"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	start := time.Now()
	_ = cmd.Process.Signal(syscall.SIGTERM) // it runs, or Wait tells
	code, err := exitCodeOf(cmd.Wait())
	if code != 130 || err != nil || time.Since(start) > endLimit {
		t.Fatalf("exit code %d, %v after %v, want 130\n%s", code, err, time.Since(start), &stderr)
	}
}

// TestSignalTwice sends a signal twice at once, as timeout(1) does: that is one
// wish to end, and the result is told all the same.
func TestSignalTwice(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.put("a", 100)
	p, err := startReady(exec.Command("lockstep", "follow", "--json", "--channel", "poll", src.address(), filepath.Join(t.TempDir(), "mirror")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT) // it may have ended already
	select {
	case err = <-p.done:
		p.done <- err
	case <-time.After(readyLimit):
		t.Fatal("still running")
	}
	if code, err := exitCodeOf(err); err != nil || code != exitOK && code != exitInterrupted { // the system delivers them in any order
		t.Errorf("ended with %d, %v\n%s", code, err, p.stderr)
	}
	if !strings.Contains(p.out.String(), `"passes":1,`) {
		t.Errorf("no result was told: %s%s", p.out, p.stderr)
	}
}
