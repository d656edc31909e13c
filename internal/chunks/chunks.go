// Package chunks cuts contents into chunks at positions that their bytes determine
// (FastCDC): after a change, the positions are the same again, so that unchanged
// chunks are found.
//
// Stored formats depend on the cuts. The table of random numbers is part of these
// formats, and so are the sizes that a caller chooses: with other values, stored
// chunks would no longer be found.
package chunks

import (
	"io"
	"math/bits"
)

// A Class defines the size of chunks. A content may have smaller chunks at its
// beginning than further on: every boundary of larger chunks is also one of smaller
// chunks.
type Class struct {
	Until         int64 // position in the content where the class ends; 0: never
	Min, Avg, Max int
}

func (c *Reader) classAt(off int64) Class {
	for _, class := range c.classes {
		if class.Until == 0 || off < class.Until {
			return class
		}
	}
	return c.classes[len(c.classes)-1]
}

// gear assigns every byte a constant random number.
var gear = func() (g [256]uint64) {
	x := uint64(0x6c6f636b73746570)
	for i := range g { // SplitMix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		g[i] = z ^ z>>31
	}
	return g
}()

// Cut returns the length of the first chunk of p, which is the rest of the
// content, or at least c.Max bytes of it. Below the average length boundaries
// are sixteen times as rare as above it, so that most chunks have about that
// length.
func (c Class) Cut(p []byte) int {
	if len(p) <= c.Min {
		return len(p)
	}
	p = p[:min(len(p), c.Max)]
	low := 64 - (bits.Len(uint(c.Avg)) - 1) // one in c.Avg numbers has no bit from here on
	rare, often := ^uint64(0)<<(low-2), ^uint64(0)<<(low+2)
	h, i := uint64(0), c.Min
	for avg := min(len(p), c.Avg); i < avg; i++ {
		if h = h<<1 + gear[p[i]]; h&rare == 0 {
			return i + 1
		}
	}
	for ; i < len(p); i++ {
		if h = h<<1 + gear[p[i]]; h&often == 0 {
			return i + 1
		}
	}
	return len(p)
}

// A Reader reads a content chunk by chunk.
type Reader struct {
	r          io.Reader
	classes    []Class
	buf        []byte
	start, end int   // the part of buf that was not returned yet
	off        int64 // position of buf[start] in the content
	err        error // of r; io.EOF at its end
}

// NewReader returns a Reader of the content of r, which uses buf until that is too
// small. The last class must not end.
func NewReader(r io.Reader, buf []byte, classes []Class) *Reader {
	return &Reader{r: r, buf: buf, classes: classes}
}

// Next returns the next chunk, which is valid until the next call, and whether
// it is the last. An empty content has one empty chunk.
func (c *Reader) Next() (chunk []byte, last bool, err error) {
	class := c.classAt(c.off)
	if c.end-c.start < class.Max && c.err == nil {
		c.fill(class.Max)
	}
	if c.err != nil && c.err != io.EOF {
		return nil, false, c.err
	}
	n := class.Cut(c.buf[c.start:c.end])
	chunk = c.buf[c.start : c.start+n]
	c.start += n
	c.off += int64(n)
	if c.start == c.end && c.err == nil {
		// Whether it is the last is known after reading one more byte, which must not
		// overwrite chunk.
		c.peek()
	}
	return chunk, c.start == c.end && c.err == io.EOF, nil
}

// fill reads until there are n bytes, or the end.
func (c *Reader) fill(n int) {
	if len(c.buf) < 2*n {
		buf := make([]byte, 4*n)
		c.end = copy(buf, c.buf[c.start:c.end])
		c.buf, c.start = buf, 0
	} else if c.start+n > len(c.buf) {
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	}
	c.read(n)
}

// read reads until there are n bytes, or the end.
func (c *Reader) read(n int) {
	for idle := 0; c.end-c.start < n && c.err == nil; idle++ {
		var got int
		got, c.err = c.r.Read(c.buf[c.end:])
		if c.end += got; got > 0 {
			idle = 0
		} else if idle > maxIdle {
			c.err = io.ErrNoProgress
		}
	}
}

// maxIdle is the maximum number of consecutive empty reads of a Reader.
const maxIdle = 100

// peek reads at least one byte more than buf has, if there is one.
func (c *Reader) peek() {
	if c.end == len(c.buf) {
		old := c.buf
		c.buf = make([]byte, len(old))
		c.start, c.end = 0, 0
	}
	c.read(1)
}
