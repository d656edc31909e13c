package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockstep/internal/private"
)

// keyDir is a keyStore in a directory.
type keyDir string

func (dir keyDir) place(name string) string { return filepath.Join(string(dir), name) }

func (dir keyDir) list() ([]string, error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, err
	}
	for _, above := range []string{filepath.Dir(string(dir)), filepath.Dir(filepath.Dir(string(dir)))} {
		if err := private.SyncDir(above); err != nil { // it may be a new entry of above
			return nil, err
		}
	}
	files, err := os.ReadDir(string(dir)) // by name
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	return names, err
}

func (dir keyDir) open(name string) (keyFile, int64, time.Time, error) {
	f, err := os.Open(dir.place(name))
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // read only
		return nil, 0, time.Time{}, err
	}
	return osFile{f}, info.Size(), info.ModTime(), nil
}

func (dir keyDir) create(name string, _ time.Time) (keyFile, error) {
	f, err := os.OpenFile(dir.place(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := private.SyncDir(string(dir)); err != nil {
		_ = f.Close() // it is empty
		_ = os.Remove(dir.place(name))
		return nil, err
	}
	return osFile{f}, nil
}

func (dir keyDir) remove(name string) error {
	if err := os.Remove(dir.place(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// An osFile is a keyFile of a keyDir.
type osFile struct{ *os.File }

func (f osFile) write(text []byte, offset int64) error {
	if _, err := f.WriteAt(text, offset); err != nil {
		return err
	}
	return f.Sync()
}
