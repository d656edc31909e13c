package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"

	"lockstep/resourcesync"
)

const (
	sinkBuffer  = 256 << 10
	sinkBuffers = 4
)

// A sink writes a package and hashes it meanwhile: filling, hashing and writing
// go on beside each other. One goroutine uses it.
type sink struct {
	buf    []byte // being filled
	n      int64  // bytes taken
	free   chan []byte
	full   chan []byte
	hashed chan []byte
	done   sync.WaitGroup
	sum    string
	mu     sync.Mutex // guards err
	err    error
}

var sinkPool = sync.Pool{New: func() any { return new([sinkBuffer]byte) }}

func newSink(w io.Writer) *sink {
	s := &sink{
		buf:    sinkPool.Get().(*[sinkBuffer]byte)[:0],
		free:   make(chan []byte, sinkBuffers),
		full:   make(chan []byte, sinkBuffers),
		hashed: make(chan []byte, sinkBuffers),
	}
	for range sinkBuffers - 1 {
		s.free <- sinkPool.Get().(*[sinkBuffer]byte)[:0]
	}
	s.done.Go(func() {
		defer close(s.hashed)
		sum := sha256.New()
		for b := range s.full {
			sum.Write(b) // a hash never fails
			s.hashed <- b
		}
		s.sum = hex.EncodeToString(sum.Sum(nil))
	})
	s.done.Go(func() {
		for b := range s.hashed {
			if s.failed() == nil {
				if _, err := w.Write(b); err != nil {
					s.fail(err)
				}
			}
			s.free <- b[:0]
		}
	})
	return s
}

func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Write takes bytes; an error is that of an earlier one.
func (s *sink) Write(p []byte) (int, error) {
	n := len(p)
	s.n += int64(n)
	for len(p) > 0 {
		k := copy(s.buf[len(s.buf):cap(s.buf)], p)
		s.buf, p = s.buf[:len(s.buf)+k], p[k:]
		if len(s.buf) == cap(s.buf) {
			if err := s.pass(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// pass hands on what has gathered.
func (s *sink) pass() error {
	s.full <- s.buf
	s.buf = <-s.free
	return s.failed()
}

// close waits until all is written, and returns the hash of it in hex. It must
// be called, and may be called again.
func (s *sink) close() (string, error) {
	if s.full != nil {
		if len(s.buf) > 0 {
			s.full <- s.buf
		}
		sent := len(s.buf) > 0
		close(s.full)
		s.done.Wait()
		if !sent {
			s.free <- s.buf
		}
		for range sinkBuffers {
			sinkPool.Put((*[sinkBuffer]byte)((<-s.free)[:sinkBuffer]))
		}
		s.full = nil
	}
	return s.sum, s.failed()
}

// A spool is a temporary file without a name.
type spool struct {
	file *os.File
	n    int64
	max  int64 // how long it may become; 0: any length
	gone bool  // the name is
}

func newSpool(dir string, max int64) (*spool, error) {
	f, err := os.CreateTemp(dir, "lockstep-package-*")
	if err != nil {
		return nil, err
	}
	// Where a file in use cannot be removed, it is when it is closed.
	return &spool{file: f, max: max, gone: os.Remove(f.Name()) == nil}, nil
}

func (s *spool) Write(p []byte) (int, error) {
	if s.max > 0 && s.n+int64(len(p)) > s.max {
		return 0, resourcesync.ErrTooLarge
	}
	n, err := s.file.Write(p)
	s.n += int64(n)
	return n, err
}

// content reads the whole of it.
func (s *spool) content() io.Reader { return io.NewSectionReader(s.file, 0, s.n) }

func (s *spool) close() {
	_ = s.file.Close() // nothing of it is wanted
	if !s.gone {
		_ = os.Remove(s.file.Name()) // best effort: a temporary file
	}
}
