package dir_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
	"lockstep/intake/internal/pathname"
	"lockstep/resourcesync"
)

const (
	set  = "https://example.org/resourcesync/main/capabilitylist.xml"
	base = "https://example.org/data/"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
	Fatalf(string, ...any)
}

func newDir(t tb, root string, cat catalog.Catalog, o dir.Options) *dir.Dir {
	t.Helper()
	o.BaseURI = base
	d, err := dir.New(root, cat, set, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func scan(t tb, d *dir.Dir) intake.Report {
	t.Helper()
	r, err := d.Scan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// content is what a test knows of a resource: its SHA-256.
type content string

func of(b []byte) content {
	sum := sha256.Sum256(b)
	return content(sum[:])
}

// holds returns what the catalog holds.
func holds(t tb, cat catalog.Catalog) map[string]content {
	t.Helper()
	m := make(map[string]content)
	for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		m[r.URI] = content(r.Hashes.Get(resourcesync.SHA256))
	}
	return m
}

func write(t tb, root, rel, text string) {
	t.Helper()
	name := filepath.Join(root, rel)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// found is the reference: what a plain walk of package filepath finds.
type found struct {
	files   map[string]content
	unknown []string // paths of files, or with a slash of directories, of which nothing can be known
}

// look applies the rules of the package comment, one file after the other.
func look(t tb, dir string) found {
	t.Helper()
	f := found{files: make(map[string]content)}
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		switch {
		case rel == ".":
			return err
		case errors.Is(err, fs.ErrPermission) && e.IsDir():
			f.unknown = append(f.unknown, rel+"/")
			return nil
		case err != nil:
			return err
		case rel == "robots.txt" || rel == ".well-known/resourcesync" || e.IsDir() && (rel == "-" || rel == "resourcesync" || rel == ".lockstep"):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			// One may be allowed to read the names, but not to look behind them.
			if _, err := os.Lstat(filepath.Join(name, "any")); errors.Is(err, fs.ErrPermission) {
				f.unknown = append(f.unknown, rel+"/")
			}
			return nil
		case e.Type() == fs.ModeSymlink:
			if fi, err := root.Stat(rel); err == nil && !fi.Mode().IsRegular() || err != nil && !errors.Is(err, fs.ErrPermission) {
				return nil
			}
		case e.Type() != 0:
			return nil
		}
		b, err := root.ReadFile(rel)
		if errors.Is(err, fs.ErrPermission) {
			f.unknown = append(f.unknown, rel)
			return nil
		}
		f.files[pathname.EscapePath(rel)] = of(b)
		return err
	})
	must(t, err)
	return f
}

// want returns what the catalog has to hold if it held before.
func (f found) want(before map[string]content) map[string]content {
	m := make(map[string]content)
	for rel, c := range f.files {
		m[base+rel] = c
	}
	for _, rel := range f.unknown {
		uri := base + pathname.EscapePath(rel)
		for u, c := range before {
			if u == uri || strings.HasSuffix(uri, "/") && strings.HasPrefix(u, uri) {
				m[u] = c
			}
		}
	}
	return m
}
