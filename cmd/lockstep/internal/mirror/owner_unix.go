//go:build unix

package mirror

import (
	"os"
	"syscall"
)

// otherOwner returns the user to whom a directory belongs, if that is another one than root,
// which runs this process; otherwise -1.
func otherOwner(dir string) int {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return -1
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
		return int(s.Uid)
	}
	return -1
}
