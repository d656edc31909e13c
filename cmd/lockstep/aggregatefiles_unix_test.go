//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeSaysThatManyUpstreamsNeedManyFiles: the warning has the limit and the remedy.
func TestServeSaysThatManyUpstreamsNeedManyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "retries: 0\nsets:\n- name: all\n  upstreams:\n"
	for i := range 40 {
		text += fmt.Sprintf("  - {name: u%d, from: 'resourcesync:http://127.0.0.1:1/%d/capabilitylist.xml'}\n", i, i)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 256 && exec lockstep "$@"`, "sh",
		"serve", "--config", config, "--listen", freeAddress(t), "--state", filepath.Join(dir, "state"))
	p, err := startReady(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	const want = "warning: 40 upstreams need 200 open files or more, and this process may have 256"
	within(t, want, func() bool { return strings.Contains(p.stderr.String(), want) })
}
