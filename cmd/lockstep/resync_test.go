package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestResyncTakenOver lets Python's resync-sync make a mirror, takes it over
// without fetching any of it again, keeps it in step, and asks resync-sync
// what it thinks of it then. Needs resync 2 where LOCKSTEP_RESYNC says; what
// it writes is imitated by the tests of adoption in package destination.
func TestResyncTakenOver(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"", "--hash=md5"} {
		src, work := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{"f1.txt": "file 1\n", "f2.txt": "file 2\n", "sub/f3.txt": "file 3\n"} {
			write(t, src, name, text)
		}
		p, err := startReady(exec.Command("lockstep", "serve", src, "--listen", "127.0.0.1:0", "--state", t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		resync := func(args ...string) string {
			t.Helper()
			if hash != "" {
				args = append([]string{hash}, args...)
			}
			cmd := resyncSync(t, append(args, "-v", strings.TrimSuffix(p.address, "/")+"=py")...)
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
			}
			return string(out)
		}
		ours := func(args ...string) map[string]any {
			t.Helper()
			cmd := exec.Command("lockstep", append(args, p.address, "py", "--json")...)
			cmd.Dir = work
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var report map[string]any
			if err = errors.Join(err, json.Unmarshal(out, &report)); err != nil {
				t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &stderr)
			}
			return report
		}
		if out := resync("--baseline"); !strings.Contains(out, "created=3") {
			t.Fatalf("baseline:\n%s", out)
		}
		if r := ours("audit"); r["in_sync"] != true || r["verified"] != 3.0 {
			t.Errorf("audit of what resync made: %v", r)
		}
		if r := ours("sync", "--adopt"); r["unchanged"] != 3.0 || r["by"].(map[string]any)["adopted"] != 3.0 || r["created"] != 0.0 {
			t.Errorf("taking over: %v", r)
		}
		write(t, src, "f2.txt", "file 2, changed\n")
		write(t, src, "new.txt", "new\n")
		if err := os.Remove(filepath.Join(src, "f1.txt")); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
			text, _ := get(p.address + "resourcesync/main/changelist.xml") // an error shows as no changes
			if strings.Count(text, "<url>") == 3 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the Change List never had all changes:\n%s", text)
			}
		}
		if r := ours("sync"); r["created"] != 1.0 || r["updated"] != 1.0 || r["deleted"] != 1.0 {
			t.Errorf("sync: %v", r)
		}
		if r := ours("audit", "--content"); r["in_sync"] != true || r["verified"] != 3.0 || r["foreign"] != 0.0 {
			t.Errorf("audit: %v", r)
		}
		if err := os.RemoveAll(filepath.Join(work, "py", ".lockstep")); err != nil { // which resync takes for resources
			t.Fatal(err)
		}
		if out := resync("--audit"); !strings.Contains(out, "IN SYNC (same=3, to create=0, to update=0, to delete=0)") || strings.Contains(out, "NOT IN SYNC") {
			t.Errorf("resync-sync --audit of our mirror:\n%s", out)
		}
	}
}

// resyncSync is a command of Python's resync-sync: of the directory
// LOCKSTEP_RESYNC, a checkout or what `pip install --target` made, or else of
// the PATH.
func resyncSync(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := os.Getenv("LOCKSTEP_RESYNC")
	if dir == "" {
		path, err := exec.LookPath("resync-sync")
		if err != nil {
			t.Skip("Python's resync-sync is not here: pip install resync, or name its directory in LOCKSTEP_RESYNC")
		}
		return exec.Command(path, args...)
	}
	script := filepath.Join(dir, "resync-sync")
	if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) {
		script = filepath.Join(dir, "bin", "resync-sync")
	}
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	cmd := exec.Command(python, append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	return cmd
}
