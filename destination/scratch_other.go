//go:build !linux

package destination

import (
	"errors"
	"os"
)

// unnamedFile makes a file in dir that never has a name: not here.
func unnamedFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// freeSpace returns how much more a file can hold, or -1 if that is not known.
func freeSpace(*os.File) int64 { return -1 }
