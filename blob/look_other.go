//go:build !linux || portable

package blob

import (
	"errors"
	"io/fs"
	"os"
)

// look and lookInto are faster on some systems. Elsewhere callers walk.

func look(*folder, string) (Info, error) { return Info{}, errors.ErrUnsupported }

func lookInto(*folder, string) (*os.File, fs.FileInfo, error) {
	return nil, nil, errors.ErrUnsupported
}
