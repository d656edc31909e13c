//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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

// TestManyPartsInFortyOpenFiles publishes many parts of a Change List and archives of a feed at
// once, in a process that may have 40 files open.
func TestManyPartsInFortyOpenFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("files are closed before they are synced only where a whole file system can be synced")
	}
	room := t.TempDir()
	dir, config := filepath.Join(room, "files"), filepath.Join(room, "site.yaml")
	write(t, room, "site.yaml", "sets:\n  - {from: 'dir:"+dir+"', change_list: {entries: 3}, atom_pmh: {entries: 3}}\n")
	const n, parts = 150, 40
	for version := range 2 {
		for i := range n {
			write(t, dir, fmt.Sprint(i, ".txt"), strings.Repeat("x", i+1+version))
		}
		args := []string{"publish", "--config", config, "--out", filepath.Join(room, "out"), "--base-url", "http://example.org/", "--state", filepath.Join(room, "state"), "-q"}
		if out, err := fewFiles(args...).CombinedOutput(); err != nil {
			t.Fatalf("version %d: %v\n%.2000s", version, err, out)
		}
	}
	for _, pattern := range []string{"changelist-*.xml", "feed-*.atom", "changelist-*.xml.gz"} {
		if all, err := filepath.Glob(filepath.Join(room, "out", "resourcesync", "main", pattern)); err != nil || len(all) < parts {
			t.Errorf("%d documents %s, %v; want %d at least", len(all), pattern, err, parts)
		}
	}
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

// TestClientsThatDoNotReadKeepNoPlace: of services with 40 open files, clients that
// read nothing of what they ask for, several for each place, keep no others out; nor
// do those that send no more than the beginning of a request's body.
func TestClientsThatDoNotReadKeepNoPlace(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	dir := filepath.Join(room, "files")
	write(t, dir, "small", "text")
	if err := os.Truncate(filepath.Join(dir, "small"), 4); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "large", "")
	if err := os.Truncate(filepath.Join(dir, "large"), 24<<20); err != nil { // more than systems buffer
		t.Fatal(err)
	}
	src, err := startReady(fewFiles("serve", dir, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "serve"), "--hash", "md5"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.kill)
	hub, err := startReady(fewFiles("hub", "--publish-open", "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "hub"), "--admin", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.kill)
	admin := regexp.MustCompile(`(?m)^  administration   (127.+)$`).FindStringSubmatch(hub.out.String())
	if admin == nil {
		t.Fatalf("no admin address in %s", hub.out)
	}
	for name, tt := range map[string]struct {
		clients                int
		address, path, request string
	}{
		"serve": {24, src.address, "small", "GET /large HTTP/1.1\r\nHost: h\r\n\r\n"},
		"hub":   {24, hub.address, "-/healthz", "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nhub.mode="},
		"admin": {6, "http://" + admin[1] + "/", "-/healthz", "POST /-/api/v1/hub/topics HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(tt.address)
			if err != nil {
				t.Fatal(err)
			}
			for range tt.clients {
				c, err := net.Dial("tcp", u.Host)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if _, err := io.WriteString(c, tt.request); err != nil {
					t.Fatal(err)
				}
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyLimit}
			resp, err := client.Get(tt.address + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %s", resp.Status)
			}
		})
	}
	t.Cleanup(func() {
		if text := src.stderr.String() + hub.stderr.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("logged:\n%.2000s", text)
		}
	})
}
