package destination

import (
	"context"
	"errors"
	"strings"
	"sync"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
)

// names gives new resources their files. What a URI once has the Journal
// remembers; what was given out and is not recorded yet is remembered here.
type names struct {
	ctx   context.Context
	paths *filename.Mapping
	store blob.Store

	mu    sync.Mutex        // guards what follows
	files map[string]string // URIs by the keys of the paths given to them
	dirs  map[string]int    // how many of those lie below a directory, by key
	known map[string]bool   // directories seen on disk
}

// maxKnown caps the directories remembered: beyond, the file system is asked again.
const maxKnown = 50_000

func newNames(ctx context.Context, p *filename.Mapping, s blob.Store) *names {
	return &names{ctx: ctx, paths: p, store: s, files: map[string]string{}, dirs: map[string]int{}, known: map[string]bool{}}
}

// give returns a path for uri that nothing has, and keeps it until release.
func (n *names) give(uri string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	path, err := n.paths.Place(uri, n.at)
	if err != nil {
		return "", err
	}
	n.keep(uri, path)
	return path, nil
}

// isFirst reports whether path is the one uri has where nothing is in its way.
func (n *names) isFirst(uri, path string) bool {
	first, err := n.paths.Path(uri)
	return err == nil && first == path
}

// take keeps a path that uri has already.
func (n *names) take(uri, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keep(uri, path)
}

func (n *names) keep(uri, path string) {
	n.files[n.paths.Key(path)] = uri
	for dir := range parents(path) {
		n.dirs[n.paths.Key(dir)]++
	}
}

// release forgets a path: it is on disk, or will not be.
func (n *names) release(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.files, n.paths.Key(path))
	for dir := range parents(path) {
		key := n.paths.Key(dir)
		if n.dirs[key]--; n.dirs[key] == 0 {
			delete(n.dirs, key)
		}
	}
}

// look forgets what was seen on disk: deletions change it.
func (n *names) look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.known)
}

// owner returns the URI that path was given to in this run, or "".
func (n *names) owner(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.files[n.paths.Key(path)]
}

// at tells what stands at path.
func (n *names) at(path string) (filename.Occupancy, error) {
	key := n.paths.Key(path)
	switch {
	case n.files[key] != "":
		return filename.Occupied, nil
	case n.known[path], n.dirs[key] > 0:
		return filename.Directory, nil
	}
	_, err := n.store.Stat(n.ctx, path)
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
		return filename.Vacant, nil
	}
	return filename.Occupied, &content.LocalError{Err: err}
}

// parents yields the directories above path.
func parents(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
			if !yield(path[:i]) {
				return
			}
		}
	}
}
