// Package private creates state that only its owner can read and write:
// directories with mode 0700 and files with mode 0600, whatever the umask.
//
// State that older versions created with wider modes is restricted when it is
// opened. The modes of directories that a user has created are not changed:
// [Wide] reports them.
//
// Small files of the state are written by [Replace] and [Create], so that neither a
// crash nor a power cut leaves part of one.
package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Modes of state.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// MakeDirs creates a directory and all missing parents.
func MakeDirs(path string) error { return os.MkdirAll(path, DirMode) }

// Dir creates a directory of the state, or restricts an existing one, which
// must be used only by this program.
func Dir(path string) error {
	if err := MakeDirs(path); err != nil {
		return err
	}
	return Narrow(path)
}

// File creates an empty file of the state if it does not exist, and restricts an
// existing one.
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

// Narrow removes the permissions of others from a file or directory. It does not
// follow links. It ignores one that does not exist, or that belongs to another
// user: it cannot be restricted, but can be used.
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

// Wide reports whether other users may read a directory.
func Wide(path string) bool {
	info, err := os.Stat(filepath.Clean(path))
	return err == nil && wide(info)
}

func wide(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0
}
