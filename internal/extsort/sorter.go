// Package extsort sorts pairs of a key and a value by the bytes of the key, in
// bounded memory: what does not fit goes to scratch space as sorted runs, which
// are merged when they are read. Input that is already in order makes one run,
// so that nothing has to be merged.
//
//	s := extsort.New(extsort.TempFiles(dir))
//	defer s.Close()
//	err := s.Add(key, value) // any number of times
//	for p, err := range s.Sorted(ctx) { ... }
package extsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

const (
	// defaultMemory is how much a Writer holds in memory.
	defaultMemory = 1 << 20

	// blockBytes is the usual length of a block of a run. Reading holds one of
	// each run in memory.
	blockBytes = 64 << 10

	// defaultMerge is how many runs are read at a time. Where there are more,
	// they are merged to longer ones first.
	defaultMerge = 128

	// maxTails is how many of its runs a Writer can continue.
	maxTails = 8

	refBytes = 12 // of memory for each pair
)

// A Sorter sorts pairs. First pairs are added, by any number of Writers, then
// they are read, any number of times and concurrently; after that more may be
// added. It has to be closed.
type Sorter struct {
	// Memory is how many bytes each Writer holds, Merge how many runs are read
	// at a time. Both are set before the first pair is added.
	Memory, Merge int

	// Stable makes pairs with the same key come in the order in which a Writer
	// added them. Else their order is arbitrary, and input that interleaves
	// several sorted sequences makes fewer runs.
	Stable bool

	open func() (Space, error)
	main *Writer // of Add; nil: not used yet

	mu      sync.Mutex // guards what follows
	space   Space      // nil: nothing was written yet
	runs    []*run
	writers []*Writer
	idle    []*Writer
}

// A run is a sorted part in scratch space.
type run struct {
	blocks []Extent
}

// New returns a Sorter that opens scratch space when memory is full.
func New(open func() (Space, error)) *Sorter {
	return &Sorter{Memory: defaultMemory, Merge: defaultMerge, open: open}
}

// Add adds a pair. Key and value are copied. It is for use by one goroutine;
// others take a [Writer] each.
func (s *Sorter) Add(key, value []byte) error {
	if s.main == nil {
		s.main = s.Writer()
	}
	return s.main.Add(key, value)
}

// Len returns how many pairs were added. No Writer may be in use.
func (s *Sorter) Len() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(0)
	for _, w := range s.writers {
		n += w.added
	}
	return n
}

// Writer returns a Writer that is not in use. [Sorter.Release] returns it.
func (s *Sorter) Writer() *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		w := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return w
	}
	w := &Writer{sorter: s, sorted: true}
	s.writers = append(s.writers, w)
	return w
}

// Release makes a Writer available for the next caller of [Sorter.Writer].
func (s *Sorter) Release(w *Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
}

// Close discards all pairs and closes the scratch space. The Sorter is then
// empty and may be used again.
func (s *Sorter) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.space
	s.main, s.space, s.runs, s.writers, s.idle = nil, nil, nil, nil, nil
	if old == nil {
		return nil
	}
	return old.Close()
}

// openSpace returns the scratch space.
func (s *Sorter) openSpace() (Space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.space == nil {
		s.space, err = s.open()
	}
	return s.space, err
}

// A Writer adds pairs; one goroutine at a time may use it.
type Writer struct {
	sorter *Sorter
	added  int64
	arena  []byte
	refs   []ref
	sorted bool // refs are in order
	tails  []tail
	block  []byte
}

// A ref is a pair in an arena.
type ref struct{ at, key, value uint32 }

// A tail is a run that can continue with keys after last.
type tail struct {
	run  *run
	last []byte
}

// Add adds a pair. Key and value are copied.
func (w *Writer) Add(key, value []byte) error {
	if len(w.refs) > 0 && len(w.arena)+len(key)+len(value)+refBytes*len(w.refs) > w.sorter.Memory {
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
	w.added++
	return nil
}

func (w *Writer) key(r ref) []byte { return w.arena[r.at : r.at+r.key] }

func (w *Writer) value(r ref) []byte {
	return w.arena[r.at+r.key : r.at+r.key+r.value]
}

func (w *Writer) sort() {
	if !w.sorted {
		slices.SortFunc(w.refs, func(a, b ref) int {
			return cmp.Or(bytes.Compare(w.key(a), w.key(b)), cmp.Compare(a.at, b.at))
		})
		w.sorted = true
	}
}

// spill moves what is in memory to a run.
func (w *Writer) spill() error {
	w.sort()
	space, err := w.sorter.openSpace()
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

// tail returns a run of this Writer that can continue with first.
func (w *Writer) tail(first []byte) *tail {
	tails := w.tails
	if n := len(tails); n > 1 && w.sorter.Stable {
		tails = tails[n-1:] // an older run comes before those after it
	}
	for i := range tails {
		if bytes.Compare(tails[i].last, first) <= 0 {
			return &tails[i]
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

// A runWriter appends to a run. A block is a sequence of
//
//	shared  uvarint: bytes the key has in common with the previous one in the block
//	key     uvarint: length of the rest of the key
//	value   uvarint: length
//	        the rest of the key; the value
type runWriter struct {
	space Space
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
	p, err := o.space.Write(o.block)
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
