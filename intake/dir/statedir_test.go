package dir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake/dir"
)

func TestStateDirectoriesAreNeverPublished(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, rel := range []string{
		"a/file", "a/.lockstep/state.db", "a/b/.lockstep/versions/x", ".lockstep/secret", ".well-known/.lockstep/y",
		"a/.lockstep.txt", "notes.lockstep/z",
	} {
		write(t, root, rel, "x")
	}
	write(t, root, "c/.lockstep", "a file of that name is a resource")
	for link, target := range map[string]string{
		"direct": "a/.lockstep/state.db", "through": "private/state.db", "private": "a/.lockstep",
		"second": "direct", "a/up": "../.lockstep/secret", "harmless": "a/file", "a/b/around": "../.lockstep/../file",
	} {
		must(t, os.Symlink(filepath.FromSlash(target), filepath.Join(root, filepath.FromSlash(link))))
	}
	cat := catalog.NewMem(nil)
	d := newDir(t, root, cat, dir.Options{})
	scan(t, d)
	var got []string
	for uri := range holds(t, cat) {
		got = append(got, strings.TrimPrefix(uri, base))
	}
	slices.Sort(got)
	if want := []string{"a/.lockstep.txt", "a/file", "c/.lockstep", "harmless", "notes.lockstep/z"}; !slices.Equal(got, want) {
		t.Errorf("published %q, want %q", got, want)
	}
	for _, rel := range []string{"a/.lockstep/state.db", ".lockstep/secret", "direct", "through", "second", "a/up", "a/b/around", "a/b/.lockstep/versions/x"} {
		if f, _, err := d.Open(rel); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) = %v, %v; want an error that matches fs.ErrNotExist", rel, f, err)
		}
		if mark, err := d.Mark(rel); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Mark(%q) = %q, %v; want an error that matches fs.ErrNotExist", rel, mark, err)
		}
		if r, err := d.ScanPaths(context.Background(), rel); err != nil || r.Created+r.Updated > 0 {
			t.Errorf("ScanPaths(%q) = %+v, %v; want nothing published", rel, r, err)
		}
	}
}

func TestALinkThatIsTurnedIntoAStateDirectoryIsWithdrawn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "file", "x")
	write(t, root, ".lockstep/secret", "s")
	link := filepath.Join(root, "link")
	must(t, os.Symlink("file", link))
	cat := catalog.NewMem(nil)
	d := newDir(t, root, cat, dir.Options{})
	scan(t, d)
	must(t, os.Remove(link))
	must(t, os.Symlink(".lockstep/secret", link))
	if r := scan(t, d); r.Deleted != 1 || r.Updated != 0 {
		t.Errorf("scan: %+v, want the link deleted", r)
	}
}
