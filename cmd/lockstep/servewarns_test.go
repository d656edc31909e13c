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
