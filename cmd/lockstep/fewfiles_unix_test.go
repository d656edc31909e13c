//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
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

// TestMoreClientsThanOpenFiles has 200 clients ask services that may have 40 files
// Open, each of which keeps its connection when it has its answer: all are
// answered, nothing is logged as an error, and afterwards all is as before.
func TestMoreClientsThanOpenFiles(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	dir := filepath.Join(room, "files")
	for i := range 20 {
		write(t, dir, fmt.Sprint(i), strings.Repeat("x", 10_000*i)) // some are sent by the front, others by the server
	}
	src, err := startReady(fewFiles("serve", dir, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "serve")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.kill)
	hub, err := startReady(fewFiles("hub", "--publish-open", "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "hub")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.kill)
	mirror, err := startReady(fewFiles("follow", src.address, filepath.Join(room, "mirror"), "--callback", "http://127.0.0.1:0/"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirror.kill)
	for name, s := range map[string]struct {
		p    *process
		path func(i int) string
	}{
		"serve":  {src, func(i int) string { return fmt.Sprint(src.address, i%20) }},
		"hub":    {hub, func(int) string { return hub.address + "-/healthz" }},
		"follow": {mirror, func(int) string { return mirror.address + "-/healthz" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			for i := range 200 {
				all.Go(func() {
					client := &http.Client{Transport: &http.Transport{}, Timeout: readyLimit}
					t.Cleanup(client.CloseIdleConnections)
					for deadline := time.Now().Add(readyLimit); ; {
						resp, err := client.Get(s.path(i))
						if err == nil {
							_, err = io.Copy(io.Discard, resp.Body)
							_ = resp.Body.Close() // it has been read
						}
						if err == nil && resp.StatusCode == http.StatusOK {
							return
						}
						if time.Now().After(deadline) {
							t.Errorf("client %d got no answer: %v", i, err)
							return
						}
					}
				})
			}
			all.Wait()
			if text := s.p.stderr.String(); strings.Count(text, "level=") > 3 || strings.Contains(text, "level=ERROR") {
				t.Errorf("logged:\n%.2000s", text)
			}
		})
	}
}
