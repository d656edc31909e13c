// Package treewatch watches the directories of a tree for changes, by the system's
// notifications.
package treewatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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
	Created(rel string) // it has got this name
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
	twice   bool               // since the last full scan began, a directory was found at two paths
	warned  bool               // that was the reason once
	err     error              // why some directories are not being watched, until it was reported
}

// A watched is a directory with a watch.
type watched struct {
	inode inode
	round uint // number of the latest full scan when the directory was last entered
}

// An inode identifies a directory wherever it is moved; the zero value is an unknown one.
type inode struct{ dev, ino uint64 }

// Open starts watching; [Tree.Add] adds directories.
func (n *Tree) Open(root string, to Events, f *pathname.Filter) {
	w, err := fsnotify.NewWatcher()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.root, n.watched, n.paths, n.full, n.err = root, make(map[string]watched), make(map[inode]string), false, nil
	n.twice, n.warned = false, false
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

// Add watches the directory at rel, or confirms that it is still there; if no more watches are
// available, it only does the latter. If the directory is watched under an earlier path, as it was
// moved, that watch is ended first: the system would continue it, and report the earlier path. If
// the directory is at both paths, it is not watched at rel: the system has one watch for each
// directory, and reports one path.
func (n *Tree) Add(rel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, known := n.watched[rel]
	if n.fs == nil || n.full && !known {
		return
	}
	at, ok := n.directoryAt(rel)
	if !ok {
		return // it has vanished, as the scan is about to find out; its place is reported by an event
	}
	if known && before.inode != at {
		n.remove(rel) // the watch is on the directory that was there before, wherever that is now
	}
	if earlier, known := n.paths[at]; known && earlier != rel {
		if n.leadsTo(earlier, at) {
			n.addTwice(rel, earlier)
			return
		}
		n.remove(earlier)
	}
	err := n.fs.Add(n.path(rel))
	switch {
	case err == nil:
		n.watched[rel] = watched{at, n.round}
		if at != (inode{}) {
			n.paths[at] = rel
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		n.remove(rel) // the system has ended the watch if there was one
		if !n.full {
			n.full, n.err = true, errNone
		}
	default:
		// It has vanished or cannot be read, as the scan is about to find out.
	}
}

// addTwice notes that the directory at rel, which is watched at another path, is not watched.
// The caller holds n.mu.
func (n *Tree) addTwice(rel, at string) {
	n.twice = true
	if n.warned || n.full {
		return
	}
	n.warned = true
	n.err = fmt.Errorf("%q and %q have the same inode number (is one a bind mount?), so that only %[1]q is watched: scanning at intervals instead", at, rel)
}

func (n *Tree) path(rel string) string { return filepath.Join(n.root, filepath.FromSlash(rel)) }

// directoryAt returns the directory at rel, and whether there is one. Only that at the root may
// be reached by a symbolic link.
func (n *Tree) directoryAt(rel string) (inode, bool) {
	stat := os.Lstat
	if rel == "." {
		stat = os.Stat
	}
	fi, err := stat(n.path(rel))
	if err != nil || !fi.IsDir() {
		return inode{}, false
	}
	return inodeOf(fi), true
}

// leadsTo reports whether the directory at rel is still the given one, and is not reached by a
// symbolic link on the way.
func (n *Tree) leadsTo(rel string, to inode) bool {
	for up := path.Dir(rel); up != "."; up = path.Dir(up) {
		if _, ok := n.directoryAt(up); !ok {
			return false
		}
	}
	at, ok := n.directoryAt(rel)
	return ok && at == to
}

// inodeOf returns the inode that fi describes; number 0, which some FUSE file systems report for
// everything, is an unknown one.
func inodeOf(fi fs.FileInfo) inode {
	st := filestat.Of(fi)
	if st.Ino == 0 {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

// remove ends the watch at rel. The caller holds n.mu.
func (n *Tree) remove(rel string) {
	if at := n.watched[rel].inode; n.paths[at] == rel {
		delete(n.paths, at)
	}
	delete(n.watched, rel)
	n.end(rel)
}

// end ends the system's watch at rel, if there is one. The caller holds n.mu.
func (n *Tree) end(rel string) {
	// If Add has found another directory that is watched at rel, as they were swapped just
	// then, fsnotify 1.10 has a path without a watch: Remove deletes the path, and panics.
	defer func() { _ = recover() }()
	_ = n.fs.Remove(n.path(rel)) // may be gone already
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
	n.twice = false
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
	return n.full || n.twice
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
	case ev.Has(fsnotify.Create):
		to.Created(rel)
	default:
		to.Touched(rel)
	}
}

var errNone = errors.New("no more directories can be watched (see fs.inotify.max_user_watches): scanning at intervals instead")
