package treewatch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mounting runs the test again, in a process that may mount: nothing that it mounts is visible
// to others. It reports whether this is that process.
func mounting(t *testing.T) bool {
	t.Helper()
	const inside = "LOCKSTEP_TEST_MAY_MOUNT"
	if os.Getenv(inside) != "" {
		return true
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=90s")
	c.Env = append(os.Environ(), inside+"=1", "TMPDIR="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this system does not permit user and mount namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestBindMount: of two paths of one directory the first remains watched, and the tree is limited
// as long as there are both. When the first leads elsewhere, the other one is watched.
func TestBindMount(t *testing.T) {
	t.Parallel()
	if !mounting(t) {
		return
	}
	root := t.TempDir()
	at := func(rel string) string { return filepath.Join(root, rel) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, h := watch(t, root, ".", "a", "b", "c")
	check := func(limited bool, rels ...string) {
		t.Helper()
		w.Begin()
		for _, rel := range []string{".", "a", "b", "c"} {
			w.Add(rel)
		}
		w.End()
		if w.Limited() != limited {
			t.Errorf("Limited() = %t, want %t", !limited, limited)
		}
		for _, rel := range rels {
			must(os.WriteFile(at(rel), nil, 0o644))
			h.comes(t, rel)
		}
	}
	check(false, "a/1", "b/1", "c/1")
	must(syscall.Mount(at("c"), at("a"), "", syscall.MS_BIND, ""))
	check(true, "b/2", "c/2")
	if err := w.Failure(); err == nil || !strings.Contains(err.Error(), `"c" and "a"`) {
		t.Errorf("Failure() = %v, want an error about a and c", err)
	}
	must(syscall.Mount(at("c"), at("b"), "", syscall.MS_BIND, ""))
	must(syscall.Mount("none", at("c"), "tmpfs", 0, ""))
	check(true, "a/3", "c/3")
	if err := w.Failure(); err != nil {
		t.Errorf("Failure() = %v, want it to be returned once", err)
	}
	must(syscall.Unmount(at("a"), 0))
	check(false, "a/4", "b/4", "c/4")
	must(syscall.Unmount(at("b"), 0))
	must(syscall.Unmount(at("c"), 0))
	check(false, "a/5", "b/5", "c/5")
}

// fileInfo is what the system reports of a directory.
type fileInfo struct{ sys syscall.Stat_t }

func (fileInfo) Name() string       { return "dir" }
func (fileInfo) Size() int64        { return 0 }
func (fileInfo) Mode() fs.FileMode  { return fs.ModeDir }
func (fileInfo) ModTime() time.Time { return time.Time{} }
func (fileInfo) IsDir() bool        { return true }
func (f fileInfo) Sys() any         { return &f.sys }

// TestInodeZero: the number 0, which some FUSE file systems report, identifies no directory.
func TestInodeZero(t *testing.T) {
	t.Parallel()
	if got := inodeOf(fileInfo{syscall.Stat_t{Dev: 5}}); got != (inode{}) {
		t.Errorf("inodeOf number 0 = %v, want an unknown one", got)
	}
	if got, want := inodeOf(fileInfo{syscall.Stat_t{Dev: 5, Ino: 7}}), (inode{5, 7}); got != want {
		t.Errorf("inodeOf number 7 = %v, want %v", got, want)
	}
}
