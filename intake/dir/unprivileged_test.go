//go:build unix

package dir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// unprivileged runs f where permissions bind: for root that is a process of
// its own, as another user.
func unprivileged(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t)
		return
	}
	const nobody = 65534
	tmp := t.TempDir()
	for dir := tmp; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Chown(tmp, nobody, nobody))
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=60s", "-rapid.nofailfile")
	c.Dir = tmp
	c.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
