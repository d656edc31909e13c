package blob

import (
	"io/fs"
	"os"
)

const nonblock = 0

// syncDir does nothing: a directory cannot be synced here, NTFS keeps a
// journal of names.
func syncDir(*os.File) error { return nil }

// linked reports whether a file has more names than one, which is not known
// here without asking for more than a FileInfo.
func linked(fs.FileInfo) bool { return false }
