package statebackup_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lockstep/internal/statebackup"
)

// TestOwner: what root restores belongs to the user that the state belonged to, whose process is
// to read it.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	const other = 54321
	dir, _ := newState(t, "catalog.db")
	if err := os.Lchown(dir, other, other); err != nil {
		t.Skipf("this machine does not permit it: %v", err)
	}
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	if _, err := statebackup.Backup(t.Context(), dir, file, now); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "state")
	if _, err := statebackup.Restore(t.Context(), file, target, now); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(target, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != other || st.Gid != other {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
