package dir

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
)

// The walk reads directories with several workers and yields files in the byte
// order of their URIs.
//
// This is the order of a depth-first walk if the names in each directory are
// sorted in their escaped form, directories with a trailing slash. The workers read
// ahead of the consumer, always the next unread directory, and pause when lookahead
// entries are waiting. The consumer itself reads any directory that no worker has
// begun, so that it never waits for one that is not being read.
const (
	walkers   = 8         // directories read at a time; more gains nothing on local disks
	lookahead = 32 << 10  // entries read and not yet yielded; about 150 bytes each
	statRun   = 1 << 10   // files of a large directory that are examined as one run
	statRuns  = 4         // runs examined at a time
	maxArena  = 256 << 10 // a larger buffer of names is not reused for the next directory
)

// An item is a file or directory that the walk finds.
type item struct {
	uri  []byte        // URI; for a directory with a trailing slash. Valid until the next item
	car  *sidecar      // the sidecar of the file, or nil
	node *node         // the directory that contains it
	name []byte        // its name in the directory; valid as long as uri
	kind filestat.Kind // File, Unreadable, or Dir: an unreadable directory
	link bool          // it is a symbolic link to the file
	st   filestat.Stat // of the file; set only for a File
}

// rel returns the relative path of a file.
func (it *item) rel() string { return it.node.rel + string(it.name) }

// walker is one walk.
type walker struct {
	t    tree
	obs  observer
	f    *pathname.Filter
	base string

	mu      sync.Mutex // guards the following fields, and the guarded fields of nodes
	more    *sync.Cond
	queue   nodeQueue
	ahead   int // entries read but not yet yielded
	stopped bool
}

// An observer is notified of files that the walk skips. Its methods are called from
// several goroutines.
type observer interface {
	entering(rel string) // called before a directory is read
	Skipped(rel string, why error)
	Unreadable(rel string, err error)
	Hidden(rel string)  // its name begins with a dot
	Excluded()          // a name that patterns leave out
	Private(rel string) // it is not skipped, although other users may not read it
	// aliased is called for a file that can be written under another name: because
	// it is reached by a symbolic link, which may lead nowhere yet, or because
	// it has several names.
	aliased(rel string, st *filestat.Stat, link bool)
}

// node is one directory.
type node struct {
	rel, uri string // from the root: raw, escaped; with a trailing slash, or ""
	taken    atomic.Bool
	done     chan struct{}   // closed when it has been read
	err      error           // why it could not be read
	arena    []byte          // names
	ents     []dirent        // sorted
	stats    []filestat.Stat // of ents, unless there are runs
	cars     []sidecar       // of files in ents, in their order
	h        dirHandle       // open while runs are being examined
	runs     []chan []filestat.Stat
	looks    sync.WaitGroup // the runs being examined

	dirs     []int32 // the subdirectories: indexes in ents
	kids     []*node // guarded by walker.mu; created when needed, nil again when visited
	nextKid  int     // guarded; the first that no worker has begun
	nextURI  string  // guarded; its position in the walk, or an earlier one
	released bool    // guarded; all of the directory has been yielded
}

// dirent is one name in a directory.
type dirent struct {
	seg, name       uint32 // offsets of the escaped and the raw name in the arena
	segLen, nameLen uint16 // segLen includes the slash after a directory
	kind            filestat.Kind
}

func (n *node) segment(e *dirent) []byte { return n.arena[e.seg : e.seg+uint32(e.segLen)] }
func (n *node) rawName(e *dirent) []byte { return n.arena[e.name : e.name+uint32(e.nameLen)] }

// dirRel returns the path of the directory without the trailing slash.
func (n *node) dirRel() string {
	if n.rel == "" {
		return "."
	}
	return n.rel[:len(n.rel)-1]
}

func newNode(rel, uri string) *node { return &node{rel: rel, uri: uri, done: make(chan struct{})} }

// walk yields the files below start: the root, or a directory that was already read
// and contains what is to be yielded.
func (w *walker) walk(ctx context.Context, start *node, yield func(*item) error) error {
	w.more = sync.NewCond(&w.mu)
	if start.taken.Load() {
		w.publish(start)
	}
	if len(start.ents) == 0 || len(start.dirs) > 0 {
		var wg sync.WaitGroup
		for range walkers {
			wg.Go(w.work)
		}
		defer wg.Wait()
		defer w.stop()
	}
	v := &visitor{w: w, yield: yield, buf: []byte(w.base)}
	return v.visit(ctx, start)
}

func (w *walker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.more.Broadcast()
}

// work reads directories ahead until the walk stops.
func (w *walker) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for !w.stopped && (len(w.queue) == 0 || w.ahead >= lookahead) {
			w.more.Wait()
		}
		if w.stopped {
			return
		}
		if n := w.next(); n != nil && n.taken.CompareAndSwap(false, true) {
			w.mu.Unlock()
			w.read(n)
			w.mu.Lock()
		}
	}
}

// next removes the first unread directory from the queue, or a stale element.
func (w *walker) next() *node {
	n := w.queue[0]
	if n.released || n.nextKid >= len(n.dirs) {
		heap.Pop(&w.queue)
		return nil
	}
	kid := w.kid(n, n.nextKid)
	n.nextKid++
	if n.nextKid < len(n.dirs) {
		n.nextURI = w.kid(n, n.nextKid).uri
		heap.Fix(&w.queue, 0)
	} else {
		heap.Pop(&w.queue)
	}
	return kid
}

// kid returns the k-th subdirectory of n, which is read and not released.
func (w *walker) kid(n *node, k int) *node {
	if n.kids[k] == nil {
		e := &n.ents[n.dirs[k]]
		n.kids[k] = newNode(n.rel+string(n.rawName(e))+"/", n.uri+string(n.segment(e)))
	}
	return n.kids[k]
}

// publish makes a directory that was read available to the workers and to the
// visitor that waits for it.
func (w *walker) publish(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += len(n.ents)
	if len(n.dirs) > 0 {
		n.kids = make([]*node, len(n.dirs))
		n.nextURI = w.kid(n, 0).uri
		heap.Push(&w.queue, n)
		w.more.Broadcast()
	}
	close(n.done)
}

// release discards a directory that has been yielded.
func (w *walker) release(n *node) {
	n.looks.Wait()
	w.mu.Lock()
	n.released = true
	w.ahead -= len(n.ents)
	w.more.Broadcast()
	w.mu.Unlock()
	if n.h != nil {
		_ = n.h.close() // only read from
	}
	if cap(n.arena) <= maxArena {
		nodeParts.Put(&parts{n.arena[:0], n.ents[:0], n.stats[:0]})
	}
	n.arena, n.ents, n.stats = nil, nil, nil
}

// parts are the buffers of a node, which the next node reuses.
type parts struct {
	arena []byte
	ents  []dirent
	stats []filestat.Stat
}

var nodeParts = sync.Pool{New: func() any { return new(parts) }}

// read reads the directory n: its names, sorted, and the states of its files.
func (w *walker) read(n *node) {
	defer w.publish(n)
	w.obs.entering(n.dirRel())
	h, err := w.t.openDir(n.dirRel())
	if err != nil {
		n.err = err
		return
	}
	if h.private() {
		w.obs.Private(n.dirRel() + "/")
	}
	p := nodeParts.Get().(*parts)
	n.arena, n.ents, n.stats = p.arena, p.ents, p.stats
	if err := h.read(func(name []byte, k filestat.Kind) { w.add(n, h, name, k) }); err != nil {
		n.err, n.ents = err, n.ents[:0]
		_ = h.close() // only read from
		return
	}
	slices.SortFunc(n.ents, func(a, b dirent) int { return bytes.Compare(n.segment(&a), n.segment(&b)) })
	for i := range n.ents {
		if n.ents[i].kind == filestat.Dir {
			n.dirs = append(n.dirs, int32(i))
		}
	}
	w.matchCars(n, h)
	if len(n.ents)-len(n.dirs) > 2*statRun {
		n.h = h
		n.runs = make([]chan []filestat.Stat, (len(n.ents)+statRun-1)/statRun)
		return
	}
	n.stats = w.look(n, h, n.stats, 0, len(n.ents))
	_ = h.close() // only read from
}

// add adds a name to n unless it is skipped.
func (w *walker) add(n *node, h dirHandle, name []byte, k filestat.Kind) {
	if k == filestat.Unknown { // some file systems do not report it
		st, err := h.lstat(name)
		if err != nil && !vanished(err) {
			// It may be a file or a directory: protect both.
			w.obs.Unreadable(n.rel+string(name), err)
			n.append(name, filestat.Unreadable, false)
			n.append(name, filestat.Unreadable, true)
			return
		}
		k = st.Kind
	}
	if k == filestat.Unknown {
		return // vanished
	}
	if w.f.Sidecar != "" && !w.f.Hides(n.rel, name) && (k == filestat.File || k == filestat.Link) && w.addCar(n, name) {
		return
	}
	if k == filestat.Dir && string(name) == pathname.StateDir {
		w.obs.Skipped(n.rel+pathname.StateDir, pathname.ErrState)
		return
	}
	if w.f.Hides(n.rel, name) {
		w.obs.Hidden(n.rel + string(name))
		return
	}
	if n.rel == "" || n.rel == ".well-known/" {
		if rel := n.rel + string(name); pathname.Reserved(rel, k) {
			w.obs.Skipped(rel, pathname.ErrReserved)
			return
		}
	}
	if !w.f.Idle() {
		rel := n.rel + string(name)
		if k == filestat.Dir && !w.f.Dir(rel) || k != filestat.Dir && !w.f.File(rel) {
			w.obs.Excluded()
			return
		}
	}
	n.append(name, k, k == filestat.Dir)
}

func (n *node) append(name []byte, k filestat.Kind, dir bool) {
	e := dirent{seg: uint32(len(n.arena)), nameLen: uint16(len(name)), kind: k}
	n.arena = pathname.AppendEscaped(n.arena, name)
	escaped := len(n.arena)-int(e.seg) != len(name)
	if dir {
		n.arena = append(n.arena, '/')
	}
	e.segLen = uint16(len(n.arena) - int(e.seg))
	e.name = e.seg
	if escaped {
		e.name = uint32(len(n.arena))
		n.arena = append(n.arena, name...)
	}
	n.ents = append(n.ents, e)
}

// look appends the states of the files with the names n.ents[from:to].
func (w *walker) look(n *node, h dirHandle, stats []filestat.Stat, from, to int) []filestat.Stat {
	for i := from; i < to; i++ {
		e := &n.ents[i]
		switch e.kind {
		case filestat.File, filestat.Link:
			st, err := h.lstat(n.rawName(e))
			stats = append(stats, w.judge(n.rel, n.rawName(e), st, err))
		case filestat.Special:
			w.obs.Skipped(n.rel+string(n.rawName(e)), errSpecial)
			stats = append(stats, filestat.Stat{Kind: filestat.None})
		default:
			stats = append(stats, filestat.Stat{Kind: e.kind})
		}
	}
	return stats
}

// judge decides, from the result of lstat for a name, how the catalog treats it: as
// a File with the state of the file, as Unreadable, or as None.
func (w *walker) judge(dir string, name []byte, st filestat.Stat, err error) filestat.Stat {
	none := filestat.Stat{Kind: filestat.None}
	link := err == nil && st.Kind == filestat.Link
	if link {
		if leadsToState(w.t, dir+string(name)) {
			w.obs.Skipped(dir+string(name), errLinkOwn)
			return none
		}
		st, err = w.t.stat(dir + string(name))
	}
	if link || err == nil && st.Kind == filestat.File && st.Shared {
		w.obs.aliased(dir+string(name), &st, link)
	}
	switch {
	case err == nil && st.Kind == filestat.File:
		if link {
			st.Kind = filestat.Link
		}
		return st
	case err == nil && !link && st.Kind == filestat.Dir: // it was a file a moment ago
	case err == nil && st.Kind == filestat.Dir:
		w.obs.Skipped(dir+string(name), errLinkDir)
	case err == nil:
		w.obs.Skipped(dir+string(name), errSpecial)
	case link && vanished(err):
		w.obs.Skipped(dir+string(name), errLinkGone)
	case vanished(err):
	case link && escaped(err):
		w.obs.Skipped(dir+string(name), errLinkOut)
	default:
		w.obs.Unreadable(dir+string(name), err)
		return filestat.Stat{Kind: filestat.Unreadable}
	}
	return none
}

// nodeQueue is a heap of directories with unread subdirectories; the first element
// is the one whose next subdirectory comes first in the walk.
type nodeQueue []*node

func (q nodeQueue) Len() int           { return len(q) }
func (q nodeQueue) Less(i, j int) bool { return q[i].nextURI < q[j].nextURI }
func (q nodeQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *nodeQueue) Push(x any)        { *q = append(*q, x.(*node)) }
func (q *nodeQueue) Pop() any {
	old := *q
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return n
}

// Why a name is skipped; the Err of a skipped [intake.Problem].
var (
	errLinkOwn  = errors.New("symbolic link into a directory where lockstep keeps its state")
	errLinkDir  = errors.New("symbolic link to a directory")
	errLinkOut  = errors.New("symbolic link leads outside the directory")
	errLinkGone = errors.New("symbolic link to nothing")
	errSpecial  = errors.New("neither file nor directory")
)
