package source

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

// sortMemory is how much of what is sorted is held; the rest is on disk.
const sortMemory = 32 << 20

// A sorter brings items in the order of their keys; items of one key stay in
// the order they came in. Memory does not grow with their number.
type sorter struct {
	dir    string // for temporary files
	memory int    // default sortMemory
	held   []sortItem
	size   int
	runs   []*spool
	n      int64
}

// A sortItem is a key and what it is the key of.
type sortItem struct{ key, data []byte }

// add takes an item, whose bytes it keeps.
func (s *sorter) add(key, data []byte) error {
	const overhead = 64
	s.held = append(s.held, sortItem{key, data})
	s.size += len(key) + len(data) + overhead
	s.n++
	if s.memory == 0 {
		s.memory = sortMemory
	}
	if s.size < s.memory {
		return nil
	}
	return s.spill()
}

// spill writes what is held to a file of its own, in order.
func (s *sorter) spill() error {
	s.order()
	run, err := newSpool(s.dir, 0)
	if err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	s.runs = append(s.runs, run)
	w := bufio.NewWriterSize(run, 1<<16)
	var lengths []byte
	for _, it := range s.held {
		lengths = binary.AppendUvarint(lengths[:0], uint64(len(it.key)))
		lengths = binary.AppendUvarint(lengths, uint64(len(it.data)))
		for _, p := range [][]byte{lengths, it.key, it.data} {
			_, _ = w.Write(p) // Flush tells
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return nil
}

func (s *sorter) order() {
	slices.SortStableFunc(s.held, func(a, b sortItem) int { return bytes.Compare(a.key, b.key) })
}

// sorted yields all items in order, once. Nothing can be added any more.
func (s *sorter) sorted() iter.Seq2[sortItem, error] {
	return func(yield func(sortItem, error) bool) {
		s.order()
		if len(s.runs) == 0 {
			for _, it := range s.held {
				if !yield(it, nil) {
					return
				}
			}
			return
		}
		var m merge
		for i, run := range s.runs {
			src := &sortRun{number: i, r: bufio.NewReaderSize(run.content(), 1<<16)}
			if err := src.next(); err == nil {
				m = append(m, src)
			} else if err != io.EOF {
				yield(sortItem{}, err)
				return
			}
		}
		if last := (&sortRun{number: len(s.runs), held: s.held}); last.next() == nil {
			m = append(m, last)
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].item, nil) {
				return
			}
			switch err := m[0].next(); err {
			case nil:
				heap.Fix(&m, 0)
			case io.EOF:
				heap.Pop(&m)
			default:
				yield(sortItem{}, err)
				return
			}
		}
	}
}

// close removes the temporary files.
func (s *sorter) close() {
	for _, run := range s.runs {
		run.close()
	}
	s.runs, s.held = nil, nil
}

// A sortRun is items in order, from a file or held.
type sortRun struct {
	number int
	r      *bufio.Reader
	held   []sortItem
	item   sortItem
}

func (r *sortRun) next() error {
	if r.r == nil {
		if len(r.held) == 0 {
			return io.EOF
		}
		r.item, r.held = r.held[0], r.held[1:]
		return nil
	}
	key, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err // io.EOF between items: the end
	}
	data, err := binary.ReadUvarint(r.r)
	if err != nil {
		return fmt.Errorf("sort: %w", io.ErrUnexpectedEOF)
	}
	buf := make([]byte, key+data)
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	r.item = sortItem{buf[:key:key], buf[key:]}
	return nil
}

// A merge is runs, the one with the least item first.
type merge []*sortRun

func (m merge) Len() int { return len(m) }
func (m merge) Less(i, j int) bool {
	if c := bytes.Compare(m[i].item.key, m[j].item.key); c != 0 {
		return c < 0
	}
	return m[i].number < m[j].number
}
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(*sortRun)) }
func (m *merge) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
