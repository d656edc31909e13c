// Package chunks remembers of which chunks of lines a list consisted when it was read
// last, and which resources each of them named. The next reading of the list parses
// only chunks that are new, and finds in those that are gone what may be deleted.
//
// A chunk ends after a line whose own text says so, so that after an insertion the
// following chunks are the same again.
package chunks

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Sizes of chunks. They are no part of the format of the file: if they change, no
// chunk is found again, and the list is read once as a whole.
const (
	meanBytes = 32 << 10 // a changed line causes so much to be parsed
	meanLines = 1 << 10  // for lines that are very short
	maxLines  = 4 << 10  // bounds the memory for a chunk, together with 8 times the mean length
)

// A Cutter decides after which lines chunks end.
type Cutter struct {
	Mean         int // mean length of a chunk in bytes; 0: 32 KiB
	bytes, lines int // of the present chunk
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Ends adds a line, without its end, to the present chunk and reports whether the
// chunk ends with it.
func (c *Cutter) Ends(line []byte) bool {
	mean, size := cmp.Or(c.Mean, meanBytes), len(line)+1
	c.bytes += size
	c.lines++
	ends := c.bytes >= 8*mean || c.lines == maxLines
	if !ends && c.bytes >= mean/8 {
		// Long lines end a chunk more often, so that its length does not depend on theirs.
		share := max(uint64(size)<<32/uint64(mean), 1<<32/meanLines)
		ends = uint64(crc32.Checksum(line, castagnoli)) < share
	}
	if ends {
		c.bytes, c.lines = 0, 0
	}
	return ends
}

// A Sum identifies the text of a chunk.
type Sum [16]byte

// SumOf returns the Sum of a text. The first chunk of a list is different from others
// with the same text: the first line may begin with a byte order mark.
func SumOf(text []byte, first bool) Sum {
	h := sha256.Sum256(text)
	if first {
		h[0] ^= 1
	}
	return Sum(h[:len(Sum{})])
}

// A Print identifies what a list says about one resource.
type Print [8]byte

// PrintOf returns the Print of a packed record.
func PrintOf(record []byte) Print {
	h := sha256.Sum256(record)
	return Print(h[:len(Print{})])
}

// An Entry is a resource that a chunk names.
type Entry struct {
	URI   []byte
	Print Print
}

// A Packer packs the entries of a chunk. The zero value is ready to use.
type Packer struct {
	uris, prints []byte
}

// Add adds an entry.
func (p *Packer) Add(uri string, record []byte) {
	p.uris = append(binary.AppendUvarint(p.uris, uint64(len(uri))), uri...)
	of := PrintOf(record)
	p.prints = append(p.prints, of[:]...)
}

// Packed returns the entries added since the last call:
//
//	length of the following, as a varint
//	URIs, each with its length in front, compressed with Zstandard
//	Prints
func (p *Packer) Packed() []byte {
	if len(p.prints) == 0 {
		return nil
	}
	uris := encoder().EncodeAll(p.uris, nil)
	b := binary.AppendUvarint(make([]byte, 0, len(uris)+len(p.prints)+binary.MaxVarintLen64), uint64(len(uris)))
	b = append(append(b, uris...), p.prints...)
	p.uris, p.prints = p.uris[:0], p.prints[:0]
	return b
}

// errDamaged reports contents that this package has not written.
var errDamaged = errors.New("the chunks of the list are damaged")

// unpack returns the n entries in b.
func unpack(b []byte, n int) ([]Entry, error) {
	if n == 0 && len(b) == 0 {
		return nil, nil
	}
	r := reader{b: b}
	packed := r.take(r.uvarint())
	prints := reader{b: r.b}
	if r.bad || len(prints.b) != n*len(Print{}) {
		return nil, errDamaged
	}
	uris, err := decoder().DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	r = reader{b: uris}
	entries := make([]Entry, 0, n)
	for range n {
		e := Entry{URI: r.text()}
		copy(e.Print[:], prints.take(uint64(len(e.Print))))
		if len(e.URI) == 0 {
			return nil, errDamaged
		}
		entries = append(entries, e)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errDamaged
	}
	return entries, nil
}

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // unreachable: the options are valid
	}
	return e
})

// Limits of the entries of a chunk, whose text has at most eight times the mean length
// and one line of a mebibyte.
const (
	maxURIs   = 4 << 20
	maxPacked = 5 << 20
)

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxURIs), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // unreachable: the options are valid
	}
	return d
})
