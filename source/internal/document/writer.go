package document

import (
	"errors"
	"io"
	"log/slog"

	"lockstep/blob"
	"lockstep/resourcesync"
)

// A Writer writes a document that has a limited size.
type Writer struct {
	*resourcesync.Writer
	Blob    blob.Writer // where it goes; nil if that is no blob
	Before  int64       // bytes of entries that the document has before those that are written
	Refused int64       // entries that no document can state
	max     int         // entries
	full    int64       // bytes
	log     *slog.Logger
}

// NewWriter returns a Writer of a document that has room for so many entries,
// and is full with so many bytes. It logs the entries that are not written as
// they are given.
func NewWriter(w *resourcesync.Writer, entries int, bytes int64, log *slog.Logger) *Writer {
	return &Writer{Writer: w, max: entries, full: bytes, log: log}
}

// Add writes an entry, or returns resourcesync.ErrTooLarge. An entry the
// standard has no words for is left out and counted: one bad record must not
// keep all others from being published.
func (d *Writer) Add(e *resourcesync.Entry) error {
	if d.Entries() >= d.max || d.Before+d.Bytes() >= d.full {
		return resourcesync.ErrTooLarge
	}
	if d.Before > 0 && d.Before+d.Bytes()+atMost(e) > resourcesync.MaxBytes {
		return resourcesync.ErrTooLarge // the Writer does not know of those before
	}
	err := d.Write(e)
	if _, refused := errors.AsType[*resourcesync.RuleError](err); !refused {
		return err
	}
	plain := *e
	plain.Links = goodLinks(e.Links)
	retry := d.Write(&plain)
	if _, refused := errors.AsType[*resourcesync.RuleError](retry); refused {
		plain.Lastmod, plain.Type, plain.Encoding, plain.Hashes = resourcesync.Datetime{}, "", "", nil
		retry = d.Write(&plain)
	}
	if rule, refused := errors.AsType[*resourcesync.RuleError](retry); refused && rule.Rule == "RS-XML-09" {
		d.Refused++
		retry = nil
	}
	if retry == nil {
		d.log.Warn("resource cannot be published as it is catalogued", slog.String("uri", e.Loc), slog.Any("err", err))
	}
	return retry
}

// headerRoom is how much larger a document may become by its header alone: when it is
// closed, or becomes part of an index.
const headerRoom = 8 << 10

// AddAgain is like [Writer.Add] for an entry that readers have seen in this document: it
// stays there, although the header now takes more room.
func (d *Writer) AddAgain(e *resourcesync.Entry) error {
	d.full += headerRoom
	defer func() { d.full -= headerRoom }()
	return d.Add(e)
}

// atMost returns a size, in bytes, that an entry does not exceed.
func atMost(e *resourcesync.Entry) int64 {
	const rest, escaped = 1500, 6 // the attributes of bounded length; an escaped character
	n := rest + escaped*(len(e.Loc)+len(e.Type)+len(e.Encoding))
	for i := range e.Links {
		l := &e.Links[i]
		n += rest + escaped*(len(l.Rel)+len(l.Href)+len(l.Type)+len(l.Encoding)) + len(l.Foreign.String())
	}
	n += len(e.Foreign.String())
	return int64(n)
}

// Discard gives up a document that goes to a blob.
func (d *Writer) Discard() { _ = d.Blob.Close() } // none of it is needed

// openParts is how many finished parts may hold their files open until they are committed
// together.
const openParts = 4

// SealParts has finished parts hold no file open, if they are many and their store can do
// without. It is called after each one that is added to them.
func SealParts(parts []blob.Writer) error {
	switch n := len(parts); {
	case n <= openParts:
		return nil
	case n > openParts+1:
		parts = parts[n-1:] // the others are sealed
	}
	for _, w := range parts {
		if s, ok := w.(blob.Sealer); ok {
			if _, err := s.Seal(); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckLinks reports what keeps an entry of a Resource List from having links.
func CheckLinks(links ...resourcesync.Link) error {
	now := resourcesync.Header{
		Capability: resourcesync.ChangeList, From: anyTime,
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: "https://example.org/"}},
	}
	w, err := resourcesync.NewWriter(io.Discard, now)
	if err != nil {
		return err // unreachable: the header is right
	}
	e := resourcesync.Entry{Loc: "https://example.org/", Links: links}
	e.Change, e.Datetime = resourcesync.Updated, anyTime
	if rule, ok := errors.AsType[*resourcesync.RuleError](w.Write(&e)); ok {
		return rule
	}
	return nil
}

var anyTime = func() resourcesync.Datetime {
	t, _ := resourcesync.ParseDatetime("2000-01-01T00:00:00Z") // it is one
	return t
}()

// goodLinks returns the links an entry can have.
func goodLinks(links []resourcesync.Link) []resourcesync.Link {
	var good []resourcesync.Link
	for _, l := range links {
		if CheckLinks(l) == nil {
			good = append(good, l)
		}
	}
	return good
}
