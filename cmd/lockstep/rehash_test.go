package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

// TestRehashFindsDamage: with the whole share, a file that differs from its record
// although size and times do not show it is found within a day, reported, and
// listed as it is.
func TestRehashFindsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, state, out := filepath.Join(dir, "files"), filepath.Join(dir, "state"), filepath.Join(dir, "out")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	for i := range 5 {
		path := filepath.Join(files, fmt.Sprint(i, ".txt"))
		if err := os.WriteFile(path, fmt.Append(nil, "content ", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
	}
	publish := func() (stderr string) {
		t.Helper()
		cmd := exec.Command("lockstep", "publish", files, "--state", state, "--out", out, "--base-url", "https://example.org/", "--rehash", "100%")
		var b strings.Builder
		cmd.Stderr = &b
		if _, err := cmd.Output(); err != nil {
			t.Fatalf("publish: %v\n%s", err, b.String())
		}
		return b.String()
	}
	publish()
	settle()
	publish() // reads again what had been written just before
	damageRecord(t, filepath.Join(state, "catalog.db"), "main", "https://example.org/3.txt")
	right := fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte("content 3")))
	list := func() string {
		text, err := os.ReadFile(filepath.Join(out, "resourcesync/main/resourcelist.xml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if said := publish(); strings.Contains(said, "damage") {
		t.Fatalf("found before it was looked for: %s", said)
	}
	if strings.Contains(list(), right) {
		t.Fatal("the record is not damaged")
	}
	places, _ := filepath.Glob(filepath.Join(state, "*rehash.json"))
	if more, _ := filepath.Glob(filepath.Join(state, "*/*rehash.json")); len(places)+len(more) != 1 {
		t.Fatalf("files with the place reached: %v %v", places, more)
	} else {
		places = append(places, more...)
	}
	yesterday := fmt.Sprintf(`{"after":"","at":%q,"due":0}`, time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339))
	if err := os.WriteFile(places[0], []byte(yesterday), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := publish(); !strings.Contains(said, "damage") || !strings.Contains(said, "3.txt") || strings.Count(said, "damage") != 1 {
		t.Errorf("a day later: %q, want the damage reported", said)
	}
	publish()
	if !strings.Contains(list(), right) {
		t.Errorf("the file is not listed as it is: %s", list())
	}
}

// settle waits until a scan trusts the times of files that were written before it:
// younger than 100 ms, they are read again by the next scan, which would repair a
// damaged record unnoticed.
func settle() { time.Sleep(250 * time.Millisecond) }

// damageRecord makes the catalog state a wrong hash of a resource.
func damageRecord(t *testing.T, path, name, uri string) {
	t.Helper()
	set := "https://example.org/resourcesync/" + name + "/capabilitylist.xml"
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	rec, ok, err := catalog.Find(t.Context(), db.Catalog(), set, uri)
	if err != nil || !ok {
		t.Fatalf("find %s: %v, %v", uri, ok, err)
	}
	rec.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: strings.Repeat("0", 64)}}
	if _, err := db.Catalog().Apply(t.Context(), set, []catalog.Update{{Record: rec}}); err != nil {
		t.Fatal(err)
	}
}

// TestRehashOfOneSet: the share that is read again can be set for each set: bytes that
// differ from their record, with size and times kept, are found in the set of which
// all is read, not in the one of which nothing is.
func TestRehashOfOneSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(rel string) string { return filepath.Join(dir, rel) }
	write(t, dir, "lockstep.yaml", `
base_url: https://example.org/
documents: out
state: state
rehash: 0
sets:
  - {name: read, from: 'dir:read', uri: https://example.org/read/, rehash: 100%}
  - {name: left, from: 'dir:left', uri: https://example.org/left/}
`)
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{"read/a.txt", "left/a.txt"} {
		write(t, dir, name, "right")
		if err := os.Chtimes(path(name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	publish := func() string {
		t.Helper()
		text, err := exec.Command("lockstep", "publish", "--config", path("lockstep.yaml")).CombinedOutput()
		if err != nil {
			t.Fatalf("publish: %v\n%s", err, text)
		}
		return string(text)
	}
	publish()
	settle()
	publish() // reads again what had been written just before
	// As if the disk had changed the bytes: neither size nor times show it.
	damageRecord(t, path("state/catalog.db"), "read", "https://example.org/read/a.txt")
	damageRecord(t, path("state/catalog.db"), "left", "https://example.org/left/a.txt")
	places, _ := filepath.Glob(path("state/*rehash.json"))
	more, _ := filepath.Glob(path("state/*/*rehash.json"))
	if places = append(places, more...); len(places) != 1 {
		t.Fatalf("files with the place reached: %v, want that of one set", places)
	}
	yesterday := fmt.Sprintf(`{"after":"","at":%q,"due":0}`, time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339))
	if err := os.WriteFile(places[0], []byte(yesterday), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := publish(); strings.Count(said, "damage") != 1 || !strings.Contains(said, "https://example.org/read/a.txt") {
		t.Errorf("a day later: %q, want the damage of one set reported", said)
	}
	publish()
	sum := fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte("right")))
	for name, want := range map[string]bool{"read": true, "left": false} {
		list, err := os.ReadFile(path("out/resourcesync/" + name + "/resourcelist.xml"))
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(string(list), sum); found != want {
			t.Errorf("set %s states the hash of its file: %t, want %t", name, found, want)
		}
	}
}
