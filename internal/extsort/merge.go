package extsort

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"iter"
)

// A Pair is what a Sorter sorts.
type Pair struct {
	Key, Value []byte // valid until the next pair is read
}

// Sorted yields all pairs in the byte order of their keys. It stops after the
// first error, which it yields with a zero Pair; when ctx ends, that is its
// cause.
func (s *Sorter) Sorted(ctx context.Context) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		if err := s.condense(ctx); err != nil {
			yield(Pair{}, err)
			return
		}
		h, err := s.heads(ctx)
		if err != nil {
			yield(Pair{}, err)
			return
		}
		for len(h) > 0 {
			c := h[0]
			if !yield(Pair{c.key, c.value}, nil) {
				return
			}
			more, err := c.next(ctx)
			if err != nil {
				yield(Pair{}, err)
				return
			}
			h = h.fix(more)
		}
	}
}

// condense sorts what is in memory, and merges runs while there are too many to
// be read at a time.
func (s *Sorter) condense(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writers {
		w.sort()
	}
	for len(s.runs) > s.Merge {
		space, err := s.open()
		if err != nil {
			return err
		}
		var merged []*run
		for at := 0; at < len(s.runs) && err == nil; at += s.Merge {
			var r *run
			if r, err = mergeRuns(ctx, s.space, s.runs[at:min(at+s.Merge, len(s.runs))], space); err == nil {
				merged = append(merged, r)
			}
		}
		if err != nil {
			_ = space.Close() // err says more
			return err
		}
		old := s.space
		s.space, s.runs = space, merged
		for _, w := range s.writers {
			w.tails = nil
		}
		if err := old.Close(); err != nil {
			return err
		}
	}
	return nil
}

// mergeRuns merges runs into one.
func mergeRuns(ctx context.Context, from Space, runs []*run, to Space) (*run, error) {
	var h heads
	for _, r := range runs {
		if err := h.push(ctx, &head{from: from, run: r}); err != nil {
			return nil, err
		}
	}
	out := runWriter{space: to, run: &run{}}
	for len(h) > 0 {
		if err := out.add(h[0].key, h[0].value); err != nil {
			return nil, err
		}
		more, err := h[0].next(ctx)
		if err != nil {
			return nil, err
		}
		h = h.fix(more)
	}
	return out.run, out.flush()
}

// heads returns a head at the beginning of each run, and of what is in memory.
func (s *Sorter) heads(ctx context.Context) (heads, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h heads
	for _, r := range s.runs {
		if err := h.push(ctx, &head{from: s.space, run: r}); err != nil {
			return nil, err
		}
	}
	for _, w := range s.writers {
		if err := h.push(ctx, &head{mem: w}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// A head is a position in a sorted part: a run, or the memory of a Writer.
type head struct {
	key, value []byte
	order      int // of the part, for equal keys

	mem *Writer
	at  int // of refs, or of blocks

	from Space
	run  *run
	buf  []byte // the block
	rest []byte // of it
}

var errDamaged = errors.New("damaged scratch space")

// next moves on and reports whether there was a pair.
func (c *head) next(ctx context.Context) (bool, error) {
	if c.mem != nil {
		if c.at == len(c.mem.refs) {
			return false, nil
		}
		r := c.mem.refs[c.at]
		c.key, c.value = c.mem.key(r), c.mem.value(r)
		c.at++
		return true, nil
	}
	if len(c.rest) == 0 {
		if c.at == len(c.run.blocks) {
			return false, nil
		}
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		var err error
		if c.buf, err = c.from.Read(c.run.blocks[c.at], c.buf); err != nil {
			return false, err
		}
		c.rest = c.buf
		c.at++
	}
	var n [3]uint64
	for i := range n {
		v, size := binary.Uvarint(c.rest)
		if size <= 0 {
			return false, errDamaged
		}
		n[i], c.rest = v, c.rest[size:]
	}
	shared, key, value := n[0], n[1], n[2]
	if shared > uint64(len(c.key)) || key > uint64(len(c.rest)) || value > uint64(len(c.rest))-key {
		return false, errDamaged
	}
	c.key = append(c.key[:shared], c.rest[:key]...)
	c.value, c.rest = c.rest[key:key+value], c.rest[key+value:]
	return true, nil
}

// heads are a heap by key; of equal keys the part that began first is in front.
type heads []*head

// push adds a head that has not begun. Parts are pushed in their order.
func (h *heads) push(ctx context.Context, c *head) error {
	more, err := c.next(ctx)
	if err != nil || !more {
		return err
	}
	c.order = len(*h)
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		(*h)[i], (*h)[up] = (*h)[up], (*h)[i]
		i = up
	}
	return nil
}

func (h heads) less(i, k int) bool {
	c := bytes.Compare(h[i].key, h[k].key)
	return c < 0 || c == 0 && h[i].order < h[k].order
}

// fix moves the first head, which has moved on, to its place, or removes it if
// there is no more of it.
func (h heads) fix(more bool) heads {
	if !more {
		last := len(h) - 1
		h[0], h[last] = h[last], nil
		h = h[:last]
	}
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h.less(k, least) {
				least = k
			}
		}
		if least == i {
			return h
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
