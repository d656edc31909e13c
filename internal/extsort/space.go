package extsort

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"os"
	"sync"
)

// A Space has blocks that are written once and read again, concurrently.
type Space interface {
	// Write stores a copy of b and returns its place.
	Write(b []byte) (Extent, error)
	// Read returns a block, in buf if it fits.
	Read(p Extent, buf []byte) ([]byte, error)
	Close() error
}

// An Extent is the place of a block.
type Extent struct {
	at  int64
	len int
}

// TempFiles returns a function that opens scratch space in temporary files in
// dir; "" is the system's directory for them. The files have no names, or lose
// them at once where the system allows it, so that they are gone when the
// process ends, however it ends.
func TempFiles(dir string) func() (Space, error) {
	return func() (Space, error) {
		if dir == "" {
			dir = os.TempDir()
		}
		if f, err := Unnamed(dir); err == nil {
			return NewFile(f, 0, nil), nil
		}
		f, err := os.CreateTemp(dir, "lockstep-sort-*")
		if err != nil {
			return nil, fmt.Errorf("make a scratch file: %w", err)
		}
		s := NewFile(f, 0, nil)
		s.named = os.Remove(f.Name()) != nil
		return s, nil
	}
}

// A File is scratch space in a file.
type File struct {
	file  *os.File
	named bool // Close removes it
	limit int64
	full  error

	mu  sync.Mutex // guards end
	end int64
}

// NewFile returns scratch space in f, which it closes. Writing more than limit
// bytes fails with the error full; 0 is no limit.
func NewFile(f *os.File, limit int64, full error) *File {
	return &File{file: f, limit: limit, full: full}
}

func (s *File) Write(b []byte) (Extent, error) {
	s.mu.Lock()
	p := Extent{s.end, len(b)}
	s.end += int64(len(b))
	s.mu.Unlock()
	if s.limit > 0 && p.at+int64(p.len) > s.limit {
		return Extent{}, s.full
	}
	if _, err := s.file.WriteAt(b, p.at); err != nil {
		return Extent{}, fmt.Errorf("write a scratch file: %w", err)
	}
	return p, nil
}

func (s *File) Read(p Extent, buf []byte) ([]byte, error) {
	if cap(buf) < p.len {
		buf = make([]byte, p.len)
	}
	buf = buf[:p.len]
	if _, err := s.file.ReadAt(buf, p.at); err != nil {
		return nil, fmt.Errorf("read a scratch file: %w", err)
	}
	return buf, nil
}

// Close closes the file.
func (s *File) Close() error {
	err := s.file.Close()
	if s.named {
		_ = os.Remove(s.file.Name()) // nothing in it is needed
	}
	return err
}

// A Memory is scratch space in memory, compressed.
type Memory struct {
	limit int64
	full  error

	mu     sync.Mutex // guards what follows
	blocks [][]byte
	size   int64
	deflw  *flate.Writer
	out    bytes.Buffer
}

// NewMemory returns scratch space in memory. Writing more than limit bytes, as
// they are compressed, fails with the error full.
func NewMemory(limit int64, full error) *Memory { return &Memory{limit: limit, full: full} }

func (s *Memory) Write(b []byte) (Extent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Reset()
	if s.deflw == nil {
		s.deflw, _ = flate.NewWriter(&s.out, flate.BestSpeed) // the level is valid
	} else {
		s.deflw.Reset(&s.out)
	}
	_, _ = s.deflw.Write(b) // a Buffer takes everything
	_ = s.deflw.Close()
	if s.size += int64(s.out.Len()); s.size > s.limit {
		return Extent{}, s.full
	}
	s.blocks = append(s.blocks, bytes.Clone(s.out.Bytes()))
	return Extent{int64(len(s.blocks) - 1), len(b)}, nil
}

func (s *Memory) Read(p Extent, buf []byte) ([]byte, error) {
	s.mu.Lock()
	b := s.blocks[p.at]
	s.mu.Unlock()
	if cap(buf) < p.len {
		buf = make([]byte, p.len)
	}
	buf = buf[:p.len]
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(b)), buf); err != nil {
		return nil, fmt.Errorf("read scratch space: %w", err)
	}
	return buf, nil
}

// Close frees the memory.
func (s *Memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = nil
	return nil
}
