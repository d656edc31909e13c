package intake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"lockstep/internal/extsort"
)

// sorterMemory is how many bytes are sorted in memory.
const sorterMemory = 2 << 20

// A listed is what an origin says of one resource.
type listed struct {
	uri  []byte
	part uint32 // the document that says so
	gone bool   // the resource is no more
	said []byte // packed, unless it is gone
}

// A sorter puts what an origin lists in any order into the order of URIs. Of
// several entries with one URI the last counts. The zero value but for dir is
// empty.
type sorter struct {
	dir     string // of temporary files
	pairs   *extsort.Sorter
	buf     []byte
	doubled bool // one URI was named by two parts; known once all was read
}

func (s *sorter) add(uri []byte, part uint32, gone bool, said []byte) error {
	if s.pairs == nil {
		s.pairs = extsort.New(extsort.TempFiles(s.dir))
		s.pairs.Memory, s.pairs.Stable = sorterMemory, true
	}
	s.buf = binary.AppendUvarint(s.buf[:0], uint64(part))
	if gone {
		s.buf = append(s.buf, 1)
	} else {
		s.buf = append(append(s.buf, 0), said...)
	}
	if err := s.pairs.Add(uri, s.buf); err != nil {
		return fmt.Errorf("sort what is listed: %w", err)
	}
	return nil
}

// all yields what was added, in order, each valid until the next.
func (s *sorter) all(ctx context.Context, yield func(*listed) error) error {
	if s.pairs == nil {
		return nil
	}
	var last, l listed
	any := false
	for p, err := range s.pairs.Sorted(ctx) {
		if err != nil {
			return fmt.Errorf("sort what is listed: %w", err)
		}
		part, n := binary.Uvarint(p.Value)
		l = listed{p.Key, uint32(part), p.Value[n] != 0, p.Value[n+1:]}
		if any && bytes.Equal(last.uri, l.uri) {
			s.doubled = s.doubled || last.part != l.part
		} else if any {
			if err := yield(&last); err != nil {
				return err
			}
		}
		any = true
		last = listed{append(last.uri[:0], l.uri...), l.part, l.gone, append(last.said[:0], l.said...)}
	}
	if !any {
		return nil
	}
	return yield(&last)
}

func (s *sorter) close() {
	if s.pairs != nil {
		_ = s.pairs.Close() // nothing in it is needed any more
		s.pairs = nil
	}
}
