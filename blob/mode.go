package blob

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lockstep/internal/private"
)

// private reports whether a blob or directory is state, which only its owner can
// read: everything in a private store, otherwise what is below the first
// directory of Tmp.
func (o DirOptions) private(name string) bool {
	own, _, _ := strings.Cut(o.Tmp, "/")
	return o.Private || name == own || strings.HasPrefix(name, own+"/")
}

// narrowTmp removes the permissions of others from tmp, the directory of
// unfinished blobs below root, which older versions created with those of the
// umask.
func narrowTmp(root, tmp string) error {
	for name := tmp; name != "."; name = filepath.ToSlash(filepath.Dir(name)) {
		if err := private.Narrow(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

// A publicMode is the mode that the umask or access control lists give to files
// in the root. It is determined once.
type publicMode struct {
	mu   sync.Mutex  // guards mode
	mode fs.FileMode // 0: not determined yet
}

// get returns the mode, and determines it by creating a file in tmp.
func (p *publicMode) get(tmp *folder) (fs.FileMode, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.mode == 0 {
		p.mode, err = learnMode(tmp)
	}
	return p.mode, err
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
	if w.store.opts.private(w.name) {
		return w.hide()
	}
	if w.shown {
		return nil
	}
	mode, err := w.store.public.get(w.tmp)
	if err != nil || mode == private.FileMode {
		return err
	}
	w.shown = true
	return w.setMode(mode)
}

// hide makes the file private again.
func (w *dirWriter) hide() error {
	if !w.shown {
		return nil
	}
	w.shown = false
	return w.setMode(private.FileMode)
}

func (w *dirWriter) setMode(mode fs.FileMode) error {
	if w.file != nil {
		return w.file.Chmod(mode)
	}
	return setMode(w.tmp, w.base, mode)
}
