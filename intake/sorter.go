package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Sizes of a sorter. They bound its memory, however much is sorted.
const (
	sorterMemory = 4 << 20  // bytes sorted in memory
	sorterReads  = 8 << 20  // of buffers when the runs are merged, all together,
	sorterRead   = 64 << 10 // and at most for one
	sorterLeast  = 512      // and at least
)

// A listed is what an origin says of one resource.
type listed struct {
	uri  []byte
	part uint32 // the document that says so
	gone bool   // the resource is no more
	said []byte // packed, unless it is gone
}

// sorter puts what an origin lists in any order into the order of URIs. Of
// several that have one URI the last counts. What does not fit in memory goes
// to a file without a name, in runs that are sorted. The zero value but for dir
// is empty.
type sorter struct {
	dir string // where the file would be

	mem     []byte
	items   []sorterItem // in mem
	file    *os.File
	named   bool // the file could not be unlinked while open
	size    int64
	runs    []sorterRun
	doubled bool // one URI was named by two parts
}

// sorterItem is one listed in sorter.mem: the URI, the rest.
type sorterItem struct{ at, uri, rest uint32 }

// sorterRun is where a run stands in the file.
type sorterRun struct{ at, size int64 }

func (s *sorter) add(uri string, part uint32, gone bool, said []byte) error {
	at := len(s.mem)
	s.mem = append(s.mem, uri...)
	s.mem = binary.AppendUvarint(s.mem, uint64(part))
	if gone {
		s.mem = append(s.mem, 1)
	} else {
		s.mem = append(append(s.mem, 0), said...)
	}
	s.items = append(s.items, sorterItem{uint32(at), uint32(len(uri)), uint32(len(s.mem) - at - len(uri))})
	const item = 12 // bytes
	if len(s.mem)+item*len(s.items) < sorterMemory {
		return nil
	}
	return s.spill()
}

func (s *sorter) uri(it sorterItem) []byte  { return s.mem[it.at : it.at+it.uri] }
func (s *sorter) rest(it sorterItem) []byte { return s.mem[it.at+it.uri : it.at+it.uri+it.rest] }

// sort sorts what is in memory and drops what does not count.
func (s *sorter) sort() {
	slices.SortFunc(s.items, func(a, b sorterItem) int {
		return cmp.Or(bytes.Compare(s.uri(a), s.uri(b)), cmp.Compare(a.at, b.at))
	})
	kept := s.items[:0]
	for i, it := range s.items {
		if i+1 < len(s.items) && bytes.Equal(s.uri(it), s.uri(s.items[i+1])) {
			s.meet(s.rest(it), s.rest(s.items[i+1]))
			continue
		}
		kept = append(kept, it)
	}
	s.items = kept
}

// meet notes whether two that have one URI stand in different parts.
func (s *sorter) meet(a, b []byte) {
	x, _ := binary.Uvarint(a)
	y, _ := binary.Uvarint(b)
	s.doubled = s.doubled || x != y
}

// spill writes what is in memory as a run.
func (s *sorter) spill() error {
	s.sort()
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "lockstep-list-*")
		if err != nil {
			return fmt.Errorf("sort what is listed: %w", err)
		}
		s.file = f
		s.named = os.Remove(f.Name()) != nil
	}
	w := bufio.NewWriterSize(s.file, 256<<10)
	run := sorterRun{at: s.size}
	var head []byte
	for _, it := range s.items {
		head = binary.AppendUvarint(head[:0], uint64(it.uri))
		head = binary.AppendUvarint(head, uint64(it.rest))
		_, _ = w.Write(head) // errors stick
		_, _ = w.Write(s.uri(it))
		n, _ := w.Write(s.rest(it))
		run.size += int64(len(head) + int(it.uri) + n)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort what is listed: %w", err)
	}
	s.size += run.size
	s.runs = append(s.runs, run)
	s.mem, s.items = s.mem[:0], s.items[:0]
	return nil
}

// all yields what was added, in order, each valid until the next. Nothing can
// be added afterwards.
func (s *sorter) all(yield func(*listed) error) error {
	if len(s.runs) > 0 && len(s.items) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	var l listed
	if len(s.runs) == 0 {
		s.sort()
		for _, it := range s.items {
			l.parse(s.uri(it), s.rest(it))
			if err := yield(&l); err != nil {
				return err
			}
		}
		return nil
	}
	s.mem, s.items = nil, nil
	return s.mergeRuns(&l, yield)
}

func (l *listed) parse(uri, rest []byte) {
	part, n := binary.Uvarint(rest)
	*l = listed{uri: uri, part: uint32(part), gone: rest[n] != 0, said: rest[n+1:]}
}

func (s *sorter) mergeRuns(l *listed, yield func(*listed) error) error {
	size := min(max(sorterReads/len(s.runs), sorterLeast), sorterRead)
	var h runHeap
	for i, run := range s.runs {
		r := &runReader{number: i, place: len(h), r: bufio.NewReaderSize(io.NewSectionReader(s.file, run.at, run.size), size)}
		switch err := r.next(); {
		case err == nil:
			h = append(h, r)
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		r := h[0]
		// Of one URI the last run is in front: what the others say is passed over.
		l.parse(r.uri, r.rest)
		if err := yield(l); err != nil {
			return err
		}
		for len(h) > 1 {
			other := h.second()
			if !bytes.Equal(other.uri, r.uri) {
				break
			}
			s.meet(other.rest, r.rest)
			if err := h.advance(other); err != nil {
				return err
			}
		}
		if err := h.advance(r); err != nil {
			return err
		}
	}
	return nil
}

// runReader reads a run.
type runReader struct {
	number    int // of the run
	place     int // in the heap
	r         *bufio.Reader
	uri, rest []byte
}

// next reads the next item; at the end of the run it returns io.EOF.
func (r *runReader) next() error {
	n, err := binary.ReadUvarint(r.r)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	m := uint64(0)
	if err == nil {
		m, err = binary.ReadUvarint(r.r)
	}
	if err == nil {
		r.uri, r.rest = slices.Grow(r.uri[:0], int(n))[:n], slices.Grow(r.rest[:0], int(m))[:m]
		_, err = io.ReadFull(r.r, r.uri)
	}
	if err == nil {
		_, err = io.ReadFull(r.r, r.rest)
	}
	if err != nil {
		return fmt.Errorf("sort what is listed: %w", err)
	}
	return nil
}

// runHeap has the run whose next URI comes first in front; of those with the
// same, the last.
type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	c := bytes.Compare(h[i].uri, h[j].uri)
	return c < 0 || c == 0 && h[i].number > h[j].number
}
func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *runHeap) Push(x any) { *h = append(*h, x.(*runReader)) } // unreachable: runs do not come later
func (h *runHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}

// second returns the run that comes behind the one in front.
func (h runHeap) second() *runReader {
	if len(h) > 2 && h.Less(2, 1) {
		return h[2]
	}
	return h[1]
}

// advance moves on in the run r.
func (h *runHeap) advance(r *runReader) error {
	err := r.next()
	switch {
	case err == nil:
		heap.Fix(h, r.place)
	case errors.Is(err, io.EOF):
		heap.Remove(h, r.place)
		return nil
	}
	return err
}

func (s *sorter) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // nobody reads it again
	if s.named {
		_ = os.Remove(s.file.Name()) // what remains is an empty shell
	}
}
