package serve

import (
	"io/fs"
	"syscall"
)

// changeTime returns when a file or its attributes last changed, which unlike
// the modification time no program can set, and its inode.
func changeTime(info fs.FileInfo) (nsec int64, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano(), st.Ino
	}
	return 0, 0
}
