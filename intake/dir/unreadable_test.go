//go:build unix

package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake/dir"
)

// TestUnreadable: what cannot be read is reported and stays as it was, even
// where more could be found out by guessing names.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	unprivileged(t, func(t *testing.T) {
		root, err := os.MkdirTemp("", "unreadable-")
		must(t, err)
		t.Cleanup(func() { readable(root); _ = os.RemoveAll(root) })
		cat := catalog.NewMem(nil)
		for _, rel := range []string{"file", "gone", "closed/a", "closed/b/c", "nolist/a", "nolist/gone", "noenter/a", "noenter/gone", "closed+", "nolist0"} {
			write(t, root, rel, "one")
		}
		d := newDir(t, root, cat, dir.Options{})
		scan(t, d)
		want := holds(t, cat)
		for _, rel := range []string{"gone", "nolist/gone", "noenter/gone", "closed+", "nolist0"} {
			must(t, os.Remove(filepath.Join(root, rel)))
		}
		for _, rel := range []string{"gone", "closed+", "nolist0"} {
			delete(want, base+rel)
		}
		write(t, root, "nolist/a", "two")
		write(t, root, "file", "two")
		for rel, mode := range map[string]os.FileMode{"file": 0, "closed": 0, "nolist": 0o100, "noenter": 0o400} {
			must(t, os.Chmod(filepath.Join(root, rel), mode))
		}
		r := scan(t, d)
		if diff := cmp.Diff(want, holds(t, cat)); diff != "" {
			t.Errorf("catalog (-want +got):\n%s", diff)
		}
		var paths []string
		for _, p := range r.Unreadable.First {
			if p.Err.Error() != "permission denied" {
				t.Errorf("%s: %v", p.Path, p.Err)
			}
			paths = append(paths, p.Path)
		}
		if diff := cmp.Diff([]string{"closed", "file", "noenter/a", "noenter/gone", "nolist"}, paths); diff != "" {
			t.Errorf("unreadable (-want +got):\n%s", diff)
		}
	})
}

// TestUnreadableIsNotPrivate: a file that could never be read is not among those that are
// published although other users may not read them; one that was published before is.
func TestUnreadableIsNotPrivate(t *testing.T) {
	t.Parallel()
	const many = 120
	unprivileged(t, func(t *testing.T) {
		root, err := os.MkdirTemp("", "unreadable-")
		must(t, err)
		must(t, os.Chmod(root, 0o755))
		t.Cleanup(func() { readable(root); _ = os.RemoveAll(root) })
		d := newDir(t, root, catalog.NewMem(nil), dir.Options{})
		write(t, root, "earlier", "one")
		scan(t, d)
		write(t, root, "earlier", "another")
		for _, rel := range []string{"new", "private"} {
			write(t, root, rel, "one")
		}
		for rel, mode := range map[string]os.FileMode{"earlier": 0, "new": 0, "private": 0o600} {
			must(t, os.Chmod(filepath.Join(root, rel), mode))
		}
		for i := range many { // more than are named
			rel := fmt.Sprintf("new%d", i)
			write(t, root, rel, "one")
			must(t, os.Chmod(filepath.Join(root, rel), 0))
		}
		r := scan(t, d)
		var paths []string
		for _, p := range r.Private.First {
			paths = append(paths, p.Path)
		}
		if diff := cmp.Diff([]string{"earlier", "private"}, paths); diff != "" || r.Private.Count != 2 || r.Unreadable.Count != 2+many {
			t.Errorf("%d private, %d unreadable; private (-want +got):\n%s", r.Private.Count, r.Unreadable.Count, diff)
		}
	})
}
