package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestServeCountsHidden: serve --json says how many files it leaves out, and how many it
// publishes that others may not read.
func TestServeCountsHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".env", "a.txt"} {
		write(t, filepath.Join(dir, "files"), name, name)
	}
	if err := os.Chmod(filepath.Join(dir, "files", "a.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := start(t, dir, "serve", "files", "--json", "--listen", "127.0.0.1:0", "--state", "state")
	await(t, out, `"hidden":1,"private":1`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := exitCodeOf(cmd.Wait()); err != nil || code != 0 {
		t.Errorf("exit code %d, %v, want %d\n%s", code, err, 0, out)
	}
}
