package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Replace gives the file at path the content, whole and durably: after a crash or a
// power cut it has the old content or the new one. Concurrent calls for one path
// need different processes to be excluded, and must not overlap.
func Replace(path string, content []byte) error {
	next := path + ".new" // always the same name: a file left by a crash is overwritten
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, FileMode)
	if err != nil {
		return err
	}
	if err = finish(f, content); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the first error says more
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Create creates the file at path with the content, whole and durably. If it exists,
// also because another process was faster, the error is [fs.ErrExist].
func Create(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // renamed by then, or useless
	if err := finish(f, content); err != nil {
		return err
	}
	err = os.Link(f.Name(), path) // unlike Rename it replaces nothing
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = os.Rename(f.Name(), path) // a file system without hard links
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// finish writes the content of a file, makes it durable and closes the file.
func finish(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in a directory durable. It does nothing where the system
// or the file system does not support that.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // opened for reading only
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
