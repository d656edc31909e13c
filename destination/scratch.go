package destination

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A Scratcher is a [Journal] with a directory in which a run may have scratch
// files, where it sorts what does not fit in memory. They have no names, or
// lose them as soon as they are made, so that nothing is left of them whatever
// happens. Without a directory, sorting is done in memory, up to a bound.
type Scratcher interface {
	// ScratchDir returns the directory, or "". Only where it is our own, and
	// its names beginning with "scratch-" are, may scratch files have names at
	// all; elsewhere, where files must have names, there are none.
	ScratchDir() (dir string, own bool)
}

// A scratchRoom is where scratch files go.
type scratchRoom struct {
	dir string // "": in memory
	own bool
}

func roomOf(j Journal) scratchRoom {
	if s, ok := j.(Scratcher); ok {
		dir, own := s.ScratchDir()
		return scratchRoom{dir, own}
	}
	return scratchRoom{}
}

const (
	// maxScratch caps one scratch file, beside half of the room there is on the
	// disk: lists without end fill none. A hundred million resources take a
	// fifth of it.
	maxScratch = 64 << 30

	// maxScratchMemory caps what is sorted in memory, compressed, for want of a
	// directory: one to two million entries with hashes, more without.
	maxScratchMemory = 80 << 20
)

// ErrScratch reports that there was more to sort than there is scratch space.
var ErrScratch = errors.New("not enough scratch space to sort what the Source says")

// A scratch holds blocks that are written once and read again, concurrently.
type scratch interface {
	// write keeps a copy of b and returns where.
	write(b []byte) (extent, error)
	// read returns a block, in buf if it fits.
	read(p extent, buf []byte) ([]byte, error)
	close() error
}

// An extent is where a block is.
type extent struct {
	at  int64
	len int
}

// open returns scratch space.
func (r scratchRoom) open() (scratch, error) {
	if r.dir == "" {
		return &memScratch{}, nil
	}
	f, err := unnamedFile(r.dir)
	if err != nil && !r.own {
		return &memScratch{}, nil
	}
	if err != nil {
		f, err = namedFile(r.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	limit := int64(maxScratch)
	if free := freeSpace(f); free > 0 { // where there is none, the system says so
		limit = min(limit, free/2)
	}
	return &fileScratch{file: f, limit: limit}, nil
}

// A fileScratch is a file.
type fileScratch struct {
	file  *os.File
	limit int64

	mu  sync.Mutex // guards end
	end int64
}

func (s *fileScratch) write(b []byte) (extent, error) {
	s.mu.Lock()
	p := extent{s.end, len(b)}
	s.end += int64(len(b))
	s.mu.Unlock()
	switch {
	case p.at+int64(p.len) <= s.limit:
	case s.limit < maxScratch:
		return extent{}, fmt.Errorf("write a scratch file: more than %d MiB, half of the room there is: %w", s.limit>>20, syscall.ENOSPC)
	default:
		return extent{}, fmt.Errorf("%w: more than %d GiB", ErrScratch, s.limit>>30)
	}
	if _, err := s.file.WriteAt(b, p.at); err != nil {
		return extent{}, fmt.Errorf("write a scratch file: %w", err)
	}
	return p, nil
}

func (s *fileScratch) read(p extent, buf []byte) ([]byte, error) {
	if cap(buf) < p.len {
		buf = make([]byte, p.len)
	}
	buf = buf[:p.len]
	if _, err := s.file.ReadAt(buf, p.at); err != nil {
		return nil, fmt.Errorf("read a scratch file: %w", err)
	}
	return buf, nil
}

func (s *fileScratch) close() error { return s.file.Close() }

// A memScratch compresses into memory.
type memScratch struct {
	mu     sync.Mutex // guards what follows
	blocks [][]byte
	size   int64
	deflw  *flate.Writer
	out    bytes.Buffer
}

func (s *memScratch) write(b []byte) (extent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Reset()
	if s.deflw == nil {
		s.deflw, _ = flate.NewWriter(&s.out, flate.BestSpeed) // a level there is
	} else {
		s.deflw.Reset(&s.out)
	}
	_, _ = s.deflw.Write(b) // a Buffer takes all
	_ = s.deflw.Close()
	if s.size += int64(s.out.Len()); s.size > maxScratchMemory {
		return extent{}, fmt.Errorf("%w: more than %d MiB of memory", ErrScratch, maxScratchMemory>>20)
	}
	s.blocks = append(s.blocks, bytes.Clone(s.out.Bytes()))
	return extent{int64(len(s.blocks) - 1), len(b)}, nil
}

func (s *memScratch) read(p extent, buf []byte) ([]byte, error) {
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

func (s *memScratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = nil
	return nil
}

// namedFile makes a file in dir and takes its name away: at once where the
// system lets it, else whoever makes the next one does. Nobody else makes such
// files there, see [LockDir].
func namedFile(dir string) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprint("scratch-", i))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = os.Remove(name) // what cannot be yet is found again
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) || i == maxNamed {
			return nil, err
		}
		if os.Remove(name) == nil { // left by a killed process
			i--
		}
	}
}

// maxNamed is how many scratch files a process may have where names cannot be
// taken away.
const maxNamed = 100
