package dir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"lockstep/intake/internal/pathname"

	"github.com/fsnotify/fsnotify"
)

// A notifier holds the system's watches, one for each directory, and passes their
// events on. The zero value has none. It is safe for concurrent use.
type notifier struct {
	mu      sync.Mutex // guards the following fields
	fs      *fsnotify.Watcher
	done    chan struct{} // closed when the events of fs have been passed on
	root    string
	watched map[string]struct{} // relative paths of directories
	full    bool                // the system provides no more watches
	err     error               // the reason, until it was reported
}

// open starts watching; add adds directories.
func (n *notifier) open(root string, to *touched, f *pathname.Filter) {
	w, err := fsnotify.NewWatcher()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.root, n.watched, n.full, n.err = root, make(map[string]struct{}), false, nil
	if err != nil {
		n.full, n.err = true, errors.Join(errNoMoreWatches, err)
		return
	}
	n.fs, n.done = w, make(chan struct{})
	go pass(w, root, to, f, n.done)
}

// close ends all watches.
func (n *notifier) close() {
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

// add watches the directory at rel.
func (n *notifier) add(rel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fs == nil || n.full {
		return
	}
	err := n.fs.Add(filepath.Join(n.root, filepath.FromSlash(rel)))
	switch {
	case err == nil:
		n.watched[rel] = struct{}{}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		n.full, n.err = true, errNoMoreWatches
	default:
		// It has vanished or cannot be read, as the scan is about to find out.
	}
}

// forget ends the watches on directories that were moved, and on directories below
// them, since they continue to report the old paths.
func (n *notifier) forget(renamed []string) {
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
				delete(n.watched, dir)
				_ = n.fs.Remove(filepath.Join(n.root, filepath.FromSlash(dir))) // may be gone already
			}
		}
	}
}

// recount clears the list of watched directories before a scan enters all of them,
// so that deleted directories drop out.
func (n *notifier) recount() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watched = make(map[string]struct{})
}

// limited reports whether some directories are not being watched.
func (n *notifier) limited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.full
}

// failure returns, once, why some directories are not being watched.
func (n *notifier) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.err
	n.err = nil
	return err
}

// pass passes the events of w on until it is closed.
func pass(w *fsnotify.Watcher, root string, to *touched, f *pathname.Filter, done chan struct{}) {
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
				to.lost() // most likely an overflow: events were lost
			}
		}
	}
}

func passEvent(ev fsnotify.Event, root string, to *touched, f *pathname.Filter) {
	rel := "."
	if ev.Name != root {
		under, ok := strings.CutPrefix(ev.Name, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
		if !ok {
			return
		}
		rel = filepath.ToSlash(under)
	}
	if of, ok := f.SidecarOf(rel); ok && f.Passes(of) {
		to.path(of)
	}
	switch {
	case rel == "." && ev.Op&^fsnotify.Chmod != 0:
		to.lost()
	case rel == ".":
		to.everything()
	case !f.Passes(rel) && !f.PassesDir(rel):
		// No resources there; Lockstep may write its own documents there.
	case ev.Has(fsnotify.Rename):
		to.rename(rel)
	default:
		to.path(rel)
	}
}
