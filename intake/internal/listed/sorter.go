// Package listed keeps what an origin lists until it is compared with the catalog:
// sorted by URI, packed, and on disk where it is much.
package listed

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"lockstep/catalog"
	"lockstep/internal/extsort"
)

// sorterMemory is how many bytes are sorted in memory.
const sorterMemory = 2 << 20

// An Entry is what an origin says of one resource.
type Entry struct {
	URI    []byte
	Part   uint32 // the document that says so
	Gone   bool   // the resource is no more
	Packed []byte // by [AppendRecord], unless the resource is gone
}

// Update returns the update that makes a catalog hold what is listed.
func (it *Entry) Update() (catalog.Update, error) {
	if it.Gone {
		return catalog.Update{Record: catalog.Record{URI: string(it.URI)}, Deleted: true}, nil
	}
	r, err := ParseRecord(it.Packed)
	r.URI = string(it.URI)
	r.Token = string(AppendFingerprint(nil, it.Packed))
	return catalog.Update{Record: r}, err
}

// A Sorter puts what an origin lists in any order into the order of URIs. Of
// several entries with one URI the last counts. Dir may be set before the first
// Add; all else is ready in the zero value.
type Sorter struct {
	Dir     string // of temporary files
	pairs   *extsort.Sorter
	buf     []byte
	Doubled bool // one URI was named by two parts; known once all was read
}

// Add adds an entry: what document part says of uri, packed.
func (s *Sorter) Add(uri []byte, part uint32, gone bool, said []byte) error {
	if s.pairs == nil {
		s.pairs = extsort.New(extsort.TempFiles(s.Dir))
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

// All calls yield with what was added, in order, each valid until the next.
func (s *Sorter) All(ctx context.Context, yield func(*Entry) error) error {
	if s.pairs == nil {
		return nil
	}
	var last, l Entry
	any := false
	for p, err := range s.pairs.Sorted(ctx) {
		if err != nil {
			return fmt.Errorf("sort what is listed: %w", err)
		}
		part, n := binary.Uvarint(p.Value)
		l = Entry{p.Key, uint32(part), p.Value[n] != 0, p.Value[n+1:]}
		if any && bytes.Equal(last.URI, l.URI) {
			s.Doubled = s.Doubled || last.Part != l.Part
		} else if any {
			if err := yield(&last); err != nil {
				return err
			}
		}
		any = true
		last = Entry{append(last.URI[:0], l.URI...), l.Part, l.Gone, append(last.Packed[:0], l.Packed...)}
	}
	if !any {
		return nil
	}
	return yield(&last)
}

// Close removes the temporary files.
func (s *Sorter) Close() {
	if s.pairs != nil {
		_ = s.pairs.Close() // nothing in it is needed any more
		s.pairs = nil
	}
}
