package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServeWarns: serve warns of a hub that cannot be reached when it starts, and of a base
// URL that is another one than before, once.
func TestServeWarns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "files", "a.txt"), "a")
	const hub, moved = "warning: check hub http://127.0.0.1:1/: ", "warning: the base URL was http://a.invalid/ and is http://b.invalid/ now"
	for _, tt := range []struct {
		args, want, not string
	}{
		{"--base-url http://a.invalid/ --hub http://127.0.0.1:1/", hub, "the base URL was"},
		{"--base-url http://a.invalid/", "watching for changes", "warning: "},
		{"--base-url http://b.invalid/", moved, hub},
		{"--base-url http://b.invalid/", "watching for changes", "warning: "},
	} {
		cmd, out := start(t, dir, append([]string{"serve", "files", "--state", "state", "--listen", "127.0.0.1:0"}, strings.Fields(tt.args)...)...)
		within(t, tt.want+" in the output", func() bool {
			return strings.Contains(out.String(), tt.want) && strings.Contains(out.String(), "ready: ")
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // what it says is the subject
		if strings.Contains(out.String(), tt.not) {
			t.Errorf("serve %s: %s", tt.args, out)
		}
	}
}

// TestOverlappingSets: publish and serve warn of two sets with different files at one address.
func TestOverlappingSets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "x", "same"), "1")
	writeFile(t, filepath.Join(dir, "y", "same"), "2")
	writeFile(t, filepath.Join(dir, "sets.yaml"), "base_url: http://a.invalid/\nsets:\n- {name: a, from: \"dir:x\"}\n- {name: b, from: \"dir:y\"}\n")
	const want = "warning: the sets a and b publish different files at http://a.invalid/same: x/same and y/same;"
	if code, out := runIn(t, dir, "publish", "--config", "sets.yaml", "--out", "out", "--state", "published"); code != 0 || !strings.Contains(out, want) {
		t.Errorf("publish: exit %d, %s", code, out)
	}
	cmd, out := start(t, dir, "serve", "--config", "sets.yaml", "--state", "served", "--listen", "127.0.0.1:0")
	within(t, "the warning of serve", func() bool { return strings.Contains(out.String(), want) })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // what it says is the subject
}
