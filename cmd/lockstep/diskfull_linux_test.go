package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var eachRoom = flag.Bool("each-room", false, "have TestFullDisk leave nearly every amount of room")

// checkFailed checks a run that could not write: it said where and why, every
// file is whole, and what was there before still is, unless it was to go.
func checkFailed(t *testing.T, src *liveSource, dest string, before map[string]string, code int, said string, causes ...string) {
	t.Helper()
	if code != 1 || !strings.Contains(said, dest) || !slices.ContainsFunc(causes, func(c string) bool { return strings.Contains(said, c) }) {
		t.Fatalf("exit code %d, want 1 with the place and a cause of %q:\n%s", code, causes, said)
	}
	if strings.Contains(said, "goroutine ") {
		t.Fatalf("a panic:\n%s", said)
	}
	left := readMirror(t, dest)
	if bad := src.notWhole(left); bad != "" {
		t.Fatalf("%s is no version that existed\n%s", bad, said)
	}
	now := src.contents()
	for path := range before {
		if _, wanted := now[path]; wanted && left[path] == "" {
			t.Fatalf("%s was there before and is not any more\n%s", path, said)
		}
	}
}

// TestFullDisk leaves a mirror ever less room, of bytes and of files, so that
// each write in turn is the first that fails.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"size", "nr_inodes"} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/fresh=%v", kind, fresh), func(t *testing.T) {
				t.Parallel()
				fillUp(t, kind, fresh)
			})
		}
	}
}

func fillUp(t *testing.T, kind string, fresh bool) {
	src := newLiveSource(t)
	src.churn(0, 0, 60)
	src.put("large", 300_000)
	dir := mountMemory(t)
	failed := 0
	for step := 0; ; step++ {
		// Pages, or files: few at first, as every one counts; then in strides.
		free := step * (1 + step)
		if *eachRoom && !raceDetector {
			free = step * (1 + step/8)
		}
		dest := filepath.Join(dir, "mirror")
		if fresh {
			dest = filepath.Join(dir, fmt.Sprint("mirror", step))
		}
		before := readMirror(t, dest)
		limitMemory(t, dir, kind, free)
		code, said := tryRun(t, src, dest)
		if code != 0 {
			failed++
			checkFailed(t, src, dest, before, code, said, "no space left on device")
		}
		limitMemory(t, dir, kind, -1)
		checkGoesOn(t, src, dest)
		if code == 0 {
			break
		}
		if fresh {
			if err := os.RemoveAll(dest); err != nil {
				t.Fatal(err)
			}
		} else {
			src.churn(15, 5, 20)
			src.put("large", 300_000+rand.IntN(9000))
		}
	}
	if failed < 3 {
		t.Errorf("only %d runs failed", failed)
	}
}

// mountMemory mounts a file system in memory.
func mountMemory(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount file systems")
	}
	dir := t.TempDir()
	if err := syscall.Mount("lockstep-test", dir, "tmpfs", 0, "size=64m,nr_inodes=100000"); err != nil {
		t.Skipf("needs to mount file systems: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// limitMemory leaves so many pages or files free; all if free is negative.
func limitMemory(t *testing.T, dir, kind string, free int) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	size, inodes := int64(64<<20), int64(100_000)
	switch {
	case free < 0:
	case kind == "size":
		size = (int64(fs.Blocks-fs.Bfree) + int64(free)) * int64(fs.Bsize)
	default:
		inodes = int64(fs.Files-fs.Ffree) + int64(free)
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d", max(size, 4096), inodes)
	if err := syscall.Mount("lockstep-test", dir, "tmpfs", syscall.MS_REMOUNT, options); err != nil {
		t.Fatalf("remount %s: %v", options, err)
	}
}

// TestDiskTurnsReadOnly has the file system find an error in itself in the
// middle of a run, after which it takes no more writes.
func TestDiskTurnsReadOnly(t *testing.T) {
	t.Parallel()
	room := diskRoom(t)
	for _, at := range []int64{1, 40, 150, 400} {
		src := newLiveSource(t)
		src.churn(0, 0, 300)
		d := newDisk(t, room, 64<<20)
		dest := filepath.Join(d.dir, "mirror")
		checkGoesOn(t, src, dest)
		src.churn(100, 0, 300)
		before := readMirror(t, dest)
		var n atomic.Int64
		trigger := filepath.Join("/sys/fs/ext4", filepath.Base(d.device), "trigger_fs_error")
		src.before(func(http.ResponseWriter, *http.Request, string) bool {
			if n.Add(1) == at {
				if err := os.WriteFile(trigger, []byte("test"), 0); err != nil {
					t.Error(err)
				}
			}
			return true
		})
		code, said := tryRun(t, src, dest)
		src.before(nil)
		if n.Load() < at {
			t.Fatalf("only %d requests", n.Load())
		}
		checkFailed(t, src, dest, before, code, said, "read-only file system", "input/output error", "disk I/O error")
		after := d.cut(t)
		checkGoesOn(t, src, filepath.Join(after.dir, "mirror"))
		after.eject(t)
		d.eject(t)
		src.Close()
	}
}

// TestReadOnlyDisk runs where nothing can be written from the beginning.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.churn(0, 0, 20)
	dir := mountMemory(t)
	dest := filepath.Join(dir, "mirror")
	checkGoesOn(t, src, dest)
	src.churn(5, 0, 5)
	before := readMirror(t, dest)
	if err := syscall.Mount("lockstep-test", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	code, said := tryRun(t, src, dest)
	checkFailed(t, src, dest, before, code, said, "read-only file system")
	if err := syscall.Mount("lockstep-test", dir, "tmpfs", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	checkGoesOn(t, src, dest)
}

// TestFullDiskRest has one resource that cannot fit: it is named with its
// cause, and all others are mirrored.
func TestFullDiskRest(t *testing.T) {
	t.Parallel()
	src := newLiveSource(t)
	src.churn(0, 0, 100)
	src.put("large", 3_000_000)
	dir := mountMemory(t)
	dest := filepath.Join(dir, "mirror")
	limitMemory(t, dir, "size", 512)
	code, said := tryRun(t, src, dest)
	checkFailed(t, src, dest, nil, code, said, "failed: store "+src.URL+"/large in "+dest+": write large: no space left on device")
	if !strings.Contains(said, "100 created, 0 updated, 0 deleted, 1 failed") {
		t.Errorf("no summary:\n%s", said)
	}
	if diff := src.differ(readMirror(t, dest)); diff != "large is missing" {
		t.Error(diff)
	}
	checkNoLitter(t, dest)
	limitMemory(t, dir, "size", -1)
	checkGoesOn(t, src, dest)
	if n := src.requests(); n["large"] > 3 {
		t.Errorf("large was asked for %d times", n["large"])
	}
}

// TestFullDiskWaits has a resource that cannot fit take all the room for a moment: those
// that find none meanwhile are mirrored afterwards, however many they are.
func TestFullDiskWaits(t *testing.T) {
	t.Parallel()
	dir := mountMemory(t)
	src := newLiveSource(t)
	src.churn(0, 0, 300)
	src.put("a-large", 3_000_000)
	begun, full := make(chan struct{}), make(chan struct{})
	begin, fill := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(full) })
	src.before(func(w http.ResponseWriter, r *http.Request, path string) bool {
		if path != "a-large" {
			select {
			case <-begun:
				<-full
			default:
			}
			return true
		}
		begin()
		defer fill()
		text := src.contents()[path]
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		for waited := false; len(text) > 0; text = text[min(4096, len(text)):] {
			if _, err := io.WriteString(w, text[:min(4096, len(text))]); err != nil || http.NewResponseController(w).Flush() != nil {
				break
			}
			time.Sleep(time.Millisecond)
			var fs syscall.Statfs_t
			if err := syscall.Statfs(dir, &fs); err != nil {
				t.Error(err)
			} else if fs.Bfree == 0 && !waited {
				waited = true
				fill()
				time.Sleep(time.Second / 2)
			}
		}
		return false
	})
	dest := filepath.Join(dir, "mirror")
	limitMemory(t, dir, "size", 600)
	code, said := tryRun(t, src, dest)
	checkFailed(t, src, dest, nil, code, said, "failed: store "+src.URL+"/a-large in "+dest+": write a-large: no space left on device")
	if !strings.Contains(said, "300 created, 0 updated, 0 deleted, 1 failed") {
		t.Errorf("no summary:\n%s", said)
	}
	if diff := src.differ(readMirror(t, dest)); diff != "a-large is missing" {
		t.Error(diff)
	}
}

// TestFullDiskAfterKill: the part of a resource that a killed run has left takes the last of the room, so that the
// next run cannot even record what the killed one had committed. It gives way, and the run goes on.
func TestFullDiskAfterKill(t *testing.T) {
	t.Parallel()
	dir := mountMemory(t)
	src := newLiveSource(t)
	src.churn(0, 0, 40)
	src.put("a-large", 3_000_000)
	src.before(func(w http.ResponseWriter, r *http.Request, path string) bool {
		if path != "a-large" {
			return true
		}
		text := src.contents()[path]
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = io.WriteString(w, text[:len(text)/2])
		_ = http.NewResponseController(w).Flush() // the client is killed anyway
		<-r.Context().Done()
		return false
	})
	dest := filepath.Join(dir, "mirror")
	cmd, out := start(t, dir, "sync", src.address(), dest)
	within(t, "all others are in the mirror", func() bool {
		n := 0
		_ = filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error { // some may not be there yet
			if err == nil && d.Type().IsRegular() && !strings.Contains(path, "/.lockstep/") {
				n++
			}
			return nil
		})
		return n == 40
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	src.before(nil)
	limitMemory(t, dir, "size", 0)
	src.remove("a-large")
	if code, said := tryRun(t, src, dest); code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, said, out)
	}
	if diff := src.differ(readMirror(t, dest)); diff != "" {
		t.Error(diff)
	}
}
