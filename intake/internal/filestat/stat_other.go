//go:build !linux && !darwin

package filestat

import "io/fs"

// addSys adds nothing: only size and modification time are available.
func (s *Stat) addSys(fs.FileInfo) {}
