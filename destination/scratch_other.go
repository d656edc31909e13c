//go:build !linux

package destination

import (
	"errors"
	"os"
)

// unnamedFile makes a file in dir that never has a name: not here.
func unnamedFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
