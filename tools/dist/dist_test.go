package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCommitVersion(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, tt := range []struct {
		name, tag string
		dirty     bool
		want      string
	}{
		{"a release", "v0.1.0", false, "0.1.0"},
		{"a release with changes", "v0.1.0", true, "0.1.0+dirty"},
		{"a release candidate", "v0.2.0-rc.1", false, "0.2.0-rc.1"},
		{"between releases", "", false, "0.1.0-dev.20260115120000+g0123456789ab"},
		{"between releases with changes", "", true, "0.1.0-dev.20260115120000+g0123456789ab.dirty"},
	} {
		if got := commitVersion("0.1.0-dev", at, commit, tt.tag, tt.dirty); got != tt.want {
			t.Errorf("%s: commitVersion = %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	if all, err := choose(""); err != nil || len(all) != 6 {
		t.Errorf("choose of nothing = %v, %v, want all 6", all, err)
	}
	if got, err := choose("windows/arm64,linux/amd64"); err != nil || len(got) != 2 || got[0].fileName() != "lockstep.exe" || got[1].fileName() != "lockstep" {
		t.Errorf("choose = %v, %v", got, err)
	}
	if got, err := choose("plan9/amd64"); err == nil {
		t.Errorf("choose(plan9/amd64) = %v, want an error", got)
	}
}

// TestEmptyDirectory: the results of an earlier run are removed, and a directory with
// anything else is left as it is.
func TestEmptyDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := emptyDirectory(dir); err != nil {
		t.Fatal(err)
	}
	write("lockstep_0.1.0_linux_amd64.tar.gz")
	write(sumsFile)
	if err := emptyDirectory(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left of an earlier run: %v, %v", left, err)
	}
	write(sumsFile)
	write("thesis.txt")
	if err := emptyDirectory(dir); err == nil {
		t.Error("a directory with other files was accepted")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left in a directory with other files: %v, %v, want both", left, err)
	}
}

// TestArchivesAreReproducible: archives depend on what is in them, and on the time
// given.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	files := []file{{name: "a/", mode: 0o755}, {name: "a/b", mode: 0o644, data: bytes.Repeat([]byte("text "), 10000)}}
	at := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	elsewhere := at.In(time.FixedZone("", 9*3600))
	for name, archive := range map[string]func([]file, time.Time) ([]byte, error){"tar": tarred, "zip": zipped} {
		one, err := archive(files, at)
		if err != nil {
			t.Fatal(err)
		}
		two, err := archive(files, elsewhere)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: two archives of the same files differ, %v", name, err)
		}
	}
}
