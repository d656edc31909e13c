package chunkdelta

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"lockstep/internal/chunks"
)

// A Scanner reads a content, writes its index, and makes the delta from another
// version.
type Scanner struct {
	index *indexWriter // nil: no index is written
	list  *Index       // the index is also collected here; nil: it is not

	old      *Index // nil: no delta is made, or it would be too large
	next     int    // the chunk of old after the last one that was found
	pieces   []piece
	delta    buffer // header, to be filled in, and literals
	encoder  *zstd.Encoder
	literals int64
	size     int64
}

// NewScanner returns a Scanner that writes the index of the content to index, and
// makes the delta from the content of old. Each of them may be nil.
func NewScanner(index io.Writer, old *Index) *Scanner {
	s := &Scanner{old: old}
	if index != nil {
		s.index = newIndexWriter(index)
	}
	return s
}

// IndexOf returns the index of the content of r, which has that digest.
func IndexOf(r io.Reader, d Digest) (*Index, error) {
	s := &Scanner{list: &Index{digest: d}}
	if err := s.Scan(r); err != nil {
		return nil, err
	}
	s.list.sort()
	return s.list, nil
}

// Scan reads the content up to its end. It returns [ErrTooLarge] if that has more
// than [MaxContent] bytes.
func (s *Scanner) Scan(r io.Reader) error {
	c := chunks.NewReader(r, make([]byte, scanBuffer), classes)
	for {
		chunk, last, err := c.Next()
		if err != nil {
			return err
		}
		if s.size += int64(len(chunk)); s.size > MaxContent {
			return fmt.Errorf("content of more than %d bytes: %w", MaxContent, ErrTooLarge)
		}
		if len(chunk) > 0 {
			if err := s.add(chunk); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

func (s *Scanner) add(chunk []byte) error {
	d := sumOf(chunk)
	if s.list != nil {
		s.list.add(d, len(chunk))
	}
	if s.old != nil {
		if err := s.match(d, chunk); err != nil {
			return err
		}
	}
	if s.index == nil {
		return nil
	}
	return s.index.add(d, len(chunk))
}

// match appends a chunk to the delta. Where the old version has it several times,
// the one after the chunk before is preferred, so that both become one copy.
func (s *Scanner) match(d sum, chunk []byte) error {
	i, found := s.next, s.old.is(s.next, d, len(chunk))
	if !found {
		i, found = s.old.find(d, len(chunk))
	}
	if found {
		s.next = i + 1
		s.append(piece{size: uint32(len(chunk)), off: s.old.start(i)})
		return nil
	}
	if s.literals+int64(len(chunk)) > maxLiterals {
		s.old, s.pieces, s.delta, s.encoder = nil, nil, nil, nil
		return nil
	}
	s.append(piece{size: uint32(len(chunk)), off: uint32(s.literals), from: 1})
	s.literals += int64(len(chunk))
	return s.encode(chunk)
}

// A buffer collects what is written. It grows in smaller steps than a bytes.Buffer.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// encode appends p to the compressed part of the delta.
func (s *Scanner) encode(p []byte) (err error) {
	if s.encoder == nil {
		s.delta = make(buffer, headerSize)
		s.encoder, err = zstd.NewWriter(&s.delta, zstd.WithWindowSize(maxWindow/2), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	}
	if err == nil {
		_, err = s.encoder.Write(p)
	}
	return err
}

// append adds p, which may continue the piece before.
func (s *Scanner) append(p piece) {
	if n := len(s.pieces); n > 0 {
		if last := &s.pieces[n-1]; last.from == p.from && last.off+last.size == p.off {
			last.size += p.size
			return
		}
	}
	s.pieces = append(s.pieces, p)
}

// EndIndex completes the index; d is the digest of the content.
func (s *Scanner) EndIndex(d Digest) error { return s.index.end(d) }

// Size returns the length of the content.
func (s *Scanner) Size() int64 { return s.size }

// Delta completes and returns the delta, or nil if there is none, or it would be too
// large.
func (s *Scanner) Delta() ([]byte, error) {
	if s.old == nil {
		return nil, nil
	}
	if err := s.encodePieces(); err != nil {
		return nil, fmt.Errorf("make delta: %w", err)
	}
	if len(s.delta) > MaxDelta {
		return nil, nil
	}
	numbers := s.delta[copy(s.delta, magic):]
	numbers = numbers[copy(numbers, s.old.digest[:]):]
	for i, n := range [...]int64{s.old.Size(), s.size, s.literals, int64(len(s.pieces))} {
		binary.LittleEndian.PutUint32(numbers[4*i:], uint32(n))
	}
	return s.delta, nil
}

func (s *Scanner) encodePieces() error {
	var b []byte
	end := int64(0) // of the last copy
	for _, p := range s.pieces {
		if p.from > 0 {
			b = binary.AppendUvarint(b, uint64(p.size)<<1)
		} else {
			b = binary.AppendUvarint(b, uint64(p.size)<<1|1)
			b = binary.AppendVarint(b, int64(p.off)-end)
			end = int64(p.off) + int64(p.size)
		}
	}
	if err := s.encode(b); err != nil {
		return err
	}
	return s.encoder.Close()
}
