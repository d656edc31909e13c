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
