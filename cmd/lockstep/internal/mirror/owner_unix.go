//go:build unix

package mirror

import (
	"os"
	"syscall"
)

// isOthers reports whether root runs this process, and a directory belongs to another user.
func isOthers(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid != 0
}
