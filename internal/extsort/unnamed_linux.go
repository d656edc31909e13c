package extsort

import (
	"os"
	"syscall"
)

// oTmpfile makes a file that never has a name.
const oTmpfile = 0x400000 | syscall.O_DIRECTORY

// Unnamed makes a file in dir that never has a name. Some file systems, such as
// overlays and those of networks, do not support such files.
func Unnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|oTmpfile, 0o600)
}
