package destination

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
)

// A pair is what a sorter sorts. What it holds is gone with the next one.
type pair struct {
	key, value []byte
}

// sorted yields all pairs in the byte order of their keys; those of one key in
// no order. It stops after the first error, which it yields with a zero pair.
func (s *sorter) sorted() iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		if err := s.condense(); err != nil {
			yield(pair{}, err)
			return
		}
		h, err := s.heads()
		if err != nil {
			yield(pair{}, err)
			return
		}
		for len(h) > 0 {
			c := h[0]
			if !yield(pair{c.key, c.value}, nil) {
				return
			}
			more, err := c.next()
			if err != nil {
				yield(pair{}, err)
				return
			}
			h = h.fix(more)
		}
	}
}

// condense sorts what is in memory, and merges runs where they are many.
func (s *sorter) condense() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writers {
		w.sort()
	}
	for len(s.runs) > s.merge {
		space, err := s.room.open()
		if err != nil {
			return err
		}
		var merged []*run
		for at := 0; at < len(s.runs) && err == nil; at += s.merge {
			var r *run
			if r, err = mergeRuns(s.scratch, s.runs[at:min(at+s.merge, len(s.runs))], space); err == nil {
				merged = append(merged, r)
			}
		}
		if err != nil {
			_ = space.close() // err says more
			return err
		}
		old := s.scratch
		s.scratch, s.runs = space, merged
		for _, w := range s.writers {
			w.tails = nil
		}
		if err := old.close(); err != nil {
			return err
		}
	}
	return nil
}

// mergeRuns merges runs into one.
func mergeRuns(from scratch, runs []*run, to scratch) (*run, error) {
	var h heads
	for _, r := range runs {
		if err := h.push(&sortHead{from: from, run: r}); err != nil {
			return nil, err
		}
	}
	out := runWriter{space: to, run: &run{}}
	for len(h) > 0 {
		if err := out.add(h[0].key, h[0].value); err != nil {
			return nil, err
		}
		more, err := h[0].next()
		if err != nil {
			return nil, err
		}
		h = h.fix(more)
	}
	return out.run, out.flush()
}

// heads returns a head at the beginning of each run, and of what is in
// memory.
func (s *sorter) heads() (heads, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h heads
	for _, r := range s.runs {
		if err := h.push(&sortHead{from: s.scratch, run: r}); err != nil {
			return nil, err
		}
	}
	for _, w := range s.writers {
		if err := h.push(&sortHead{mem: w}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// A sortHead is a position in a sorted part: a run, or a writer's memory.
type sortHead struct {
	key, value []byte

	mem *sortWriter
	at  int // of refs, or of blocks

	from scratch
	run  *run
	buf  []byte // the block
	rest []byte // of it
}

var errScratchDamaged = errors.New("damaged scratch space")

// next moves on and reports whether there was a pair.
func (c *sortHead) next() (bool, error) {
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
		var err error
		if c.buf, err = c.from.read(c.run.blocks[c.at], c.buf); err != nil {
			return false, err
		}
		c.rest = c.buf
		c.at++
	}
	var n [3]uint64
	for i := range n {
		v, size := binary.Uvarint(c.rest)
		if size <= 0 {
			return false, errScratchDamaged
		}
		n[i], c.rest = v, c.rest[size:]
	}
	shared, key, value := n[0], n[1], n[2]
	if shared > uint64(len(c.key)) || key > uint64(len(c.rest)) || value > uint64(len(c.rest))-key {
		return false, errScratchDamaged
	}
	c.key = append(c.key[:shared], c.rest[:key]...)
	c.value, c.rest = c.rest[key:key+value], c.rest[key+value:]
	return true, nil
}

// heads are a heap by key.
type heads []*sortHead

// push adds a head that has not begun.
func (h *heads) push(c *sortHead) error {
	more, err := c.next()
	if err != nil || !more {
		return err
	}
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

func (h heads) less(i, k int) bool { return bytes.Compare(h[i].key, h[k].key) < 0 }

// fix puts the first head, which has moved, in its place, or takes it away
// if there is no more of it.
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
