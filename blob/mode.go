package blob

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/private"
)

// private reports whether a blob or directory is state, which only its owner can
// read: everything in a private store, otherwise what is below the first
// directory of Tmp.
func (d *Dir) private(name string) bool {
	own, _, _ := strings.Cut(d.opts.Tmp, "/")
	return d.opts.Private || name == own || strings.HasPrefix(name, own+"/")
}

// narrowTmp removes the permissions of others from the directory of unfinished
// blobs, which older versions created with those of the umask.
func (d *Dir) narrowTmp() error {
	for name := d.opts.Tmp; name != "."; name = filepath.ToSlash(filepath.Dir(name)) {
		if err := private.Narrow(filepath.Join(d.path, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

// publicMode determines the mode that the umask or access control lists give to
// files in the root, by creating one.
func (d *Dir) publicMode(tmp *folder) (fs.FileMode, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.public == 0 {
		d.public, err = learnMode(tmp)
	}
	return d.public, err
}

func learnMode(tmp *folder) (mode fs.FileMode, err error) {
	name := "mode-" + rand.Text()
	f, err := tmp.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err1 := f.Close(); err == nil {
		err = err1
	}
	if err1 := tmp.root.Remove(name); err == nil {
		err = err1
	}
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// publish gives the file the mode that blobs of its name have.
func (w *dirWriter) publish() error {
	if w.store.private(w.name) {
		return nil
	}
	mode, err := w.store.publicMode(w.tmp)
	if err != nil || mode == private.FileMode {
		return err
	}
	if w.file != nil {
		return w.file.Chmod(mode)
	}
	return setMode(w.tmp, w.base, mode)
}
