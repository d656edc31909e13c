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
// That order is what a depth-first walk gives if the names in a directory are
// sorted as they stand in URIs, escaped, directories with the slash that
// follows them. The workers read ahead of the consumer: always the unread
// directory that comes next. They stop when lookahead entries wait. The
// consumer reads itself what no worker has begun, so that it never waits in
// vain.
const (
	walkers   = 8         // directories read at a time; more gains nothing on local disks
	lookahead = 32 << 10  // entries read and not yet yielded; about 150 bytes each
	statRun   = 1 << 10   // of a large directory so many files are looked at in one go,
	statRuns  = 4         // so many goes at a time
	maxArena  = 256 << 10 // a larger buffer of names is not kept for the next directory
)

// An item is one thing the walk comes by.
type item struct {
	uri  []byte        // URI; of a directory with the slash at the end. Valid until the next item
	car  *sidecar      // of the file, or nil
	node *node         // the directory it is in
	name []byte        // its name there, as valid
	kind filestat.Kind // File, Unreadable, or Dir: an unreadable directory
	link bool          // it is a symbolic link to the file
	st   filestat.Stat // of the file; of File only
}

// rel returns the relative path of a file.
func (it *item) rel() string { return it.node.rel + string(it.name) }

// walker is one walk.
type walker struct {
	t    tree
	obs  observer
	f    *pathname.Filter
	base string

	mu      sync.Mutex // guards what follows, and the guarded fields of nodes
	more    *sync.Cond
	queue   nodeQueue
	ahead   int // entries read and not yet yielded
	stopped bool
}

// observer is told what the walk passes over. Its methods are called from
// several goroutines.
type observer interface {
	entering(rel string) // before a directory is read
	Skipped(rel string, why error)
	Unreadable(rel string, err error)
	// aliased is told of a file that can be written under another name: because
	// it is reached by a symbolic link, which may lead nowhere yet, or because
	// it has several names.
	aliased(rel string, st *filestat.Stat, link bool)
}

// node is one directory.
type node struct {
	rel, uri string // from the root: raw, escaped; with a slash at the end, or ""
	taken    atomic.Bool
	done     chan struct{}   // closed when it has been read
	err      error           // why it could not be read
	arena    []byte          // names
	ents     []dirent        // sorted
	stats    []filestat.Stat // of ents, unless there are runs
	cars     []sidecar       // of files among ents, in their order
	h        dirHandle       // open while there are runs to make
	runs     []chan []filestat.Stat
	looks    sync.WaitGroup // the runs being made

	dirs     []int32 // the subdirectories: places in ents
	kids     []*node // guarded by walker.mu; made when wanted, nil again when visited
	nextKid  int     // guarded; the first nobody has been sent to
	nextURI  string  // guarded; its place in the walk, or of one before it
	released bool    // guarded; all of it has been yielded
}

// dirent is one name in a directory.
type dirent struct {
	seg, name       uint32 // where in the arena the escaped and the raw name stand
	segLen, nameLen uint16 // segLen counts the slash after a directory
	kind            filestat.Kind
}

func (n *node) segment(e *dirent) []byte { return n.arena[e.seg : e.seg+uint32(e.segLen)] }
func (n *node) rawName(e *dirent) []byte { return n.arena[e.name : e.name+uint32(e.nameLen)] }

// dirRel is the path of the directory without the slash.
func (n *node) dirRel() string {
	if n.rel == "" {
		return "."
	}
	return n.rel[:len(n.rel)-1]
}

func newNode(rel, uri string) *node { return &node{rel: rel, uri: uri, done: make(chan struct{})} }

// walk yields the files below start: the root, or a directory taken already
// that holds what is to be yielded.
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

// next takes the first unread directory off the queue, or a stale place in it.
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

// publish makes a read directory known to the workers and to who waits for it.
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

// release forgets a directory that has been yielded.
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

// parts are the buffers of a node, for the next one.
type parts struct {
	arena []byte
	ents  []dirent
	stats []filestat.Stat
}

var nodeParts = sync.Pool{New: func() any { return new(parts) }}

// read reads the directory n: names, sorted, and what stands under them.
func (w *walker) read(n *node) {
	defer w.publish(n)
	w.obs.entering(n.dirRel())
	h, err := w.t.openDir(n.dirRel())
	if err != nil {
		n.err = err
		return
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

// add adds a name to n unless it is passed over.
func (w *walker) add(n *node, h dirHandle, name []byte, k filestat.Kind) {
	if k == filestat.Unknown { // some file systems do not tell
		st, err := h.lstat(name)
		if err != nil && !vanished(err) {
			// File or directory: protect both.
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
	if w.f.Sidecar != "" && (k == filestat.File || k == filestat.Link) && w.addCar(n, name) {
		return
	}
	if k == filestat.Dir && string(name) == pathname.StateDir {
		w.obs.Skipped(n.rel+pathname.StateDir, pathname.ErrState)
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

// look appends what stands under the names n.ents[from:to].
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

// judge decides, from what lstat said of a name, what it is to the catalog:
// File with the stat of the file, Unreadable, or None.
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
	case err == nil && !link && st.Kind == filestat.Dir: // was a file a moment ago
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

// nodeQueue is a heap of directories with unread subdirectories, the one whose
// next comes first in the walk in front.
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

// Why a name is passed over; the Err of a [Problem] among the skipped.
var (
	errLinkOwn  = errors.New("symbolic link into a directory where lockstep keeps its state")
	errLinkDir  = errors.New("symbolic link to a directory")
	errLinkOut  = errors.New("symbolic link leads outside the directory")
	errLinkGone = errors.New("symbolic link to nothing")
	errSpecial  = errors.New("neither file nor directory")
)
