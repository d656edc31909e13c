package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRelativeNetrc: the path of a netrc file begins where the configuration file is, of a
// Source as of a mirror; "true" is no path.
func TestRelativeNetrc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "lockstep.yaml")
	text := "netrc: names\nmirrors:\n  - source: https://example.org/\n    dest: a\n    netrc: other\n  - source: https://example.net/\n    dest: b\n    netrc: true\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []flagValue{c.Netrc, c.Mirrors[0].Netrc, c.Mirrors[1].Netrc}
	for i, want := range []string{filepath.Join(dir, "names"), filepath.Join(dir, "other"), "true"} {
		if string(got[i]) != want {
			t.Errorf("netrc %d is %q, want %q", i, got[i], want)
		}
	}
}
