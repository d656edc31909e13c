//go:build unix

package status

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"lockstep/cmd/lockstep/internal/term"
)

// TestForbidden: a place that this user may not read is not one without a mirror.
func TestForbidden(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 { // for which permissions do not bind
		runAsAnother(t)
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".lockstep"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := Look(t.Context(), Options{Target: dir, LookupEnv: func(name string) (string, bool) { return dir, name == "XDG_STATE_HOME" }})
	if !errors.Is(err, fs.ErrPermission) || term.HintOf(err) != "run this as the user who runs the process, or as root" {
		t.Errorf("error %v, hint %q", err, term.HintOf(err))
	}
}

// runAsAnother runs the test in a process of another user than root.
func runAsAnother(t *testing.T) {
	const other = 65534
	tmp := t.TempDir()
	for dir := tmp; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(tmp, other, other); err != nil {
		t.Skipf("this machine does not permit it: %v", err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
