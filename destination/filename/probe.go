package filename

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
)

// A nameSpace is a directory in which names are probed.
type nameSpace interface {
	Make(name string) error           // a file; fs.ErrInvalid if no file can have the name
	Has(name string) (bool, error)    // whether a file has the name
	Names() (names []string, _ error) // of all files, as they are stored
}

// probes are names as they occur, each with one that must not be the same.
var probes = []struct{ name, other string }{
	{"Probe", "pROBE"},
	{"\u00e9", "\u00c9"},
	{"n\u00e4", "na\u0308"},
	{"o\u0308n", "\u00f6n"},
	{"stra\u00dfe", "strasse"},
	{"\xff\xfe", "\xfe\xff"},
	{"a:b?c*d|e\"f<g>h\\i", "a"},
	{"dot.", "dot"},
	{"blank ", "blank"},
	{"new\nline", "new"},
}

// ProbePortable reports whether the file system at dir, an existing directory,
// treats two different names as the same, or refuses or changes some names, so that
// [Options.Portable] is needed. It creates a directory "probe" in dir and removes
// it; only one probe may run there at a time.
func ProbePortable(dir string) (portable bool, err error) {
	if runtime.GOOS == "windows" {
		return true, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("probe names: %w", err)
	}
	defer root.Close() // opened for reading only
	if portable, err = probe(root); err != nil {
		return false, fmt.Errorf("probe names in %s: %w", dir, err)
	}
	return portable, nil
}

// probeDir is where names are probed. If the process is killed, the next probe
// removes what it left.
const probeDir = "probe"

func probe(root *os.Root) (portable bool, err error) {
	if err := root.RemoveAll(probeDir); err != nil {
		return false, err
	}
	if err := root.Mkdir(probeDir, 0o700); err != nil {
		return false, err
	}
	defer func() {
		if err1 := root.RemoveAll(probeDir); err == nil {
			err = err1
		}
	}()
	sub, err := root.OpenRoot(probeDir)
	if err != nil {
		return false, err
	}
	defer sub.Close() // opened for reading only
	return folds(rootNames{sub})
}

// folds probes names in n, which is empty.
func folds(n nameSpace) (bool, error) {
	var made []string
	for _, p := range probes {
		err := n.Make(p.name)
		if errors.Is(err, fs.ErrInvalid) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		made = append(made, p.name)
		if there, err := n.Has(p.other); there || err != nil {
			return there, err
		}
	}
	names, err := n.Names()
	if err != nil {
		return false, err
	}
	slices.Sort(names)
	slices.Sort(made)
	return !slices.Equal(names, made), nil
}

type rootNames struct{ root *os.Root }

func (r rootNames) Make(name string) error {
	f, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO):
		return err
	}
	return fs.ErrInvalid // the error depends on the file system: EINVAL, EILSEQ, EEXIST, …
}

func (r rootNames) Has(name string) (bool, error) {
	_, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, nil // no file has a name that the file system refuses
}

func (r rootNames) Names() ([]string, error) {
	f, err := r.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	return f.Readdirnames(-1)
}
