package chunkdelta

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"
)

// A piece is a part of a new content.
type piece struct {
	at   uint32 // position in the new content; not set while a delta is made
	size uint32
	off  uint32 // position in the old content, or in the literals
	from uint32 // 0: the old content; else the number of the literals, plus one
}

// A Delta turns one content, the old one, into another.
type Delta struct {
	Old     Digest // of the old content
	OldSize int64
	Size    int64 // of the new content

	pieces   []piece
	literals [][]byte // one of each delta that it is composed of
}

// Parse parses a delta. It returns [ErrInvalid] or [ErrTooLarge] if the bytes are
// not a delta that can be applied to a content of its OldSize.
func Parse(p []byte) (*Delta, error) {
	d := new(Delta)
	if err := d.parse(p); err != nil {
		return nil, fmt.Errorf("read delta: %w", err)
	}
	return d, nil
}

func (d *Delta) parse(p []byte) error {
	if len(p) > MaxDelta {
		return fmt.Errorf("%d bytes: %w", len(p), ErrTooLarge)
	}
	if len(p) < headerSize || string(p[:len(magic)]) != magic {
		return fmt.Errorf("it does not begin like one: %w", ErrInvalid)
	}
	copy(d.Old[:], p[len(magic):])
	var numbers [4]int64
	for i := range numbers {
		numbers[i] = int64(binary.LittleEndian.Uint32(p[len(magic)+len(d.Old)+4*i:]))
		if numbers[i] > MaxContent {
			return fmt.Errorf("it states %d bytes: %w", numbers[i], ErrTooLarge)
		}
	}
	d.OldSize, d.Size = numbers[0], numbers[1]
	literals, count := numbers[2], numbers[3]
	switch {
	case literals > maxLiterals:
		return fmt.Errorf("%d literal bytes: %w", literals, ErrTooLarge)
	case literals > d.Size || count > maxPieces(d.Size):
		return fmt.Errorf("more instructions or literal bytes than the result of %d bytes can need: %w", d.Size, ErrInvalid)
	}
	z, err := zstd.NewReader(bytes.NewReader(p[headerSize:]), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer z.Close()
	r := bufio.NewReader(z)
	lits := make([]byte, literals)
	if _, err := io.ReadFull(r, lits); err != nil {
		return invalid(err)
	}
	d.literals = [][]byte{lits}
	if err := d.instructions(r, count, literals); err != nil {
		return invalid(err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return fmt.Errorf("it does not end where it should: %w", ErrInvalid)
	}
	return nil
}

// invalid returns an error of the decompressed part.
func invalid(err error) error {
	if errors.Is(err, ErrInvalid) {
		return err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// instructions reads all instructions and checks that they use exactly the literal
// bytes, yield exactly the stated length, and copy only what the old content has.
func (d *Delta) instructions(r *bufio.Reader, count, literals int64) error {
	at, used, end := int64(0), int64(0), int64(0)
	for range count {
		v, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		size := int64(v >> 1)
		if size == 0 || size > d.Size-at {
			return fmt.Errorf("an instruction for %d of %d bytes: %w", size, d.Size-at, ErrInvalid)
		}
		p := piece{at: uint32(at), size: uint32(size), from: 1, off: uint32(used)}
		if v&1 == 0 {
			if used += size; used > literals {
				return fmt.Errorf("an instruction for more literal bytes than there are: %w", ErrInvalid)
			}
		} else {
			distance, err := binary.ReadVarint(r)
			if err != nil {
				return err
			}
			if distance < -end || distance > d.OldSize-end-size {
				return fmt.Errorf("a copy of bytes that the old content does not have: %w", ErrInvalid)
			}
			p.from, p.off = 0, uint32(end+distance)
			end += distance + size
		}
		d.pieces = append(d.pieces, p)
		at += size
	}
	if at != d.Size || used != literals {
		return fmt.Errorf("instructions for %d of %d bytes: %w", at, d.Size, ErrInvalid)
	}
	return nil
}

// Then returns the delta that has the effect of d followed by that of next. It
// returns [ErrInvalid] if next is not made for the result of d, and [ErrTooLarge] if
// both together are too large.
func (d *Delta) Then(next *Delta) (*Delta, error) {
	if next.OldSize != d.Size {
		return nil, fmt.Errorf("apply a delta of %d bytes to %d: %w", next.OldSize, d.Size, ErrInvalid)
	}
	both := &Delta{Old: d.Old, OldSize: d.OldSize, Size: next.Size, literals: append(d.literals[:len(d.literals):len(d.literals)], next.literals...)}
	total := 0
	for _, l := range both.literals {
		total += len(l)
	}
	if total > 2*maxLiterals {
		return nil, fmt.Errorf("apply deltas with %d literal bytes: %w", total, ErrTooLarge)
	}
	for _, p := range next.pieces {
		if p.from > 0 {
			p.from += uint32(len(d.literals))
			both.pieces = append(both.pieces, p)
		} else {
			both.pieces = d.part(both.pieces, p)
		}
		if int64(len(both.pieces)) > maxPieces(MaxContent) {
			return nil, fmt.Errorf("apply deltas with %d instructions: %w", len(both.pieces), ErrTooLarge)
		}
	}
	return both, nil
}

// part appends the pieces that yield what p copies of the result of d.
func (d *Delta) part(pieces []piece, p piece) []piece {
	i := sort.Search(len(d.pieces), func(i int) bool { return d.pieces[i].at+d.pieces[i].size > p.off })
	for p.size > 0 {
		q := d.pieces[i]
		skip := p.off - q.at
		n := min(q.size-skip, p.size)
		pieces = append(pieces, piece{at: p.at, size: n, off: q.off + skip, from: q.from})
		p.at, p.off, p.size = p.at+n, p.off+n, p.size-n
		i++
	}
	return pieces
}

// Reader returns a reader of the new content. The old content is read from old, a
// piece at a time; if it is shorter than OldSize, the error is
// [io.ErrUnexpectedEOF].
func (d *Delta) Reader(old io.ReaderAt) io.Reader { return &reader{d: d, old: old} }

type reader struct {
	d    *Delta
	old  io.ReaderAt
	i    int    // number of the current piece
	done uint32 // bytes of it that were read
}

func (r *reader) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if r.i == len(r.d.pieces) {
			if n == 0 && len(p) > 0 {
				return 0, io.EOF
			}
			return n, nil
		}
		q := r.d.pieces[r.i]
		k := min(len(p)-n, int(q.size-r.done))
		off := int64(q.off) + int64(r.done)
		if q.from > 0 {
			k = copy(p[n:], r.d.literals[q.from-1][off:off+int64(k)])
		} else if k, err = r.old.ReadAt(p[n:n+k], off); k > 0 && err == io.EOF {
			err = nil // the next read shows whether bytes are missing
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		n += k
		if r.done += uint32(k); r.done == q.size {
			r.i, r.done = r.i+1, 0
		}
	}
	return n, err
}
