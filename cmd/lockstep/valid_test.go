package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/discover"
	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// validDirs checks every directory below dir that holds a Source Description:
// what any script or guide has published, in whatever configuration, has no
// findings. Resources are not looked at, for some scripts change them behind
// the back of what was published; packages are.
func validDirs(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // some scripts take the rights to read
		}
		if _, err := os.Stat(filepath.Join(path, filepath.FromSlash(strings.TrimPrefix(discover.WellKnown, "/")))); err != nil {
			return nil
		}
		base, err := opener.DirBase(path)
		if err != nil {
			return nil // a mirror, or what a script has made of it
		}
		base = strings.TrimSuffix(base, "/")
		r, err := validate.Source(t.Context(), opener.Dir(base, path), base+discover.WellKnown, validate.Options{Advice: true, TempDir: t.TempDir()})
		if err != nil {
			t.Errorf("validate %s: %v", path, err)
		}
		t.Logf("%s: %d documents, %d packages", path, r.Documents, r.Packages)
		for _, f := range r.Findings {
			if !advised(f) {
				t.Errorf("validate %s: %s", path, f)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// advised reports whether a finding is about what is not ours: what the owner of
// the resources says of them, or a robots.txt that was there before; or about several
// via links, the form of version 0.9, which is written only where it is configured.
func advised(f finding.Finding) bool {
	switch f.Rule {
	case "RS-HASH-02", "RS-XML-10", "RS-DISC-07", "RS-REL-71":
		return f.Level != finding.Error
	}
	return false
}
