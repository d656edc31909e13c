// Package listed stores the entries that an origin lists until they are compared with
// the catalog: packed, sorted by URI, and on disk if there are many.
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

// An Entry is an origin's description of one resource.
type Entry struct {
	URI    []byte
	Part   uint32 // the document that lists it
	Gone   bool   // the resource was deleted
	Packed []byte // by [AppendRecord], unless the resource is gone
}

// Update returns the update that applies the entry to a catalog.
func (it *Entry) Update() (catalog.Update, error) {
	if it.Gone {
		return catalog.Update{Record: catalog.Record{URI: string(it.URI)}, Deleted: true}, nil
	}
	r, err := ParseRecord(it.Packed)
	r.URI = string(it.URI)
	r.Token = string(AppendFingerprint(nil, it.Packed))
	return catalog.Update{Record: r}, err
}

// A Sorter sorts entries by URI. If several entries have the same URI, the last one
// counts. The zero value is ready to use; Dir may be set before the first Add.
type Sorter struct {
	Dir     string // of temporary files
	pairs   *extsort.Sorter
	buf     []byte
	Doubled bool // two parts list the same URI; known once All has ended
}

// Add adds the entry for uri in document part; said is the packed record.
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
		return fmt.Errorf("sort the list: %w", err)
	}
	return nil
}

// All calls yield with each entry, in order; an entry is valid until yield returns.
func (s *Sorter) All(ctx context.Context, yield func(*Entry) error) error {
	if s.pairs == nil {
		return nil
	}
	var last, l Entry
	any := false
	for p, err := range s.pairs.Sorted(ctx) {
		if err != nil {
			return fmt.Errorf("sort the list: %w", err)
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
		_ = s.pairs.Close() // its contents are no longer needed
		s.pairs = nil
	}
}
