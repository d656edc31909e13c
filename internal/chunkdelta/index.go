package chunkdelta

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sort"
)

// An index is stored as
//
//	magic "lschunk1"           8 bytes
//	of every chunk, in order   length (2 bytes, little endian), first 16 bytes of its SHA-256
//	end                        2 zero bytes
//	SHA-256 of the content     32 bytes
//	SHA-256 of all that        32 bytes
const (
	indexMagic = "lschunk1"
	entrySize  = 2 + len(sum{})
)

// A sum identifies a chunk. If two different chunks had the same, the result of a
// delta would have another hash than stated, and not be used.
type sum [16]byte

func sumOf(chunk []byte) (s sum) {
	d := sha256.Sum256(chunk)
	copy(s[:], d[:])
	return s
}

// An Index lists the chunks of a content. It takes 24 bytes of memory for each.
type Index struct {
	digest Digest
	sums   []sum    // of the chunks, in order
	ends   []uint32 // positions in the content where the chunks end
	order  []uint32 // numbers of the chunks, by sum and then position
}

// Size returns the length of the content.
func (x *Index) Size() int64 {
	if len(x.ends) == 0 {
		return 0
	}
	return int64(x.ends[len(x.ends)-1])
}

// start returns the position of chunk i.
func (x *Index) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return x.ends[i-1]
}

// is reports whether there is a chunk i, with that sum and size.
func (x *Index) is(i int, s sum, size int) bool {
	return i < len(x.sums) && x.sums[i] == s && int(x.ends[i]-x.start(i)) == size
}

// find returns the number of the first chunk with that sum and size.
func (x *Index) find(s sum, size int) (i int, ok bool) {
	at := sort.Search(len(x.order), func(i int) bool { return bytes.Compare(x.sums[x.order[i]][:], s[:]) >= 0 })
	if at == len(x.order) {
		return 0, false
	}
	i = int(x.order[at])
	return i, x.is(i, s, size)
}

// add appends a chunk.
func (x *Index) add(s sum, size int) {
	x.sums = append(x.sums, s)
	x.ends = append(x.ends, uint32(x.Size())+uint32(size)) // at most MaxContent and one chunk
}

// sort prepares for find.
func (x *Index) sort() {
	x.order = make([]uint32, len(x.sums))
	for i := range x.order {
		x.order[i] = uint32(i)
	}
	slices.SortFunc(x.order, func(a, b uint32) int {
		return cmp.Or(bytes.Compare(x.sums[a][:], x.sums[b][:]), cmp.Compare(a, b))
	})
}

// ReadIndex reads the stored index of the content with that digest.
func ReadIndex(r io.Reader, of Digest) (*Index, error) {
	all := sha256.New()
	buf := bufio.NewReader(r)
	r = io.TeeReader(buf, all)
	bad := func(why string) (*Index, error) { return nil, fmt.Errorf("%w: %s", ErrIndex, why) }

	var head [len(indexMagic)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:]) != indexMagic {
		return nil, indexError(err, "does not begin like one")
	}
	x := new(Index)
	var entry [entrySize]byte
	for {
		if _, err := io.ReadFull(r, entry[:2]); err != nil {
			return nil, indexError(err, "is cut short")
		}
		size := int(binary.LittleEndian.Uint16(entry[:]))
		if size == 0 {
			break
		}
		if _, err := io.ReadFull(r, entry[2:]); err != nil {
			return nil, indexError(err, "is cut short")
		}
		if x.Size()+int64(size) > MaxContent || int64(len(x.sums)) >= maxPieces(MaxContent) {
			return bad("of a content that is too large")
		}
		x.add(sum(entry[2:]), size)
	}
	if _, err := io.ReadFull(r, x.digest[:]); err != nil || x.digest != of {
		return nil, indexError(err, "belongs to another content")
	}
	want := Digest(all.Sum(nil))
	var got Digest
	if _, err := io.ReadFull(buf, got[:]); err != nil || got != want {
		return nil, indexError(err, "is damaged")
	}
	x.sort()
	return x, nil
}

// indexError returns err, if it is not due to the bytes that were read.
func indexError(err error, what string) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it %s", ErrIndex, what)
	}
	return err
}

// An indexWriter writes an index. Its error is sticky.
type indexWriter struct {
	w   *bufio.Writer
	sum hash.Hash
}

func newIndexWriter(w io.Writer) *indexWriter {
	x := &indexWriter{sum: sha256.New()}
	x.w = bufio.NewWriter(io.MultiWriter(w, x.sum))
	_, _ = x.w.WriteString(indexMagic) // errors are reported by Flush
	return x
}

func (x *indexWriter) add(s sum, size int) error {
	var entry [entrySize]byte
	binary.LittleEndian.PutUint16(entry[:], uint16(size))
	copy(entry[2:], s[:])
	_, err := x.w.Write(entry[:])
	return err
}

// end completes the index of the content with that digest.
func (x *indexWriter) end(d Digest) error {
	_, _ = x.w.Write([]byte{0, 0}) // errors are reported by Flush
	_, _ = x.w.Write(d[:])         // likewise
	if err := x.w.Flush(); err != nil {
		return err
	}
	_, _ = x.w.Write(x.sum.Sum(nil)) // likewise
	return x.w.Flush()
}
