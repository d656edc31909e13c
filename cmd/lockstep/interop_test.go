package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// TestResyncClient replays what Python resync 2.0.1 asked of a Source when it
// made a mirror, brought it up to date and audited it (docs/interoperability.md):
// each request has to be answered with what that client can use.
func TestResyncClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"f1.txt": "file 1\n", "f2.txt": "file 2\n", "f3.txt": "file 3\n", "sub/deep.txt": "deep\n"}
	for name, text := range files {
		write(t, dir, name, text)
	}
	cmd := exec.Command("lockstep", "serve", dir, "--listen", "127.0.0.1:0", "--state", t.TempDir())
	p, err := startReady(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	replay(t, p.address, "baseline.http", files)

	write(t, dir, "f2.txt", "file 2, changed\n")
	write(t, dir, "new.txt", "new\n")
	if err := os.Remove(filepath.Join(dir, "f3.txt")); err != nil {
		t.Fatal(err)
	}
	files["f2.txt"], files["new.txt"] = "file 2, changed\n", "new\n"
	delete(files, "f3.txt")
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(50 * time.Millisecond) {
		text, _ := get(p.address + "resourcesync/main/changelist.xml") // an error shows as no changes
		if strings.Count(text, "<url>") == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the Change List never had all changes:\n%s", text)
		}
	}
	replay(t, p.address, "incremental.http", files)
	replay(t, p.address, "audit.http", files)
}

// replay sends the requests of a recording, byte for byte and each on its own
// connection, as they came. Answers have to be whole documents, or the files.
func replay(t *testing.T, address, recording string, files map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "interop", recording))
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		head, rest, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
		if !ok {
			t.Fatalf("%s: a request without an end", recording)
		}
		raw = rest
		request := append(head, "\r\n\r\n"...)
		path := strings.TrimPrefix(strings.Fields(string(head))[1], "/")
		status, body := exchange(t, address, request)
		if status != http.StatusOK {
			t.Errorf("%s: /%s: status %d", recording, path, status)
			continue
		}
		if want, ok := files[path]; ok {
			if body != want {
				t.Errorf("%s: /%s is %q, want %q", recording, path, body, want)
			}
			continue
		}
		r := resourcesync.NewReader(strings.NewReader(body), resourcesync.ReaderOptions{Strict: true})
		var e resourcesync.Entry
		for err = nil; err == nil; {
			err = r.Read(&e)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: /%s: %v\n%s", recording, path, err, body)
		}
	}
}

func exchange(t *testing.T, address string, request []byte) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(address, "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestResyncBuild mirrors what Python resync's resync-build wrote, from a
// plain file server: a Resource List without a link up, with a blank in a URI;
// then a Change List that does not say from when on it is complete, states
// lengths and hashes of what was deleted, and is not in the order of its times.
func TestResyncBuild(t *testing.T) {
	t.Parallel()
	const recorded = "http://127.0.0.1:18082/" // the Source in these documents
	site := t.TempDir()
	if err := os.CopyFS(site, os.DirFS(filepath.Join("testdata", "interop", "site"))); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(srv.Close)
	rename := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(site, from))
		if err != nil {
			t.Fatal(err)
		}
		write(t, site, to, strings.ReplaceAll(string(text), recorded, srv.URL+"/"))
	}
	for _, name := range []string{"resourcelist.xml", "changelist.xml", "capabilitylist.xml"} {
		rename(name, name)
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	step := func(args ...string) {
		t.Helper()
		out, err := exec.Command("lockstep", append(args, srv.URL+"/capabilitylist.xml", mirror)...).CombinedOutput()
		if err != nil {
			t.Fatalf("lockstep %s: %v\n%s", args[0], err, out)
		}
		want, err := contents(filepath.Join(site, "res"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := contents(filepath.Join(mirror, "res"))
		if err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("lockstep %s: %s is %q, want %q\n%s", args[0], name, got[name], want[name], out)
			}
		}
		if len(got) != len(want) {
			t.Errorf("lockstep %s: %d files, want %d\n%s", args[0], len(got), len(want), out)
		}
	}
	step("sync")
	step("audit", "--content")

	write(t, site, "res/f2.txt", "file 2, changed\n")
	write(t, site, "res/new.txt", "new\n")
	if err := os.Remove(filepath.Join(site, "res", "f3.txt")); err != nil {
		t.Fatal(err)
	}
	rename("changelist-after.xml", "changelist.xml")
	step("sync")
}

// write puts a file with its directories below dir.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
