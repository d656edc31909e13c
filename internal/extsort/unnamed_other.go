//go:build !linux

package extsort

import (
	"errors"
	"os"
)

// Unnamed makes a file in dir that never has a name: not on this system.
func Unnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }
