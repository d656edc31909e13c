package intake

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
)

// maxSpillMemory is how many bytes of URIs a spill keeps before it takes a file.
const maxSpillMemory = 1 << 20

// spill keeps URIs until the end of a scan, in memory or, when they are many,
// in a file without a name.
type spill struct {
	dir string // where the file would be

	mu    sync.Mutex // guards what follows while URIs are added
	count int64
	mem   []byte
	file  *os.File
	named bool // the file could not be unlinked while open
}

func (s *spill) add(uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.mem = binary.AppendUvarint(s.mem, uint64(len(uri)))
	s.mem = append(s.mem, uri...)
	if len(s.mem) < maxSpillMemory {
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "lockstep-scan-*")
		if err != nil {
			return fmt.Errorf("keep what is to be deleted: %w", err)
		}
		s.file = f
		s.named = os.Remove(f.Name()) != nil
	}
	if _, err := s.file.Write(s.mem); err != nil {
		return fmt.Errorf("keep what is to be deleted: %w", err)
	}
	s.mem = s.mem[:0]
	return nil
}

// all yields what was added, in order. Nothing can be added afterwards.
func (s *spill) all() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if s.file != nil {
			if _, err := s.file.Seek(0, io.SeekStart); err != nil {
				yield("", fmt.Errorf("read what is to be deleted: %w", err))
				return
			}
			if !readSpill(bufio.NewReader(s.file), yield) {
				return
			}
		}
		for b := s.mem; len(b) > 0; {
			n, k := binary.Uvarint(b)
			if !yield(string(b[k:k+int(n)]), nil) {
				return
			}
			b = b[k+int(n):]
		}
	}
}

// readSpill yields what stands in the file and reports whether to go on.
func readSpill(r *bufio.Reader, yield func(string, error) bool) bool {
	for {
		n, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return true
		}
		buf := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(r, buf)
		}
		if err != nil {
			yield("", fmt.Errorf("read what is to be deleted: %w", err))
			return false
		}
		if !yield(string(buf), nil) {
			return false
		}
	}
}

func (s *spill) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // nobody reads it again
	if s.named {
		_ = os.Remove(s.file.Name()) // what remains is an empty shell
	}
}
