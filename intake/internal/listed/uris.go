package listed

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

// maxSpillMemory is how many bytes of URIs are kept in memory before a file is used.
const maxSpillMemory = 1 << 20

// URIs stores URIs in the order of [URIs.Add] until the end of a scan, in memory or,
// if there are many, in an unnamed temporary file.
type URIs struct {
	Dir string // directory of the file

	mu    sync.Mutex // guards the following fields while URIs are added
	Count int64      // of the URIs added
	mem   []byte
	file  *os.File
	named bool // the file could not be unlinked while open
}

// Add adds a URI.
func (s *URIs) Add(uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Count++
	s.mem = binary.AppendUvarint(s.mem, uint64(len(uri)))
	s.mem = append(s.mem, uri...)
	if len(s.mem) < maxSpillMemory {
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.Dir, "lockstep-scan-*")
		if err != nil {
			return fmt.Errorf("save the list of resources to delete: %w", err)
		}
		s.file = f
		s.named = os.Remove(f.Name()) != nil
	}
	if _, err := s.file.Write(s.mem); err != nil {
		return fmt.Errorf("save the list of resources to delete: %w", err)
	}
	s.mem = s.mem[:0]
	return nil
}

// All yields the URIs added, in order. No URI may be added afterwards.
func (s *URIs) All() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if s.file != nil {
			if _, err := s.file.Seek(0, io.SeekStart); err != nil {
				yield("", fmt.Errorf("read the list of resources to delete: %w", err))
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

// readSpill yields the URIs in the file and reports whether to continue.
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
			yield("", fmt.Errorf("read the list of resources to delete: %w", err))
			return false
		}
		if !yield(string(buf), nil) {
			return false
		}
	}
}

// Close removes the file.
func (s *URIs) Close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // it is not read again
	if s.named {
		_ = os.Remove(s.file.Name()) // a file left behind does no harm
	}
}
