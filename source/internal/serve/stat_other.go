//go:build !linux

package serve

import "io/fs"

// changeTime returns when a file or its attributes last changed, and its inode:
// here neither is looked at.
func changeTime(fs.FileInfo) (nsec int64, inode uint64) { return 0, 0 }
