package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk gives a test a file system of its own, of a few megabytes.
func smallDisk(t *testing.T, size string) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a tmpfs to fill (%v): run as root, as CI does", err)
	}
	// Detached: the child of another test may hold it open until it has started.
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	return root
}

// fill fills the disk but for some bytes; the function returned makes room
// again.
func fill(t *testing.T, root string, but int64) (makeRoom func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(root, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n, err := io.Copy(f, zeros{})
	if err == nil {
		t.Fatal("the disk is never full")
	}
	if err := f.Truncate(max(0, n-but)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// What is harvested needs room, too: a full disk is told of, and the next run
// goes on.
func TestFullHarvest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"atom-pmh", "oai-pmh"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			root := smallDisk(t, "64m")
			var src harvestSource = newKillFeed(t)
			if kind == "oai-pmh" {
				src = newKillRepository(t)
			}
			dest := filepath.Join(root, "mirror")
			makeRoom := fill(t, root, 700<<10)
			for range 2 {
				out, err := exec.CommandContext(t.Context(), "lockstep", "sync", "-q", src.address(), dest).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "no space left on device") || !strings.Contains(string(out), "\nhint: free space in ") {
					t.Errorf("sync: %v\n%s", err, out)
				}
			}
			makeRoom()
			if out, err := exec.CommandContext(t.Context(), "lockstep", "sync", "-q", src.address(), dest).CombinedOutput(); err != nil {
				t.Fatalf("sync: %v\n%s", err, out)
			}
			if got, want := readMirror(t, dest), src.want(); !maps.Equal(got, want) {
				t.Errorf("%d files, want %d, or other ones", len(got), len(want))
			}
			checkMemory(t, filepath.Join(dest, ".lockstep"))
		})
	}
}

// manyFiles puts n files into dir.
func manyFiles(t *testing.T, dir, prefix string, n int) {
	t.Helper()
	for i := range n {
		write(t, dir, fmt.Sprintf("%s/%d.txt", prefix, i), prefix)
	}
}

// TestServeDiskFull fills the disk under a running Source: it says so, serves
// what it served, and goes on once there is room.
func TestServeDiskFull(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{0, 8 << 10, 256 << 10} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			t.Parallel()
			dir, root := t.TempDir(), smallDisk(t, "16m")
			manyFiles(t, dir, "old", 100)
			src := newLivingSource(t, dir, filepath.Join(root, "state"))
			before, err := crawlSource(src.base)
			if err != nil {
				t.Fatal(err)
			}
			makeRoom := fill(t, root, left)
			manyFiles(t, dir, "new", 1500)
			waitFor(t, "a warning", func() bool { return strings.Contains(src.p.stderr.String(), "warning") })
			text := src.p.stderr.String()
			if !strings.Contains(text, root) || !strings.Contains(text, "full") && !strings.Contains(text, "no space") {
				t.Errorf("neither place nor cause named:\n%s", text)
			}
			// What came first may have been published while there was room for it.
			c, err := crawlSource(src.base)
			if err != nil {
				t.Errorf("the documents are not whole: %v", err)
			}
			for uri := range before.state {
				if _, there := c.state[uri]; !there {
					t.Errorf("%s is not published any more", uri)
				}
			}
			if left == 0 && !maps.Equal(c.documents, before.documents) {
				t.Error("the documents are not what they were")
			}
			makeRoom()
			waitFor(t, "1600 resources", func() bool {
				c, err := crawlSource(src.base)
				return err == nil && len(c.state) == 1600
			})
		})
	}
}

// TestPublishDiskFull fills the disk the documents are written to: what is
// there stays whole, nothing is left of what did not fit, and the next run
// with room brings everything up to date.
func TestPublishDiskFull(t *testing.T) {
	t.Parallel()
	dir, state, root := t.TempDir(), t.TempDir(), smallDisk(t, "4m")
	out := filepath.Join(root, "out")
	publish := func() (int, string) {
		t.Helper()
		cmd := exec.Command("lockstep", "publish", dir, "--out", out, "--base-url", "http://example.org/", "--state", state)
		text, err := cmd.CombinedOutput()
		code, err := exitCodeOf(err)
		if err != nil {
			t.Fatal(err)
		}
		return code, string(text)
	}
	manyFiles(t, dir, "old", 100)
	if code, text := publish(); code != exitOK {
		t.Fatalf("publish = %d\n%s", code, text)
	}
	before, err := contents(out)
	if err != nil {
		t.Fatal(err)
	}
	makeRoom := fill(t, root, 64<<10)
	manyFiles(t, dir, "new", 1500)
	code, text := publish()
	if code != exitFailed || !strings.Contains(text, "no space left") || !strings.Contains(text, out) {
		t.Errorf("publish = %d, want %d, the place and the cause\n%s", code, exitFailed, text)
	}
	after, err := contents(out)
	if err != nil || !maps.Equal(before, after) {
		t.Errorf("%v; the documents are not what they were: %s", err, difference(after, before))
	}
	tmp, _ := filepath.Glob(filepath.Join(out, ".lockstep", "tmp-*"))
	for _, dir := range tmp {
		checkEmpty(t, dir)
	}
	makeRoom()
	if code, text := publish(); code != exitOK || !strings.Contains(text, "published 1,600 resources") {
		t.Errorf("publish with room = %d\n%s", code, text)
	}
}

// TestStateDiskFull starts a Source whose state does not fit.
func TestStateDiskFull(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), smallDisk(t, "1m")
	manyFiles(t, dir, "files", 10)
	for _, left := range []int64{0, 4 << 10, 16 << 10, 40 << 10, 64 << 10, 100 << 10} {
		makeRoom := fill(t, root, left)
		state := filepath.Join(root, fmt.Sprint("state", left))
		cmd := exec.Command("lockstep", "publish", dir, "--out", filepath.Join(state, "documents"), "--base-url", "http://example.org/", "--state", state)
		text, err := cmd.CombinedOutput()
		code, err := exitCodeOf(err)
		if err != nil || code != exitOK && (code != exitFailed || !strings.Contains(string(text), root) || strings.Contains(string(text), "goroutine ")) {
			t.Errorf("%d bytes left: publish = %d, %v, want %d and the place\n%s", left, code, err, exitFailed, text)
		}
		makeRoom()
		cmd = exec.Command("lockstep", "publish", dir, "--out", filepath.Join(state, "documents"), "--base-url", "http://example.org/", "--state", state)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("publish with room: %v\n%s", err, text)
		}
		if err := os.RemoveAll(state); err != nil {
			t.Fatal(err)
		}
	}
}
