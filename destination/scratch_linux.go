package destination

import (
	"os"
	"syscall"
)

// oTmpfile makes a file that never has a name.
const oTmpfile = 0x400000 | syscall.O_DIRECTORY

// unnamedFile makes a file in dir that never has a name. Some file systems, as
// overlays and those of networks, know no such files.
func unnamedFile(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|oTmpfile, 0o600)
}

// freeSpace returns how much more a file can hold, or -1 if that is not known.
func freeSpace(f *os.File) int64 {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil || st.Blocks == 0 {
		return -1
	}
	return int64(min(st.Bavail, 1<<40)) * int64(st.Bsize)
}
