package atompmh

import (
	"errors"
	"fmt"
	"io"
	"time"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

// flushBytes is how much of a document the Writer buffers before it writes.
const flushBytes = 64 << 10

var errClosed = errors.New("write entry: the feed is closed")

// A Writer writes one document in UTF-8. It is strict: anything that Atom-PMH
// or Atom do not allow is refused with a *[RuleError], and nothing of it is
// written. A strict Reader reads the document back equal, except for white
// space around titles and summaries.
type Writer struct {
	w       io.Writer
	buf     []byte
	written int64 // bytes passed to w
	err     error // sticky: w failed
	closed  bool
	feed    Feed
	entries int
}

// NewWriter begins the document that f describes. Self, Title, Author and
// Updated are required (AP-DOC-02, AP-DOC-03); no entry may be updated later
// than f.Updated. The Writer buffers: w may receive bytes only when the buffer
// is full, or on Close.
func NewWriter(w io.Writer, f Feed) (*Writer, error) {
	if err := checkFeed(&f); err != nil {
		return nil, fmt.Errorf("write feed %s: %w", shown(f.ID), err)
	}
	f.Links = append([]Link(nil), f.Links...)
	wr := &Writer{w: w, feed: f}
	buf, err := appendFeed(make([]byte, 0, flushBytes+4096), &f)
	if err != nil {
		return nil, fmt.Errorf("write feed %s: %w", shown(f.ID), err)
	}
	wr.buf = buf
	return wr, nil
}

// Write adds one entry. If the entry is not allowed, nothing was written, and
// the document can be continued. Write does not retain e.
func (w *Writer) Write(e *Entry) error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return errClosed
	}
	err := w.check(e)
	var buf []byte
	if err == nil {
		buf, err = appendEntry(w.buf, e)
	}
	if err != nil {
		return fmt.Errorf("write entry %s: %w", shown(e.ID), err)
	}
	w.buf = buf
	w.entries++
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
	w.buf = append(w.buf, closing...)
	return w.flush()
}

// Entries returns the number of entries written.
func (w *Writer) Entries() int { return w.entries }

// Bytes returns the size of the document: final once closed, otherwise as if it
// were closed now.
func (w *Writer) Bytes() int64 {
	n := w.written + int64(len(w.buf))
	if !w.closed {
		n += int64(len(closing))
	}
	return n
}

func (w *Writer) flush() error {
	n, err := w.w.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	w.written += int64(len(w.buf))
	w.buf = w.buf[:0]
	if err != nil {
		w.err = fmt.Errorf("write feed: %w", err)
	}
	return w.err
}

// checkFeed returns an error if the description of a document is invalid.
func checkFeed(f *Feed) error {
	switch {
	case !iri.Absolute(f.ID):
		return broken("AP-DOC-09", "id %q is no absolute IRI", shown(f.ID))
	case f.Title == "":
		return broken("AP-DOC-02", "a feed without a title")
	case f.Author == "" || string(xmlscan.Trim([]byte(f.Author))) != f.Author:
		return broken("AP-DOC-02", "a feed without an author, or with white space around it")
	case f.Self == "":
		return broken("AP-DOC-03", "a feed without the address of the document")
	case f.Complete && f.PrevArchive != "":
		return broken("AP-CMP-03", "a complete feed with an older document")
	}
	if err := checkTime(f.Updated); err != nil {
		return err
	}
	for i := range f.Links {
		switch l := &f.Links[i]; l.Rel {
		case "self", "current", "prev-archive", "next-archive":
			return broken("AP-DOC-01", "a further link %s", l.Rel)
		case "first", "last", "next", "previous":
			return broken("AP-TS-10", "a link %s: an archived feed has no pages", l.Rel)
		default:
			if err := checkLink(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error if e is not allowed in this document. It does not
// check the characters of its texts.
func (w *Writer) check(e *Entry) error {
	if !iri.Absolute(e.ID) {
		return broken("AP-DOC-09", "id is no absolute IRI")
	}
	if err := checkTime(e.Updated); err != nil {
		return err
	}
	if e.Updated.After(w.feed.Updated) {
		return broken("AP-TS-01", "it is updated later than its feed")
	}
	alternates := 0
	for i := range e.Links {
		l := &e.Links[i]
		if err := checkLink(l); err != nil {
			return err
		}
		if l.Rel != RelAlternate {
			continue
		}
		alternates++
		if l.Type == "" {
			return broken("AP-ACT-05", "an alternate link without a media type")
		}
		for j := range e.Links[:i] {
			if o := &e.Links[j]; o.Rel == RelAlternate && o.Type == l.Type && o.Hreflang == l.Hreflang {
				return broken("AP-DOC-07", "two alternate links of type %s", xmlscan.Clip(l.Type))
			}
		}
	}
	switch {
	case e.Kind == Active && alternates == 0:
		return broken("AP-ACT-05", "an active entry without an alternate link")
	case e.Kind == Deletion && alternates > 0:
		return broken("AP-DEL-05", "a deletion entry with an alternate link")
	case e.Kind == Deletion && w.feed.Complete:
		return broken("AP-CMP-03", "a deletion entry in a complete feed")
	case e.Kind != Active && e.Kind != Deletion:
		return broken("AP-CLS-04", "an entry that is neither active nor a deletion")
	}
	return nil
}

// checkTime refuses instants that RFC 3339 cannot express.
func checkTime(t time.Time) error {
	if u := t.UTC(); t.IsZero() || u.Year() < 0 || u.Year() > 9999 {
		return broken("AP-DOC-08", "updated is absent, or not in the years 0 to 9999")
	}
	return nil
}

// checkLink returns an error if l is invalid, not checking the characters of
// its title.
func checkLink(l *Link) error {
	switch {
	case l.Rel == "" || usualRelation(l.Rel) != l.Rel || !compact(l.Rel):
		return broken("AP-DOC-01", "relation %q of a link", xmlscan.Clip(l.Rel))
	case l.Type != "" && !validType(l.Type):
		return broken("AP-DOC-01", "media type %q of a link", xmlscan.Clip(l.Type))
	case !compact(l.Hreflang):
		return broken("AP-DOC-01", "language %q of a link", xmlscan.Clip(l.Hreflang))
	case l.Length < 0 || l.Length > 1<<58:
		return broken("AP-DOC-01", "length %d of a link", l.Length)
	}
	return nil
}

// validType reports whether s is a valid media type in Atom (RFC 4287,
// 4.2.7.3).
func validType(s string) bool {
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '/' {
			return string(xmlscan.Trim([]byte(s))) == s
		}
	}
	return false
}

// compact reports whether s has no white space.
func compact(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' {
			return false
		}
	}
	return true
}
