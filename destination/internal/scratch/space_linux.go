package scratch

import (
	"os"
	"syscall"
)

// freeSpace returns how much more a file can hold, or -1 if that is not known.
func freeSpace(f *os.File) int64 {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil || st.Blocks == 0 {
		return -1
	}
	return int64(min(st.Bavail, 1<<40)) * int64(st.Bsize)
}
