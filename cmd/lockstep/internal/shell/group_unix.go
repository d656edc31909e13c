//go:build unix

package shell

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the head of a process group of its own: what a terminal
// sends to us does not end it, and all it starts ends with it when its context
// does. The function returned ends what is left then.
func ownGroup(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	terminated := false
	cmd.Cancel = func() error {
		terminated = true
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	return func() {
		if terminated {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually no process is left to kill
		}
	}
}
