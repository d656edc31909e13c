package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUnfinishedDocuments has files left behind by publications that were
// killed: what is ours to remove is removed at the next start, what others
// keep in a directory we share with them stays.
func TestUnfinishedDocuments(t *testing.T) {
	t.Parallel()
	dir, state, out := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, dir, "a.txt", "a\n")
	write(t, state, "documents/.lockstep/tmp/0123456789abcdef", "unfinished")
	p, err := startReady(exec.Command("lockstep", "serve", dir, "--listen", "127.0.0.1:0", "--state", state))
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	// What the killed process was writing itself may be there.
	if _, err := os.Stat(filepath.Join(state, "documents", ".lockstep", "tmp", "0123456789abcdef")); !os.IsNotExist(err) {
		t.Errorf("an unfinished document is left behind: %v", err)
	}

	publish := func(state string, more ...string) {
		t.Helper()
		cmd := exec.Command("lockstep", append([]string{"publish", dir, "--out", out, "--base-url", "http://example.org/", "--state", state}, more...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("publish: %v\n%s", err, text)
		}
	}
	publish(state)
	ours, err := filepath.Glob(filepath.Join(out, ".lockstep", "tmp-*"))
	if err != nil || len(ours) != 1 {
		t.Fatalf("directories for unfinished documents: %q, %v, want one", ours, err)
	}
	write(t, ours[0], "0123456789abcdef", "unfinished")
	write(t, out, ".lockstep/tmp/download", "a mirror's, to go on with")
	publish(t.TempDir(), "--take-over")
	if _, err := os.Stat(filepath.Join(ours[0], "0123456789abcdef")); err != nil {
		t.Errorf("what another state's publication is at was removed: %v", err)
	}
	publish(state, "--take-over")
	checkEmpty(t, ours[0])
	if _, err := os.Stat(filepath.Join(out, ".lockstep", "tmp", "download")); err != nil {
		t.Errorf("a mirror's download was removed: %v", err)
	}
}

// checkEmpty fails if anything is in dir.
func checkEmpty(t testing.TB, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", filepath.Join(dir, e.Name()))
	}
}
