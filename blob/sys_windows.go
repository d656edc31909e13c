package blob

import (
	"io/fs"
	"os"
)

const nonblock = 0

// syncDir does nothing: Windows cannot sync a directory, and NTFS journals
// names.
func syncDir(*os.File) error { return nil }

// linked reports whether a file has more than one name, which a FileInfo does
// not show on Windows.
func linked(fs.FileInfo) bool { return false }
