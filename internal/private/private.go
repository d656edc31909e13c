// Package private creates state that only its owner can read and write:
// directories with mode 0700 and files with mode 0600, whatever the umask.
//
// State that older versions made with wider modes is narrowed when it is opened.
// Directories that a user made and named are the user's: [Wide] reports them.
package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Modes of what belongs to the state.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// MakeDirs makes a directory with all its parents that are missing.
func MakeDirs(path string) error { return os.MkdirAll(path, DirMode) }

// Dir makes a directory of the state, or narrows the one that is there: it must
// be one that only this program uses.
func Dir(path string) error {
	if err := MakeDirs(path); err != nil {
		return err
	}
	return Narrow(path)
}

// File makes an empty file of the state where there is none, and narrows the one
// that is there.
func File(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, FileMode)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrExist):
		return Narrow(path)
	}
	return err
}

// Narrow takes the permissions of others off a file or directory, if it has
// some. It follows no link. One that does not exist, or belongs to someone else,
// is left alone: it cannot be narrowed, but used.
func Narrow(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !wide(info) {
		return nil
	}
	err = os.Chmod(path, info.Mode().Perm()&0o700)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Wide reports whether others may look into a directory.
func Wide(path string) bool {
	info, err := os.Stat(filepath.Clean(path))
	return err == nil && wide(info)
}

func wide(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0
}
