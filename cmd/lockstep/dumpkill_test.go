package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// dumpKills is what a release is tested with a larger number of.
var dumpKills = flag.Int("dump-kills", 8, "how often TestDumpKilled kills a publication")

// TestDumpKilled kills publications with dumps at random moments, while files
// change: after each kill every entry document names only packages and parts
// that are there, whole. The last publication, which is not killed, holds what the
// files do.
func TestDumpKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, out := filepath.Join(dir, "files"), filepath.Join(dir, "out")
	if err := os.Mkdir(files, 0o777); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "lockstep.yaml")
	text := "base_url: http://data.example.org/\nstate: state\nsets:\n  - name: main\n    from: dir:files\n" +
		"    resource_dump: {every: 1ms, package_count: 7}\n    change_dump: {every: 1ms, package_count: 3}\n"
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(config, text)
	for i := range 40 {
		write(filepath.Join(files, fmt.Sprintf("f%02d", i)), fmt.Sprintf("first %d", i))
	}
	program, err := exec.LookPath("lockstep") // the test binary under this name, by testscript
	if err != nil {
		t.Fatal(err)
	}
	command := func() *exec.Cmd { return exec.Command(program, "publish", "--config", config, "--out", out) }
	start := time.Now()
	if text, err := command().CombinedOutput(); err != nil {
		t.Fatalf("publish: %v\n%s", err, text)
	}
	usual := time.Since(start)
	for kill := range *dumpKills {
		for range 1 + rand.IntN(6) {
			write(filepath.Join(files, fmt.Sprintf("f%02d", rand.IntN(60))), fmt.Sprintf("kill %d %d", kill, rand.Int()))
		}
		cmd := command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(usual))
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		if _, err := checkDumps(out); err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
	}
	if text, err := command().CombinedOutput(); err != nil {
		t.Fatalf("publish: %v\n%s", err, text)
	}
	content, err := checkDumps(out)
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range names {
		want, err := os.ReadFile(filepath.Join(files, f.Name()))
		if err != nil || content["http://data.example.org/"+f.Name()] != string(want) {
			t.Errorf("%s: the resource dump has %q, want %q, %v", f.Name(), content["http://data.example.org/"+f.Name()], want, err)
		}
	}
}

// checkDumps reads the dumps in a directory, and returns what the Resource Dump
// holds by URI.
func checkDumps(out string) (map[string]string, error) {
	content := make(map[string]string)
	for _, name := range []string{"resourcedump.xml", "changedump.xml"} {
		err := checkDump(out, "resourcesync/main/"+name, func(pkg []byte) error {
			if name == "changedump.xml" {
				return nil
			}
			return unpackDump(pkg, content)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return content, nil
}

// checkDump calls pkg with every package a document of a dump names.
func checkDump(out, name string, pkg func([]byte) error) error {
	h, entries, err := readDocument(out, name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := readNamed(out, e.Loc)
		if err != nil {
			return err
		}
		if h.Index {
			u, err := url.Parse(e.Loc)
			if err == nil {
				err = checkDump(out, u.Path[1:], pkg)
			}
			if err != nil {
				return err
			}
			continue
		}
		sum := sha256.Sum256(data)
		if e.Length != int64(len(data)) || e.Hashes.Get(resourcesync.SHA256) != string(sum[:]) {
			return fmt.Errorf("%s is not what %s says", e.Loc, name)
		}
		if _, err := readNamed(out, e.Link(resourcesync.RelContents)); err != nil {
			return err
		}
		if err := pkg(data); err != nil {
			return fmt.Errorf("%s: %w", e.Loc, err)
		}
	}
	return nil
}

func readNamed(out, uri string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(out, filepath.FromSlash(u.Path)))
}

func readDocument(out, name string) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	data, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(name)))
	if err != nil {
		return h, nil, err
	}
	return parseDocument(data)
}

func parseDocument(data []byte) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	r := resourcesync.NewReader(bytes.NewReader(data), resourcesync.ReaderOptions{Strict: true})
	if h, err = r.Header(); err != nil {
		return h, nil, err
	}
	for e, err := range r.Entries() {
		if err != nil {
			return h, nil, err
		}
		entries = append(entries, e)
	}
	return h, entries, nil
}

// unpackDump adds the files of a package to content, by the URIs its manifest
// has for them.
func unpackDump(pkg []byte, content map[string]string) error {
	z, err := zip.NewReader(bytes.NewReader(pkg), int64(len(pkg)))
	if err != nil {
		return err
	}
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(r); err != nil {
			return err
		}
		files["/"+f.Name] = text.String()
	}
	_, entries, err := parseDocument([]byte(files["/manifest.xml"]))
	for _, e := range entries {
		content[e.Loc] = files[e.Path]
	}
	return err
}
