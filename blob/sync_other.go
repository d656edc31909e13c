//go:build !linux || portable

package blob

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

func syncfs(*os.File) error { return errors.ErrUnsupported }

func syncfsTells() bool { return false }

// rename moves a file between two folders of one root, by their paths: a link
// placed on the path meanwhile can redirect it within the root, but not out of
// it.
func rename(from *folder, name string, to *folder, toName string) error {
	if from.path != "" {
		name = from.path + "/" + name
	}
	if to.path != "" {
		toName = to.path + "/" + toName
	}
	return from.top.Rename(name, toName)
}

func renameNew(*folder, string, *folder, string) error { return errors.ErrUnsupported }

// createIn creates a new file in a folder.
func createIn(in *folder, base string, mode fs.FileMode) (*os.File, error) {
	return in.root.OpenFile(base, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

// createTmpFile is createIn for a file that is only written.
func createTmpFile(in *folder, base string, mode fs.FileMode) (tmpFile, error) {
	return createIn(in, base, mode)
}

// setMode sets the mode of the file base in a directory of the store's own.
func setMode(in *folder, base string, mode fs.FileMode) error { return in.root.Chmod(base, mode) }

func setModTime(_ tmpFile, in *os.Root, base string, mod time.Time) error {
	return in.Chtimes(base, time.Time{}, mod)
}
