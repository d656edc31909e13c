package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/destination"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

// cutCount is what a release is tested with a larger number of.
var cutCount = flag.Int("cuts", 0, "how often TestPowerCut cuts the power; 0: as often as it can in a few seconds")

// Without a number the test takes no longer than cutTime, more or less, and
// ends after fewCuts.
const (
	cutTime = 5 * time.Second
	fewCuts = 12
)

// TestPowerCut mirrors onto a disk of its own and takes copies of what that
// disk holds at random moments, and when the program has ended: what the file
// system keeps in memory is not in them, as if the power had been cut. On each
// copy every file is a whole version that existed, what the Journal says is
// held is there, and the next run makes the mirror exact without fetching again
// what was finished. After exit 0 nothing is missing at all.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	room := diskRoom(t)
	limit, deadline := *cutCount, time.Now().Add(24*time.Hour)
	if limit == 0 {
		limit, deadline = fewCuts, time.Now().Add(cutTime)
	}
	for cuts := 0; cuts < limit && time.Now().Before(deadline); {
		src := newLiveSource(t)
		src.churn(0, 0, 1500)
		d := newDisk(t, room, 64<<20)
		for run := 0; run < 6 && cuts < limit && time.Now().Before(deadline); run++ {
			cuts += cutRun(t, d, src, limit-cuts)
			src.churn(200, 150, 200)
		}
		d.eject(t)
		src.Close()
	}
}

// cutRun runs the program to its end and cuts the power on the way, at most n
// times in all.
func cutRun(t *testing.T, d *disk, src *liveSource, n int) (cuts int) {
	t.Helper()
	dest := filepath.Join(d.dir, "mirror")
	cmd := exec.Command("lockstep", "sync", "-q", src.address(), dest)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // has ended, unless the test has failed
	for {
		var wait <-chan time.Time // for ever, when the last cut is to be the one after the end
		if cuts < min(n-1, 4) {
			wait = time.After(time.Duration(rand.IntN(90)) * time.Millisecond)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("sync: %v\n%s", err, &stderr)
			}
			checkCut(t, d.cut(t), src, true)
			return cuts + 1
		case <-wait:
			pause(t, cmd.Process)
			copied := d.cut(t)
			checkCut(t, copied, src, false)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			cuts++
		}
	}
}

// checkCut looks at what a power cut left, and has the program go on from it.
func checkCut(t *testing.T, d *disk, src *liveSource, ended bool) {
	t.Helper()
	defer d.eject(t)
	dest := filepath.Join(d.dir, "mirror")
	left := readMirror(t, dest)
	if bad := src.notWhole(left); bad != "" {
		t.Fatalf("power cut: %s is no version that existed", bad)
	}
	if diff := src.differ(left); ended && diff != "" {
		t.Fatalf("power cut after exit 0: %s", diff)
	}
	checkHeld(t, dest, src, left, ended)
	before := src.requests()
	if out, err := exec.Command("lockstep", "sync", "-q", src.address(), dest).CombinedOutput(); err != nil {
		t.Fatalf("sync after a power cut: %v\n%s", err, out)
	}
	if diff := src.differ(readMirror(t, dest)); diff != "" {
		t.Fatalf("sync after a power cut: %s", diff)
	}
	checkNoLitter(t, dest)
	now := src.contents()
	for path, n := range src.requests() {
		if body, ok := left[path]; ok && body == now[path] && n != before[path] {
			t.Fatalf("%s was whole after the power cut, yet fetched again", path)
		}
	}
}

// checkHeld compares what the Journal says is held with the files there are.
func checkHeld(t *testing.T, dest string, src *liveSource, files map[string]string, ended bool) {
	t.Helper()
	state := filepath.Join(dest, filepath.FromSlash(destination.StateFile))
	if _, err := os.Stat(state); err != nil && !ended {
		return // not begun
	}
	db, err := sqlite.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	journal := db.Journal()
	intent, err := journal.Load(t.Context(), "intent")
	if err != nil {
		t.Fatal(err)
	}
	now, held := src.contents(), 0
	for h, err := range journal.Held(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		held++
		body, there := files[h.Path]
		_, wanted := now[h.Path]
		switch sum := sha256.Sum256([]byte(body)); {
		case !ended && bytes.Contains(intent, []byte(h.URI)): // in doubt, and known to be
		case !there && wanted:
			t.Fatalf("power cut: the Journal holds %s, which is missing", h.URI)
		case there && h.Hashes.Get(resourcesync.SHA256) != string(sum[:]):
			t.Fatalf("power cut: the Journal holds %s, but with another content", h.URI)
		}
	}
	if ended && held != len(now) {
		t.Fatalf("power cut after exit 0: the Journal holds %d resources, want %d", held, len(now))
	}
}

// A disk is a file that is mounted as one.
type disk struct {
	image  string
	device string // loop device
	dir    string // where it is mounted
}

// diskRoom returns a directory for images of disks, in memory if there is room.
func diskRoom(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount file systems")
	}
	for _, tool := range []string{"mkfs.ext4", "losetup", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	var fs syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &fs) == nil && int64(fs.Bavail)*fs.Bsize > 512<<20 {
		if dir, err := os.MkdirTemp("/dev/shm", "lockstep-test-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

// newDisk makes a disk with an empty file system on it, one that does what it
// need not do as late as it may. Where that cannot be, the test is skipped.
func newDisk(t *testing.T, room string, size int64) *disk {
	t.Helper()
	image, err := os.CreateTemp(room, "disk-*.img") // a name of its own: one ejected may take a while to go
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{image: image.Name()}
	if err := errors.Join(image.Truncate(size), image.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, "mkfs.ext4", "-q", "-F", "-N", "16384", "-J", "size=8", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image)
	d.insert(t)
	return d
}

func must(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// insert mounts the disk.
func (d *disk) insert(t *testing.T) {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", d.image).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: %v: %s", err, out)
	}
	d.device, d.dir = strings.TrimSpace(string(out)), d.image+".mounted"
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("mount", "-t", "ext4", "-o", "noauto_da_alloc,commit=600,errors=remount-ro", d.device, d.dir).CombinedOutput()
	if err != nil {
		_ = exec.Command("losetup", "--detach", d.device).Run() // the other one says more
		t.Skipf("needs to mount file systems: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if d.device != "" { // the test has failed
			_ = exec.Command("umount", "--lazy", d.dir).Run()
			_ = exec.Command("losetup", "--detach", d.device).Run()
		}
	})
}

// eject unmounts the disk and throws it away.
func (d *disk) eject(t testing.TB) {
	t.Helper()
	if t.Failed() {
		return
	}
	// A process that is just being started holds for a moment what we had open.
	for try := 0; exec.Command("umount", d.dir).Run() != nil; try++ {
		if try == 100 {
			must(t, "umount", d.dir)
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(t, "losetup", "--detach", d.device)
	d.device = ""
	if err := errors.Join(os.Remove(d.image), os.Remove(d.dir)); err != nil {
		t.Fatal(err)
	}
}

// pause stops a process, and returns when all its threads have stopped: the signal
// alone leaves them time to write and to answer. A process that has ended is left
// alone.
func pause(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil, errors.Is(err, unix.ECHILD): // stopped; ended
			return
		default:
			t.Fatal(err)
		}
	}
}

// TestPause stops a hub that is busy: when pause has returned, none of its threads
// runs, so that it neither writes nor answers.
func TestPause(t *testing.T) {
	t.Parallel()
	hub := startHub(t, "--listen", "127.0.0.1:0", "--state", t.TempDir())
	var publishers sync.WaitGroup
	for i := range 4 {
		publishers.Go(func() {
			for hub.publish(fmt.Sprint("https://data.example.org/", i), "x") == nil { // until the hub is gone
			}
		})
	}
	for range 50 {
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		pause(t, hub.cmd.Process)
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", hub.cmd.Process.Pid))
		if err != nil || len(threads) < 2 {
			t.Fatalf("threads %q: %v", threads, err)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				t.Fatal(err)
			}
			_, state, _ := strings.Cut(string(text), ") ")
			if !strings.HasPrefix(state, "T") {
				t.Errorf("a thread is not stopped: %s", text)
			}
		}
		if err := hub.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	hub.kill()
	publishers.Wait()
}

// cut returns a copy of the disk as it is at one moment, mounted.
func (d *disk) cut(t *testing.T) *disk {
	t.Helper()
	c := &disk{image: d.image + ".cut"}
	if first, isCut := strings.CutSuffix(d.image, ".cut"); isCut { // the disk that it is a copy of was ejected
		c.image = first
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		was := d.written(t)
		if err := copySparse(c.image, d.image); err != nil {
			t.Fatal(err)
		}
		if d.written(t) == was {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the disk is never at rest")
		}
	}
	c.insert(t)
	return c
}

// written tells what was written to the disk so far, and what is on its way.
func (d *disk) written(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(d.device), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text))
	if f[8] != "0" { // in flight: no state to compare with
		return f[4] + " " + f[6] + time.Now().String()
	}
	return f[4] + " " + f[6]
}

// copySparse copies a file without its holes.
func copySparse(to, from string) error {
	const seekData, seekHole = 3, 4
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	for end := int64(0); ; {
		start, err := in.Seek(end, seekData)
		if errors.Is(err, syscall.ENXIO) {
			return out.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
		if end, err = in.Seek(start, seekHole); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(in, start, end-start)); err != nil {
			return err
		}
	}
}
