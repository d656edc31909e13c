package destination

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// A sorter sorts pairs of a key and a value by the bytes of the key, in bounded
// memory: a few of them stay there, more go to scratch space as sorted runs,
// which are merged when they are read. What comes in order already makes one
// run.
//
// First pairs are added, by any number of writers, then they are read, by
// [sorter.sorted], any number of times and concurrently; after that more may be
// added. It has to be closed.
type sorter struct {
	room  scratchRoom
	arena int // arenaBytes
	merge int // maxMerge

	mu      sync.Mutex // guards what follows
	scratch scratch    // nil: nothing was written yet
	runs    []*run
	writers []*sortWriter
	idle    []*sortWriter
}

const (
	// arenaBytes is how much a writer keeps in memory: some five
	// thousand entries of a list.
	arenaBytes = 1 << 20

	// blockBytes is the usual length of a block of a run. Reading holds one of
	// each run.
	blockBytes = 64 << 10

	// maxMerge is how many runs are read at a time. Where there are more, they
	// are merged to longer ones first.
	maxMerge = 128

	// maxTails is to how many of its runs a writer can still append.
	maxTails = 8
)

// A run is a sorted part, in scratch space.
type run struct {
	blocks []extent
}

// A sortWriter takes pairs; one goroutine at a time may use it.
type sortWriter struct {
	sorter *sorter
	arena  []byte
	refs   []ref
	sorted bool // refs are in order
	tails  []tail
	block  []byte
}

// A ref is a pair in an arena.
type ref struct{ at, key, value uint32 }

// A tail is a run that can go on with keys after last.
type tail struct {
	run  *run
	last []byte
}

// newSorter returns a sorter with its scratch space in room.
func newSorter(room scratchRoom) *sorter {
	return &sorter{room: room, arena: arenaBytes, merge: maxMerge}
}

// writer returns a writer that nobody uses. [sorter.release] gives it back.
func (s *sorter) writer() *sortWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		w := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return w
	}
	w := &sortWriter{sorter: s, sorted: true}
	s.writers = append(s.writers, w)
	return w
}

func (s *sorter) release(w *sortWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
}

// close gives the scratch space back.
func (s *sorter) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.scratch
	s.scratch, s.runs, s.writers, s.idle = nil, nil, nil, nil
	if was == nil {
		return nil
	}
	return was.close()
}

// space returns the scratch space.
func (s *sorter) space() (scratch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.scratch == nil {
		s.scratch, err = s.room.open()
	}
	return s.scratch, err
}

// add takes a pair. Key and value are copied.
func (w *sortWriter) add(key string, value []byte) error {
	if len(w.refs) > 0 && len(w.arena)+len(key)+len(value) > w.sorter.arena {
		if err := w.spill(); err != nil {
			return err
		}
	}
	r := ref{uint32(len(w.arena)), uint32(len(key)), uint32(len(value))}
	w.arena = append(append(w.arena, key...), value...)
	if n := len(w.refs); n > 0 && w.sorted {
		w.sorted = bytes.Compare(w.key(w.refs[n-1]), w.key(r)) <= 0
	}
	w.refs = append(w.refs, r)
	return nil
}

func (w *sortWriter) key(r ref) []byte { return w.arena[r.at : r.at+r.key] }

func (w *sortWriter) value(r ref) []byte {
	return w.arena[r.at+r.key : r.at+r.key+r.value]
}

func (w *sortWriter) sort() {
	if !w.sorted {
		slices.SortFunc(w.refs, func(a, b ref) int {
			return cmp.Or(bytes.Compare(w.key(a), w.key(b)), cmp.Compare(a.at, b.at))
		})
		w.sorted = true
	}
}

// spill moves what is in memory to a run.
func (w *sortWriter) spill() error {
	w.sort()
	space, err := w.sorter.space()
	if err != nil {
		return err
	}
	t := w.tail(w.key(w.refs[0]))
	out := runWriter{space: space, run: t.run, block: w.block[:0]}
	for _, r := range w.refs {
		if err := out.add(w.key(r), w.value(r)); err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	t.last = append(t.last[:0], w.key(w.refs[len(w.refs)-1])...)
	w.arena, w.refs, w.sorted, w.block = w.arena[:0], w.refs[:0], true, out.block
	return nil
}

// tail returns a run of this writer that can go on with first.
func (w *sortWriter) tail(first []byte) *tail {
	for i := range w.tails {
		if bytes.Compare(w.tails[i].last, first) <= 0 {
			return &w.tails[i]
		}
	}
	t := tail{run: &run{}}
	w.sorter.mu.Lock()
	w.sorter.runs = append(w.sorter.runs, t.run)
	w.sorter.mu.Unlock()
	if len(w.tails) == maxTails {
		w.tails = slices.Delete(w.tails, 0, 1)
	}
	w.tails = append(w.tails, t)
	return &w.tails[len(w.tails)-1]
}

// A runWriter appends to a run. A block is a row of
//
//	shared  uvarint: bytes the key has in common with the one before in the block
//	key     uvarint: length of the rest of the key
//	value   uvarint: length
//	        the rest of the key; the value
type runWriter struct {
	space scratch
	run   *run
	block []byte
	last  []byte // key
}

func (o *runWriter) add(key, value []byte) error {
	if len(o.block) >= blockBytes {
		if err := o.flush(); err != nil {
			return err
		}
	}
	shared := 0
	if len(o.block) > 0 {
		shared = sharedPrefix(o.last, key)
	}
	b := binary.AppendUvarint(o.block, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	b = binary.AppendUvarint(b, uint64(len(value)))
	b = append(b, key[shared:]...)
	o.block = append(b, value...)
	o.last = append(o.last[:shared], key[shared:]...)
	return nil
}

func (o *runWriter) flush() error {
	if len(o.block) == 0 {
		return nil
	}
	p, err := o.space.write(o.block)
	if err != nil {
		return err
	}
	o.run.blocks = append(o.run.blocks, p)
	o.block = o.block[:0]
	return nil
}

func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
