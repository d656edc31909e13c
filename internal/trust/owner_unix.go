//go:build unix

package trust

import (
	"os"
	"syscall"
)

// ours reports whether a file belongs to the user who runs the process.
func ours(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
