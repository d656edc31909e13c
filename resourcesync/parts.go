package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

// WriteParts writes a list of any length as as many documents as it takes,
// numbered from 1: each is as long as the limits allow, all begin with h
// (RS-IDX-01). A list without entries is one document. An Index over several
// of them is the caller's to write, after them (RS-IDX-02, RS-IDX-06).
//
// For each part it calls create, which opens what the part goes to and calls
// write with it. If write fails, create must not make the part visible, and
// returns the error; it may fail for reasons of its own. Either ends WriteParts.
// Parts are written one after the other.
//
// WriteParts is for documents that tell what is. A Change List whose entries do
// not fit is refused: its parts cover intervals of their own, so their headers
// differ (RS-CHI-05).
func WriteParts(h Header, entries iter.Seq2[Entry, error], create func(part int, write func(io.Writer) error) error) (parts int, err error) {
	next, stop := iter.Pull2(entries)
	defer stop()
	p := partWriter{header: h, next: next}
	for more := true; more; parts++ {
		wrote := false
		err := create(parts+1, func(w io.Writer) (err error) {
			wrote = true
			more, err = p.write(w)
			return err
		})
		if err == nil && !wrote {
			err = errors.New("the part was not written")
		}
		if err != nil {
			return parts, fmt.Errorf("write part %d: %w", parts+1, err)
		}
	}
	return parts, nil
}

// A partWriter hands out entries to one part after the other.
type partWriter struct {
	header Header
	next   func() (Entry, error, bool)
	over   Entry // did not fit the part in front
	kept   bool
}

// write writes one part and reports whether there is need of another.
func (p *partWriter) write(w io.Writer) (more bool, err error) {
	d, err := NewWriter(w, p.header)
	if err != nil {
		return false, err
	}
	for {
		if !p.kept {
			e, err, ok := p.next()
			if err != nil {
				return false, err
			}
			if !ok {
				return false, d.Close()
			}
			p.over, p.kept = e, true
		}
		switch err := d.Write(&p.over); {
		case errors.Is(err, ErrTooLarge) && d.Entries() > 0 && !d.kind.interval():
			return true, d.Close()
		case err != nil:
			return false, err
		}
		p.kept = false
	}
}
