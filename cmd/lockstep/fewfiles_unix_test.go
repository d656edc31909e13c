//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fewFiles is a command line of the binary that may have 40 files open.
func fewFiles(args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `ulimit -n 40 && exec lockstep "$@"`, "sh"}, args...)...)
}

func TestFortyOpenFilesAreEnough(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	dir := filepath.Join(room, "files")
	const n = 400
	for i := range n {
		write(t, dir, fmt.Sprintf("d%d/%d.txt", i%7, i), strings.Repeat("x", i))
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := fewFiles(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%.2000s", args, err, out)
		}
	}
	run("publish", dir, "--out", filepath.Join(room, "out"), "--base-url", "http://example.org/", "--state", filepath.Join(room, "publish"), "--dump", "-q")
	p, err := startReady(fewFiles("serve", dir, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "serve"), "--dump", "-q"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	for _, via := range []string{"list", "dump"} {
		mirror := filepath.Join(room, "mirror-"+via)
		run("sync", p.address, mirror, "--via", via, "-q")
		run("audit", p.address, mirror, "--content", "-q")
	}
	run("sync", p.address, filepath.Join(room, "jobs"), "--jobs", "64", "--keep-versions=all", "-q")
	f, err := startReady(fewFiles("follow", p.address, filepath.Join(room, "followed"), "-q", "--listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	f.kill()
	run("audit", p.address, filepath.Join(room, "followed"), "-q")
}
