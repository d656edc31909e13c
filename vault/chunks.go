package vault

import (
	"io"
	"math/bits"
)

// Contents are divided into chunks at positions that their bytes determine
// (FastCDC): after a change, the positions are the same again, so that unchanged
// chunks are found. The table of random numbers and all sizes are part of the
// format: with other values, stored chunks would no longer be found.

// A class defines the size of chunks. Large contents have larger chunks, so
// that the table of a terabyte is still small; every boundary of larger chunks
// is also one of smaller chunks.
type class struct {
	until         int64 // position in the content where the class ends; 0: never
	min, avg, max int
}

var classes = [...]class{
	{until: 64 << 20, min: 4 << 10, avg: 16 << 10, max: 64 << 10},
	{until: 1 << 30, min: 16 << 10, avg: 64 << 10, max: 256 << 10},
	{min: 256 << 10, avg: 1 << 20, max: maxChunk},
}

// maxChunk is the maximum length of a chunk.
const maxChunk = 4 << 20

func classAt(off int64) class {
	for _, c := range classes {
		if c.until == 0 || off < c.until {
			return c
		}
	}
	return classes[len(classes)-1]
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

// cut returns the length of the first chunk of p, which is the rest of the
// content, or at least c.max bytes of it. Below the average length boundaries
// are sixteen times as rare as above it, so that most chunks have about that
// length.
func (c class) cut(p []byte) int {
	if len(p) <= c.min {
		return len(p)
	}
	p = p[:min(len(p), c.max)]
	low := 64 - (bits.Len(uint(c.avg)) - 1) // one in c.avg numbers has no bit from here on
	rare, often := ^uint64(0)<<(low-2), ^uint64(0)<<(low+2)
	h, i := uint64(0), c.min
	for avg := min(len(p), c.avg); i < avg; i++ {
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

// bufferSize is how much of a content is read at a time, while its chunks are
// small.
const bufferSize = 256 << 10

// A chunker reads a content chunk by chunk.
type chunker struct {
	r          io.Reader
	buf        []byte
	start, end int   // the part of buf that was not returned yet
	off        int64 // position of buf[start] in the content
	err        error // of r; io.EOF at its end
}

// next returns the next chunk, which is valid until the next call, and whether
// it is the last. An empty content has one empty chunk.
func (c *chunker) next() (chunk []byte, last bool, err error) {
	class := classAt(c.off)
	if c.end-c.start < class.max && c.err == nil {
		c.fill(class.max)
	}
	if c.err != nil && c.err != io.EOF {
		return nil, false, c.err
	}
	n := class.cut(c.buf[c.start:c.end])
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
func (c *chunker) fill(n int) {
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
func (c *chunker) read(n int) {
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
func (c *chunker) peek() {
	if c.end == len(c.buf) {
		old := c.buf
		c.buf = make([]byte, len(old))
		c.start, c.end = 0, 0
	}
	c.read(1)
}
