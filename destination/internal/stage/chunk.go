package stage

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"

	"lockstep/destination/internal/desired"
)

const (
	// chunkURIs and chunkBytes limit a chunk, which is planned as a unit.
	chunkURIs  = 1000
	chunkBytes = 256 << 10

	// reduceAfter is the number of entries for one URI after which those that do
	// not matter are discarded.
	reduceAfter = 1000
)

// A Chunk contains all entries for a range of URIs, encoded.
type Chunk struct {
	stage *Stage
	From  string // first URI of the range
	To    string // end of the range; "": no end
	data  []byte
	refs  []chunkRef // in order of the keys
	text  string     // data, if it is shared
}

// A chunkRef locates a key and a value in a chunk.
type chunkRef struct{ at, key, value uint32 }

// chunks have been released, and keep their memory for others.
var chunks = sync.Pool{New: func() any { return new(Chunk) }}

// chunk returns a new chunk.
func (s *Stage) chunk(from string) *Chunk {
	c := chunks.Get().(*Chunk)
	*c = Chunk{stage: s, From: from, data: c.data[:0], refs: c.refs[:0]}
	return c
}

// Release is called when c is no longer needed. What was read from it remains valid.
func (c *Chunk) Release() {
	c.stage, c.text = nil, ""
	if cap(c.data) <= 4*chunkBytes { // otherwise one URI had very many entries
		chunks.Put(c)
	}
}

// Chunks divides the space of URIs into ranges, ascending, and yields the entries
// of each. Chunks belong to the caller, who may release them. Without entries there is one empty chunk.
func (s *Stage) Chunks(ctx context.Context) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		c := s.chunk("")
		uris, taken := 0, 0
		for p, err := range s.Sorter.Sorted(ctx) {
			if err == nil && uris%64 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, fmt.Errorf("sort entries: %w", err))
				return
			}
			if len(c.refs) == 0 || !bytes.Equal(c.key(len(c.refs)-1), p.Key) {
				if uris == chunkURIs || len(c.data) > chunkBytes {
					next := s.chunk(string(p.Key))
					c.To = next.From
					if !yield(c, nil) {
						return
					}
					c, uris = next, 0
				}
				uris, taken = uris+1, 0
			}
			c.add(p.Key, p.Value)
			if taken++; taken == reduceAfter {
				taken = 0
				if err := c.reduce(); err != nil {
					yield(nil, err)
					return
				}
			}
		}
		yield(c, nil)
	}
}

func (c *Chunk) add(key, value []byte) {
	c.refs = append(c.refs, chunkRef{uint32(len(c.data)), uint32(len(key)), uint32(len(value))})
	c.data = append(append(c.data, key...), value...)
}

func (c *Chunk) key(i int) []byte { return c.data[c.refs[i].at : c.refs[i].at+c.refs[i].key] }

// Share has all entries share one copy of the chunk. It is for a caller who keeps none of
// them: each would keep all of it in memory.
func (c *Chunk) Share() { c.text = string(c.data) }

// decode returns the i-th entry. Unless the chunk is shared, the entry keeps nothing else
// in memory.
func (c *Chunk) decode(i int) (desired.Resource, error) {
	r := c.refs[i]
	var own string
	if c.text != "" {
		own = c.text[r.at : r.at+r.key+r.value]
	} else {
		own = string(c.data[r.at : r.at+r.key+r.value])
	}
	w, _, err := desired.Decode(own[:r.key], own[r.key:])
	if err != nil {
		return desired.Resource{}, fmt.Errorf("sort entries: %w", err)
	}
	return w, nil
}

// group returns the entries for the URI of the i-th entry, and the index of the
// first entry for the next URI.
func (c *Chunk) group(i int) (g group, next int, err error) {
	g.stage = c.stage
	for next = i; next < len(c.refs) && bytes.Equal(c.key(next), c.key(i)); next++ {
		w, err := c.decode(next)
		if err != nil {
			return g, next, err
		}
		g.add(&w)
	}
	return g, next, nil
}

// reduce discards entries for the last URI that do not matter.
func (c *Chunk) reduce() error {
	first := len(c.refs) - 1
	for first > 0 && bytes.Equal(c.key(first-1), c.key(first)) {
		first--
	}
	g, _, err := c.group(first)
	if err != nil {
		return err
	}
	key := bytes.Clone(c.key(first))
	c.data, c.refs = c.data[:c.refs[first].at], c.refs[:first]
	for w := range g.all {
		c.add(key, w.Append(nil))
	}
	return nil
}

// alone returns the i-th entry if it prevails because it is the only one for its URI.
func (c *Chunk) alone(i int) (w desired.Resource, ok bool) {
	if c.stage.Versions.Turn > 0 || i+1 < len(c.refs) && bytes.Equal(c.key(i), c.key(i+1)) {
		return w, false
	}
	w, err := c.decode(i)
	return w, err == nil && w.Class == desired.Listed
}

// Resources yields the entry that prevails for each URI of the chunk.
func (c *Chunk) Resources(yield func(desired.Resource, error) bool) {
	for i := 0; i < len(c.refs); {
		if w, ok := c.alone(i); ok { // as nearly always
			if !yield(w, nil) {
				return
			}
			i++
			continue
		}
		g, next, err := c.group(i)
		if err != nil {
			yield(desired.Resource{}, err)
			return
		}
		if last, ok := g.last(); ok && !yield(last, nil) {
			return
		}
		i = next
	}
}
