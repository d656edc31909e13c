package dir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lockstep/intake/internal/filestat"
)

// A tree is an open root directory with everything below it. Paths are relative
// and slash-separated; "." is the root. No method leaves the root, and only
// stat and openFile with follow set pass through symbolic links. A tree is safe for
// concurrent use.
type tree interface {
	openDir(rel string) (dirHandle, error)
	openFile(rel string, follow bool) (treeFile, error) // does not block, even if rel is now a pipe
	openOS(rel string, follow bool) (*os.File, error)   // likewise
	lstat(rel string) (filestat.Stat, error)
	stat(rel string) (filestat.Stat, error)
	readlink(rel string) (string, error)
	info() (fs.FileInfo, error) // of the root
	close() error
}

// A dirHandle is an open directory.
type dirHandle interface {
	// read calls add with each name, which is valid only during the call, and its
	// kind as far as it is known.
	read(add func(name []byte, k filestat.Kind)) error
	lstat(name []byte) (filestat.Stat, error)
	private() bool // other users may not read it, as far as is known
	close() error
}

// A treeFile is an open file.
type treeFile interface {
	io.Reader
	io.ReaderAt // fails, without effect, if the file is now a pipe or a terminal
	stat() (filestat.Stat, error)
	Close() error
}

// vanished reports whether err means that the file no longer exists, or that a file
// of another kind has replaced it or a directory above it.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// escaped reports whether err means that a symbolic link leads out of the root.
func escaped(err error) bool {
	// os.Root does not export its error.
	return errors.Is(err, syscall.EXDEV) || strings.Contains(err.Error(), "path escapes from parent")
}

// rootTree is a tree based on os.Root: for every system, with a few more calls.
type rootTree struct{ root *os.Root }

func (t *rootTree) close() error               { return t.root.Close() }
func (t *rootTree) info() (fs.FileInfo, error) { return t.root.Stat(".") }

func (t *rootTree) openDir(rel string) (dirHandle, error) {
	f, err := t.openSame(rel, fs.ModeDir, syscall.ENOTDIR)
	if err != nil {
		return nil, err
	}
	return &rootDir{f: f, root: t.root, rel: rel}, nil
}

func (t *rootTree) openFile(rel string, follow bool) (treeFile, error) {
	f, err := t.openOS(rel, follow)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (t *rootTree) openOS(rel string, follow bool) (*os.File, error) {
	if follow {
		return t.root.OpenFile(rel, os.O_RDONLY|filestat.OpenFlags, 0)
	}
	return t.openSame(rel, 0, syscall.ELOOP)
}

// openSame opens the file at rel itself, not the target of a link, if it is of the
// given type; wrong is the error if it is not.
func (t *rootTree) openSame(rel string, typ fs.FileMode, wrong error) (*os.File, error) {
	before, err := t.lstatInfo(rel)
	if err != nil {
		return nil, err
	}
	if before.Mode().Type() != typ {
		return nil, &fs.PathError{Op: "open", Path: rel, Err: wrong}
	}
	f, err := t.root.OpenFile(rel, os.O_RDONLY|filestat.OpenFlags, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = &fs.PathError{Op: "open", Path: rel, Err: wrong}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// lstatInfo is like Lstat, but follows no symbolic links in the directories above
// rel either.
func (t *rootTree) lstatInfo(rel string) (fs.FileInfo, error) {
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		fi, err := t.root.Lstat(rel[:i])
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			return nil, &fs.PathError{Op: "lstat", Path: rel[:i], Err: syscall.ENOTDIR}
		}
	}
	return t.root.Lstat(rel)
}

func (t *rootTree) lstat(rel string) (filestat.Stat, error) {
	fi, err := t.lstatInfo(rel)
	if err != nil {
		return filestat.Stat{}, err
	}
	return filestat.Of(fi), nil
}

func (t *rootTree) stat(rel string) (filestat.Stat, error) {
	fi, err := t.root.Stat(rel)
	if err != nil {
		return filestat.Stat{}, err
	}
	return filestat.Of(fi), nil
}

func (t *rootTree) readlink(rel string) (string, error) {
	target, err := t.root.Readlink(rel)
	return filepath.ToSlash(target), err
}

type rootDir struct {
	f    *os.File
	root *os.Root
	rel  string
}

func (h *rootDir) close() error { return h.f.Close() }

func (h *rootDir) private() bool {
	fi, err := h.f.Stat()
	return err == nil && filestat.Of(fi).Private
}

func (h *rootDir) read(add func(name []byte, k filestat.Kind)) error {
	for {
		es, err := h.f.ReadDir(1024)
		for _, e := range es {
			add([]byte(e.Name()), filestat.KindOf(e.Type()))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (h *rootDir) lstat(name []byte) (filestat.Stat, error) {
	rel := string(name)
	if h.rel != "." {
		rel = h.rel + "/" + rel
	}
	fi, err := h.root.Lstat(rel)
	if err != nil {
		return filestat.Stat{}, err
	}
	return filestat.Of(fi), nil
}

// osFile is a treeFile based on package os.
type osFile struct{ *os.File }

func (f osFile) stat() (filestat.Stat, error) {
	fi, err := f.Stat()
	if err != nil {
		return filestat.Stat{}, err
	}
	return filestat.Of(fi), nil
}
