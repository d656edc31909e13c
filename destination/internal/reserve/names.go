// Package reserve gives new resources the names of their files, so that no two of
// a run get the same one.
package reserve

import (
	"context"
	"errors"
	"strings"
	"sync"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
)

// Names gives new resources the names of their files. The Journal remembers the
// name that a URI has; Names remembers those that are not recorded yet. It is
// safe for concurrent use.
type Names struct {
	Paths *filename.Mapping
	Store blob.Store

	mu    sync.Mutex        // guards what follows
	files map[string]string // URIs by the keys of the paths given to them
	dirs  map[string]int    // how many of those lie below a directory, by key
	known map[string]bool   // directories seen on disk

	// fresh has directories that did not exist when they were first looked for: what is
	// below them comes from this run, so that the file system is not asked about each
	// file. If another program puts a file there, the commit reports it. nil: the store
	// cannot tell, so that it is asked.
	fresh  map[string]bool
	absent string // the first path that a Give has found absent
}

// maxKnown caps the directories remembered: beyond, the file system is asked again.
const maxKnown = 50_000

// New returns names that p maps URIs to, and that are free in s.
func New(p *filename.Mapping, s blob.Store) *Names {
	n := &Names{Paths: p, Store: s, files: map[string]string{}, dirs: map[string]int{}, known: map[string]bool{}}
	if _, ok := s.(*blob.Dir); ok { // its Writers are blob.Exclusive
		n.fresh = map[string]bool{}
	}
	return n
}

// Give returns a path for uri that nothing has, and keeps it until release. The content has
// to be committed with a [blob.Exclusive], if the store has them.
func (n *Names) Give(ctx context.Context, uri string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.absent = ""
	path, err := n.Paths.Place(uri, func(path string) (filename.Occupancy, error) { return n.at(ctx, path) })
	if err != nil {
		return "", err
	}
	n.keep(uri, path)
	if rest, ok := strings.CutPrefix(path, n.absent); ok && n.absent != "" && strings.HasPrefix(rest, "/") && n.fresh != nil {
		if len(n.fresh) >= maxKnown {
			clear(n.fresh)
		}
		n.fresh[n.absent] = true
	}
	return path, nil
}

// IsFirst reports whether path is the one uri has where nothing is in its way.
func (n *Names) IsFirst(uri, path string) bool {
	first, err := n.Paths.Path(uri)
	return err == nil && first == path
}

// Take keeps a path that uri has already.
func (n *Names) Take(uri, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keep(uri, path)
}

func (n *Names) keep(uri, path string) {
	n.files[n.Paths.Key(path)] = uri
	for dir := range Parents(path) {
		n.dirs[n.Paths.Key(dir)]++
	}
}

// Release forgets a path: it is on disk, or will not be.
func (n *Names) Release(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.files, n.Paths.Key(path))
	for dir := range Parents(path) {
		key := n.Paths.Key(dir)
		if n.dirs[key]--; n.dirs[key] == 0 {
			delete(n.dirs, key)
		}
	}
}

// Recheck forgets what was seen on disk: deletions change it.
func (n *Names) Recheck() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.known)
	clear(n.fresh)
}

// Owner returns the URI that path was given to in this run, or "".
func (n *Names) Owner(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.files[n.Paths.Key(path)]
}

// At returns what is at path.
func (n *Names) At(ctx context.Context, path string) (filename.Occupancy, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at(ctx, path)
}

func (n *Names) at(ctx context.Context, path string) (filename.Occupancy, error) {
	key := n.Paths.Key(path)
	switch {
	case n.files[key] != "":
		return filename.Occupied, nil
	case n.known[path], n.dirs[key] > 0:
		return filename.Directory, nil
	}
	for dir := range Parents(path) {
		if n.fresh[dir] {
			return filename.Vacant, nil
		}
	}
	_, err := n.Store.Stat(ctx, path)
	switch {
	case err == nil, errors.Is(err, blob.ErrForeign):
		return filename.Occupied, nil
	case errors.Is(err, blob.ErrDirectory):
		if len(n.known) >= maxKnown {
			clear(n.known)
		}
		n.known[path] = true
		return filename.Directory, nil
	case errors.Is(err, blob.ErrNotExist):
		if n.absent == "" {
			n.absent = path
		}
		return filename.Vacant, nil
	}
	return filename.Occupied, &content.LocalError{Err: err}
}

// Parents yields the directories above path.
func Parents(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
			if !yield(path[:i]) {
				return
			}
		}
	}
}

// Blocked reports whether path is something other than a file, or is below
// something other than a directory.
func Blocked(ctx context.Context, s blob.Store, path string) (bool, error) {
	_, err := s.Stat(ctx, path)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, blob.ErrDirectory), errors.Is(err, blob.ErrForeign):
		return true, nil
	case !errors.Is(err, blob.ErrNotExist):
		return false, nil // it exists, or fetching it reports the error
	}
	for dir := range Parents(path) {
		if _, err := s.Stat(ctx, dir); err == nil || errors.Is(err, blob.ErrForeign) {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// InTheWay reports whether err says that there cannot be a file of this name: there
// is a directory, or a file where a directory is needed.
func InTheWay(err error) bool {
	return errors.Is(err, blob.ErrDirectory) || errors.Is(err, blob.ErrNotDirectory)
}

// IsReplaced reports whether err says that something else is where a file of the
// mirror was: the file is gone, and what replaced it must not be removed.
func IsReplaced(err error) bool {
	return InTheWay(err) || errors.Is(err, blob.ErrForeign)
}
