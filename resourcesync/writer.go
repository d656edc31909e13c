package resourcesync

import (
	"errors"
	"fmt"
	"io"

	"lockstep/resourcesync/internal/schema"
)

// flushBytes is how much of a document the Writer buffers before it writes.
const flushBytes = 64 << 10

var errClosed = errors.New("write entry: the document is closed")

// A Writer writes one document. It is strict: anything that the standard does
// not allow in a document of the kind is refused with a *[RuleError], and
// nothing of it is written.
//
// Entries of change documents must come oldest first (RS-CHL-03).
type Writer struct {
	w       io.Writer
	buf     []byte
	written int64 // bytes passed to w
	err     error // sticky: w failed
	closed  bool

	header  Header
	kind    schema.Kind
	entries int

	lastEvent Datetime // of the previous entry, to check the order
	lastUntil Datetime // of the previous part, in an index of changes
	openPart  bool     // the previous part is open, so it must be the last
	listed    []Capability
	goodType  string // the media type checked last
}

// NewWriter begins the document that h describes. The Writer buffers: w may
// receive bytes only when the buffer is full, or on Close.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	wr := &Writer{w: w, header: h, kind: schema.KindOf(h.Capability, h.Index)}
	if err := checkHeader(&h, wr.kind); err != nil {
		return nil, fmt.Errorf("write header: %w", err)
	}
	buf, err := appendHeader(make([]byte, 0, flushBytes+4096), &h)
	if err != nil {
		return nil, fmt.Errorf("write header: %w", err)
	}
	wr.buf = buf
	return wr, nil
}

// Write adds one entry. If the document is full it returns ErrTooLarge; if the
// entry is not allowed, a RuleError. In both cases nothing was written, and the
// document can be continued. Write does not retain e.
func (w *Writer) Write(e *Entry) error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return errClosed
	case w.entries == MaxEntries:
		return ErrTooLarge
	}
	if err := w.check(e); err != nil {
		return fmt.Errorf("write entry %s: %w", shown(e.Loc), err)
	}
	buf, err := w.appendEntry(w.buf, e)
	if err != nil {
		return fmt.Errorf("write entry %s: %w", shown(e.Loc), err)
	}
	if w.written+int64(len(buf)+len(w.closing())) > MaxBytes {
		return ErrTooLarge
	}
	w.buf = buf
	w.entries++
	w.remember(e)
	if len(buf) >= flushBytes {
		return w.flush()
	}
	return nil
}

// Close ends the document and writes the rest of it. It does not close the
// underlying writer. Closing again does nothing.
func (w *Writer) Close() error {
	if w.closed || w.err != nil {
		return w.err
	}
	w.closed = true
	w.buf = append(w.buf, w.closing()...)
	return w.flush()
}

// Entries returns the number of entries written.
func (w *Writer) Entries() int { return w.entries }

// Bytes returns the size of the document: final once closed, otherwise as if it
// were closed now.
func (w *Writer) Bytes() int64 {
	n := w.written + int64(len(w.buf))
	if !w.closed {
		n += int64(len(w.closing()))
	}
	return n
}

// Header returns the Header given to NewWriter.
func (w *Writer) Header() Header { return w.header }

func (w *Writer) flush() error {
	n, err := w.w.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	w.written += int64(len(w.buf))
	w.buf = w.buf[:0]
	if err != nil {
		w.err = fmt.Errorf("write document: %w", err)
	}
	return w.err
}

// closing returns the end of the document.
func (w *Writer) closing() string {
	if w.header.Index {
		return "</sitemapindex>\n"
	}
	return "</urlset>\n"
}
