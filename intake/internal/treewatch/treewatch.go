// Package treewatch watches the directories of a tree for changes, by the system's
// notifications.
package treewatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"

	"github.com/fsnotify/fsnotify"
)

// Events receives what a [Tree] reports. Paths are relative to its root and
// slash-separated. Its methods are called one at a time.
type Events interface {
	Touched(rel string) // something has happened to the file or directory
	Renamed(rel string) // it has moved, or is another one
	Everything()        // something has happened to the root
	Lost()              // events were lost, or the root is another directory: watches are unreliable
}

// A Tree holds the system's watches, one for each directory, and passes their
// events on. The zero value has none. It is safe for concurrent use.
type Tree struct {
	mu      sync.Mutex // guards the following fields
	fs      *fsnotify.Watcher
	done    chan struct{} // closed when the events of fs have been passed on
	root    string
	watched map[string]watched // by relative path
	paths   map[inode]string   // the path of each directory that is watched
	round   uint               // number of the full scan
	full    bool               // the system provides no more watches
	err     error              // the reason, until it was reported
}

// A watched is a directory with a watch.
type watched struct {
	inode inode
	round uint // of the last full scan that entered it, or that was the last one before
}

// An inode identifies a directory wherever it is moved; the zero value is an unknown one.
type inode struct{ dev, ino uint64 }

// Open starts watching; [Tree.Add] adds directories.
func (n *Tree) Open(root string, to Events, f *pathname.Filter) {
	w, err := fsnotify.NewWatcher()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.root, n.watched, n.paths, n.full, n.err = root, make(map[string]watched), make(map[inode]string), false, nil
	if err != nil {
		n.full, n.err = true, errors.Join(errNone, err)
		return
	}
	n.fs, n.done = w, make(chan struct{})
	go pass(w, root, to, f, n.done)
}

// Close ends all watches.
func (n *Tree) Close() {
	n.mu.Lock()
	w, done := n.fs, n.done
	n.fs, n.done = nil, nil
	n.mu.Unlock()
	if w == nil {
		return
	}
	_ = w.Close() // nothing more can be done
	<-done
}

// Add watches the directory at rel. If it is watched under an earlier path, as it was moved,
// that watch is ended first: the system would continue it, and report the earlier path.
func (n *Tree) Add(rel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fs == nil || n.full {
		return
	}
	path := filepath.Join(n.root, filepath.FromSlash(rel))
	at, ok := directoryAt(path, rel == ".")
	if !ok {
		return // it has vanished, as the scan is about to find out; its place is reported by an event
	}
	if earlier, known := n.paths[at]; known && earlier != rel {
		n.remove(earlier)
	}
	err := n.fs.Add(path)
	switch {
	case err == nil:
		if before, known := n.watched[rel]; known && before.inode != at && n.paths[before.inode] == rel {
			delete(n.paths, before.inode)
		}
		n.watched[rel] = watched{at, n.round}
		if at != (inode{}) {
			n.paths[at] = rel
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		n.full, n.err = true, errNone
	default:
		// It has vanished or cannot be read, as the scan is about to find out.
	}
}

// directoryAt returns the directory at a path, and whether there is one. Only that at the root may
// be reached by a symbolic link.
func directoryAt(path string, follow bool) (inode, bool) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	fi, err := stat(path)
	if err != nil || !fi.IsDir() {
		return inode{}, false
	}
	st := filestat.Of(fi)
	return inode{st.Dev, st.Ino}, true
}

// remove ends the watch at rel. The caller holds n.mu.
func (n *Tree) remove(rel string) {
	if at := n.watched[rel].inode; n.paths[at] == rel {
		delete(n.paths, at)
	}
	delete(n.watched, rel)
	_ = n.fs.Remove(filepath.Join(n.root, filepath.FromSlash(rel))) // may be gone already
}

// Forget ends the watches on directories that were moved, and on directories below
// them, since they continue to report the old paths.
func (n *Tree) Forget(renamed []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fs == nil {
		return
	}
	for _, rel := range renamed {
		if _, ok := n.watched[rel]; !ok {
			continue
		}
		for dir := range n.watched {
			if pathname.Within(dir, rel) {
				n.remove(dir)
			}
		}
	}
}

// Begin notes that a full scan begins, which enters all directories.
func (n *Tree) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.round++
}

// End ends, after a full scan, the watches on directories that it did not enter: they have
// been deleted or moved.
func (n *Tree) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for rel, w := range n.watched {
		if w.round != n.round && n.fs != nil {
			n.remove(rel)
		}
	}
}

// Limited reports whether some directories are not being watched.
func (n *Tree) Limited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.full
}

// Failure returns, once, why some directories are not being watched.
func (n *Tree) Failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.err
	n.err = nil
	return err
}

// pass passes the events of w on until it is closed.
func pass(w *fsnotify.Watcher, root string, to Events, f *pathname.Filter, done chan struct{}) {
	defer close(done)
	events, errs := w.Events, w.Errors
	for events != nil || errs != nil {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
			} else if ev.Name != "" {
				passEvent(ev, root, to, f)
			}
		case err, ok := <-errs:
			if !ok {
				errs = nil
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				to.Lost() // most likely an overflow: events were lost
			}
		}
	}
}

func passEvent(ev fsnotify.Event, root string, to Events, f *pathname.Filter) {
	rel := "."
	if ev.Name != root {
		under, ok := strings.CutPrefix(ev.Name, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
		if !ok {
			return
		}
		rel = filepath.ToSlash(under)
	}
	if of, ok := f.SidecarOf(rel); ok && f.Passes(of) {
		to.Touched(of)
	}
	switch {
	case rel == "." && ev.Op&^fsnotify.Chmod != 0:
		to.Lost()
	case rel == ".":
		to.Everything()
	case !f.Passes(rel) && !f.PassesDir(rel):
		// No resources there; Lockstep may write its own documents there.
	case ev.Has(fsnotify.Rename):
		to.Renamed(rel)
	default:
		to.Touched(rel)
	}
}

var errNone = errors.New("no more directories can be watched (see fs.inotify.max_user_watches): scanning at intervals instead")
