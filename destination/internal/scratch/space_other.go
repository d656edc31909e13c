//go:build !linux

package scratch

import "os"

// freeSpace returns how much more a file can hold, or -1 if that is not known.
func freeSpace(*os.File) int64 { return -1 }
