package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

// WriteParts writes a list of any length as as many documents as it takes,
// numbered from 1: each is as long as the limits allow, all begin with h
// (RS-IDX-01). A list without entries becomes one document. If there are
// several, the caller writes an Index over them afterwards (RS-IDX-02,
// RS-IDX-06).
//
// For each part it calls create, which opens the destination of the part and
// calls write with it. If write fails, create must not make the part visible,
// and returns the error; create may also fail for reasons of its own. Either
// error ends WriteParts. Parts are written one after the other.
//
// WriteParts is for documents that list a state. It refuses a Change List whose
// entries do not fit: the parts of one cover intervals of their own, so their
// headers differ (RS-CHI-05).
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

// A partWriter distributes entries over consecutive parts.
type partWriter struct {
	header Header
	next   func() (Entry, error, bool)
	over   Entry // did not fit the previous part
	kept   bool
}

// write writes one part and reports whether another is needed.
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
		case errors.Is(err, ErrTooLarge) && d.Entries() > 0 && !d.kind.Interval():
			return true, d.Close()
		case err != nil:
			return false, err
		}
		p.kept = false
	}
}
