package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"lockstep/internal/private"
)

// A folder is an open directory at or below a store's root. Its operations take
// one name, not a path, and never follow a symbolic link. (os.Root would follow
// a link that stays inside the root, but a link from one place of the root to
// another is as harmful as one that leads outside.) An opened object is
// compared with the one seen before, so that an exchange in between is noticed.
type folder struct {
	root *os.Root
	top  *os.Root // the store's root
	path string   // from top to root, "" if they are the same

	mu     sync.Mutex // guards what follows
	self   *os.File   // nil: not opened yet
	closed bool
}

// sub opens the directory of that name.
func (f *folder) sub(name string) (next *folder, err error) {
	if !localName(name) {
		return nil, ErrName
	}
	for range maxTries {
		// Directories come and go: another directory may have the name by now.
		if next, err = f.trySub(name); !errors.Is(err, errMoved) {
			break
		}
	}
	return next, err
}

func (f *folder) trySub(name string) (*folder, error) {
	before, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case before.Mode().IsRegular():
		return nil, ErrNotDirectory
	case !before.IsDir():
		return nil, ErrForeign
	}
	r, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := r.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errMoved
	}
	if err != nil {
		_ = r.Close() // opened for reading only
		return nil, err
	}
	path := name
	if f.path != "" {
		path = f.path + "/" + name
	}
	return &folder{root: r, top: f.top, path: path}, nil
}

// open opens the regular file of that name for reading.
func (f *folder) open(name string, flag int) (*os.File, fs.FileInfo, error) {
	before, err := f.lstat(name)
	if err != nil {
		return nil, nil, err
	}
	// Do not wait for a writer if the file has just been replaced by a pipe.
	file, err := f.root.OpenFile(name, flag|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	after, err := file.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errMoved
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, after, nil
}

// errMoved reports a name that was replaced by another file or directory while
// it was opened: another version was committed, so try again.
var errMoved = errors.New("replaced while being opened")

// lstat describes the regular file of that name.
func (f *folder) lstat(name string) (fs.FileInfo, error) {
	if !localName(name) {
		return nil, ErrName
	}
	info, err := f.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, ErrDirectory
	case !info.Mode().IsRegular():
		return nil, ErrForeign
	}
	return info, nil
}

// handle returns the directory itself as a file, for reading, syncing, and use
// in system calls.
func (f *folder) handle() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, fs.ErrClosed
	case f.self == nil: // an error may be gone with the next call
		self, err := f.root.Open(".")
		if err != nil {
			return nil, err
		}
		f.self = self
	}
	return f.self, nil
}

func (f *folder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.self != nil {
		_ = f.self.Close() // opened for reading only
	}
	_ = f.root.Close() // as above
}

// localName reports whether the file system treats name as one plain segment.
// On Windows a backslash separates too, and some names mean devices.
func localName(name string) bool {
	if runtime.GOOS != "windows" {
		return true
	}
	return filepath.IsLocal(name) && !strings.ContainsAny(name, `\/:`)
}

// A walker opens the directories on the paths to blobs. It caches up to
// walkerFolders of them, so that many blobs in one directory cost one walk. It
// is made for one batch and relies on its cache for the duration of the batch.
// It is not safe for concurrent use.
type walker struct {
	top  *folder // the walker does not close it
	open map[string]*folder
	made []string // directories that did not exist, parents first

	trace   tracer
	private func(name string) bool // whether a name is state, see DirOptions.private
}

// walkerFolders bounds the open files of one batch. Blobs of one directory tend
// to be adjacent, so few suffice; and beyond 256 open files Linux enlarges the
// process's file table, which takes some 20 ms when there are threads.
const walkerFolders = 32

// remembered reports whether directories at this depth are cached. A name of
// thousands of segments must neither open as many files, nor cause a walk from
// the root for each of its directories.
func remembered(depth int) bool { return depth < 16 || depth%64 == 0 }

// walker returns a walker from the root.
func (d *Dir) walker(top *folder) *walker {
	return &walker{top: top, open: make(map[string]*folder), private: d.opts.private, trace: d.trace}
}

// folder opens the directory dir, "" being the root. If create is set, a
// missing one is created. The folder is valid until the next call.
func (w *walker) folder(dir string, create bool) (*folder, error) {
	if dir == "" {
		return w.top, nil
	}
	if f := w.open[dir]; f != nil {
		return f, nil
	}
	if len(w.open) >= walkerFolders {
		w.forget()
	}
	at, f := w.nearest(dir)
	depth := strings.Count(dir[:at], "/")
	for at < len(dir) {
		if at > 0 {
			at++ // the slash
			depth++
		}
		end := len(dir)
		if i := strings.IndexByte(dir[at:], '/'); i >= 0 {
			end = at + i
		}
		next, err := w.step(f, dir[:end], dir[at:end], create)
		if f != w.top && w.open[dir[:max(at-1, 0)]] != f {
			f.close()
		}
		if err != nil {
			return nil, err
		}
		f, at = next, end
		if end == len(dir) || remembered(depth) && len(w.open) < walkerFolders-1 {
			w.open[dir[:end]] = f
		}
	}
	return f, nil
}

// nearest returns the longest cached prefix of dir and its folder.
func (w *walker) nearest(dir string) (int, *folder) {
	depth := strings.Count(dir, "/")
	for at := strings.LastIndexByte(dir, '/'); at > 0; at = strings.LastIndexByte(dir[:at], '/') {
		if depth--; !remembered(depth) {
			continue
		}
		if f := w.open[dir[:at]]; f != nil {
			return at, f
		}
	}
	return 0, w.top
}

// step opens the directory name in f; its whole name is dir.
func (w *walker) step(f *folder, dir, name string, create bool) (*folder, error) {
	next, err := f.sub(name)
	if !create || !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	// Another batch may create it at the same moment; then that one is used.
	mode := fs.FileMode(dirMode)
	if w.private(dir) {
		mode = private.DirMode
	}
	switch err := f.root.Mkdir(name, mode); {
	case err == nil:
		w.made = append(w.made, dir)
		w.trace.did(traceMkdir, dir)
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	return f.sub(name)
}

// forget closes the cached folders.
func (w *walker) forget() {
	for dir, f := range w.open {
		f.close()
		delete(w.open, dir)
	}
}

// split cuts a name into its directory, "" being the root, and its last segment.
func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}
