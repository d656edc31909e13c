package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPowerCutHub cuts the power of a hub while it accepts messages and delivers
// them: it continues with what its disk held at that moment.
func TestPowerCutHub(t *testing.T) {
	t.Parallel()
	d := newDisk(t, diskRoom(t), 64<<20)
	testHubEnds(t, cutsWanted(), func() string { return filepath.Join(d.dir, "state") }, func(hub *hubProcess) {
		pause(t, hub.cmd.Process)
		left := d.cut(t)
		hub.kill()
		d.eject(t)
		d = left
	})
}

// cutsWanted is how often a test of a service cuts the power.
func cutsWanted() int {
	if *cutCount > 0 {
		return *cutCount
	}
	return 4
}

// TestPowerCutPublish cuts the power at random moments of publications with
// patches and dumps, and when they have ended. Every document that the disk then has
// names only what is there, the next publication completes what is missing, and after
// exit 0 nothing is missing.
func TestPowerCutPublish(t *testing.T) {
	t.Parallel()
	d := newDisk(t, diskRoom(t), 96<<20)
	site := &cutSite{t, d}
	for run, cuts := 0, 0; cuts < cutsWanted(); run++ {
		site.change(run)
		cmd := site.publication(d)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // has ended, unless the test has failed
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("publish: %v\n%s", err, &output)
			}
			site.check(d.cut(t), true)
		case <-time.After(time.Duration(rand.IntN(400)) * time.Millisecond):
			pause(t, cmd.Process)
			left := d.cut(t)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			site.check(left, false)
			if err := <-done; err != nil {
				t.Fatalf("publish: %v\n%s", err, &output)
			}
		}
		cuts++
	}
	d.eject(t)
}

// A cutSite is what TestPowerCutPublish publishes.
type cutSite struct {
	testing.TB
	disk *disk
}

// change changes the files. They are on the disk as a whole before they are published.
func (s *cutSite) change(run int) {
	s.Helper()
	write := func(name, text string) {
		path := filepath.Join(s.disk.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			s.Fatal(err)
		}
	}
	write("site.yaml", killedSite)
	write("items.jsonl", fmt.Sprintf("{\"uri\":\"http://x.org/i/%d\"}\n", run%3))
	for range 8 {
		write(fmt.Sprintf("files/%d/%d.json", rand.IntN(4), rand.IntN(15)), fmt.Sprintf("{%q: %d, %q: %q}\n", "run", run, "pad", strings.Repeat("x", 4000)))
	}
	_ = os.Remove(filepath.Join(s.disk.dir, fmt.Sprintf("files/%d/%d.json", rand.IntN(4), rand.IntN(15)))) // if it is there
	must(s, "sync", "-f", s.disk.dir)
}

// publication returns the command that publishes what is on a disk.
func (s *cutSite) publication(d *disk) *exec.Cmd {
	cmd := exec.Command("lockstep", "publish", "--config", "site.yaml")
	cmd.Dir = d.dir
	return cmd
}

// check examines what a power cut left; ended says that the publication had ended.
func (s *cutSite) check(left *disk, ended bool) {
	s.Helper()
	documents := filepath.Join(left.dir, "documents")
	checkNothingDangles(s.TB, documents, "http://x.org/")
	if ended {
		written, there := documentsIn(s, filepath.Join(s.disk.dir, "documents")), documentsIn(s, documents)
		if diff := cmp.Diff(written, there); diff != "" {
			s.Errorf("power cut after exit 0 (-published +left):\n%s", diff)
		}
	}
	if out, err := s.publication(left).CombinedOutput(); err != nil {
		s.Fatalf("publish after a power cut: %v\n%s", err, out)
	}
	checkNothingDangles(s.TB, documents, "http://x.org/")
	if s.Failed() {
		s.FailNow()
	}
	left.eject(s)
}

// documentsIn returns the hashes of the files below a directory.
func documentsIn(t testing.TB, dir string) map[string][sha256.Size]byte {
	t.Helper()
	files := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
