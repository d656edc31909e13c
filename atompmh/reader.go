package atompmh

import (
	"fmt"
	"io"
	"iter"
	"net/url"
	"time"

	"lockstep/internal/xmlscan"
)

// Limits of a Reader, in addition to those of package xmlscan; each comment
// says what the limit prevents.
const (
	// DefaultReadBytes is how many bytes of a document, uncompressed, a Reader
	// reads by default: it stops endless documents and decompression bombs.
	DefaultReadBytes = 1 << 30

	maxToken     = 16 << 20 // bytes of one text: memory filled by unexpected content
	maxDepth     = 256      // open elements: memory filled by nesting
	maxEntryText = 4 << 20  // bytes stored of one entry, or of the feed: memory filled by one of them
	maxLinks     = 1000     // links of one entry, or of the feed: the same
	maxWarnings  = 20       // warnings reported per rule: an endless sequence of callbacks
)

const (
	spaceAtom xmlscan.Space = iota + 1
	spaceHistory
	spaceTombstones
)

// namespaces are those that the Reader distinguishes.
var namespaces = []string{Namespace, NamespaceHistory, NamespaceTombstones}

// ReaderOptions configures a [Reader]. The zero value is ready to use.
type ReaderOptions struct {
	Base      string        // URI of the document; relative URIs in it are resolved against it
	Strict    bool          // a Warning is an error
	OnWarning func(Warning) // called for each warning, at most 20 times per rule; may be nil
	MaxBytes  int64         // of the document, uncompressed; default DefaultReadBytes
}

// Stats are the counts of a Reader.
type Stats struct {
	Entries   int   // returned
	Deletions int   // of them, those of that kind
	Skipped   int   // not returned because of errors in them
	Nameless  int   // of them, those without a usable record ID, time, or address
	Warnings  int   // including those that OnWarning was not called for
	Bytes     int64 // of the document, uncompressed

	// The earliest and the latest updated of the returned entries; zero without
	// entries (AP-HV-06).
	Earliest, Latest time.Time
}

// A Reader reads one document, entry by entry: its memory does not grow with
// their number. The document may be a gzip file, and in UTF-8, UTF-16, US-ASCII
// or ISO-8859-1.
//
// The Reader accepts deviations if the meaning of an entry is still clear, with
// a [Warning]; for a strict Reader they are errors. A document that is not well
// formed is always an error. Unknown elements and attributes are skipped
// (AP-DOC-10). Errors are sticky. They are *[SyntaxError], or what the
// underlying reader returned.
type Reader struct {
	s     xmlscan.Scanner
	opts  ReaderOptions
	base  *url.URL
	err   error // sticky
	stats Stats

	begun   bool // the root was read
	pending bool // the scanner is at the start of an entry
	feed    Feed
	head    head

	draft     draft
	strings   xmlscan.Interner
	reported  map[string]int
	violation error // of a strict Reader
}

// NewReader returns a Reader for the document in r.
func NewReader(r io.Reader, o ReaderOptions) *Reader {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultReadBytes
	}
	return &Reader{opts: o, s: xmlscan.New(r, xmlscan.Options{
		Namespaces: namespaces, MaxBytes: o.MaxBytes, MaxToken: maxToken, MaxDepth: maxDepth,
		HTML: errHTML, NotDocument: ErrNotFeed,
	})}
}

// Feed returns the description of the document, as far as it precedes the first
// entry; after the last entry was read, all of it.
func (r *Reader) Feed() (Feed, error) {
	if err := r.begin(); err != nil && err != io.EOF {
		return Feed{}, err
	}
	f := r.feed
	f.Links = append([]Link(nil), f.Links...)
	return f, nil
}

// Read reads the next entry into e and overwrites all of it. At the end of the
// document it returns io.EOF. The content of e belongs to the caller.
func (r *Reader) Read(e *Entry) error {
	if err := r.begin(); err != nil {
		return err
	}
	for {
		if !r.pending {
			if err := r.fail(r.children()); err != nil {
				return err
			}
		}
		r.pending = false
		ok, err := r.entry(e)
		if err = r.fail(err); err != nil {
			return err
		}
		if ok {
			r.count(e)
			return r.fail(nil)
		}
		r.stats.Skipped++
		if !r.draft.inline {
			r.stats.Nameless++
		}
	}
}

// Entries yields the document's entries in order. It stops after the first
// error, which it yields with a zero Entry.
func (r *Reader) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			var e Entry
			switch err := r.Read(&e); {
			case err == io.EOF:
				return
			case err != nil:
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Stats returns the counts so far.
func (r *Reader) Stats() Stats {
	st := r.stats
	st.Bytes = r.s.Offset()
	return st
}

// fail makes err sticky, and returns the violation that a strict Reader found
// as an error.
func (r *Reader) fail(err error) error {
	if err == nil || err == io.EOF && r.violation != nil {
		err = r.violation
	}
	if err != nil {
		r.err = err
	}
	return err
}

// begin reads up to the first entry, once.
func (r *Reader) begin() error {
	if r.err != nil || r.begun {
		return r.err
	}
	r.begun = true
	if r.opts.Base != "" {
		base, err := url.Parse(r.opts.Base)
		if err != nil {
			return r.fail(fmt.Errorf("read feed: base: %w", err))
		}
		r.base = base
	}
	err := r.root()
	if err == nil {
		err = r.children()
	}
	r.pending = err == nil
	return r.fail(err)
}

// root reads the root's start tag.
func (r *Reader) root() error {
	m, err := r.s.Next()
	if err != nil {
		return err
	}
	name := string(r.s.Local)
	switch {
	case m != xmlscan.Start:
		return r.s.Errorf("%w: it has no element at all", ErrNotFeed)
	case r.s.Space == spaceAtom && name == "entry":
		return r.s.Errorf("%w, but %w", ErrNotFeed, ErrEntryDocument)
	case r.s.Space == spaceAtom && name == "feed":
		r.base = r.baseOf(r.base)
		return nil
	case name == "feed":
		return r.s.Errorf("%w: its root element <feed> is not in the namespace of Atom", ErrNotFeed)
	}
	return r.s.Errorf("%w: its root element is <%s>", ErrNotFeed, xmlscan.Clip(name))
}

// count updates the statistics, and warns of problems that they show.
func (r *Reader) count(e *Entry) {
	r.stats.Entries++
	if e.Kind == Deletion {
		r.stats.Deletions++
	}
	if r.stats.Earliest.IsZero() || e.Updated.Before(r.stats.Earliest) {
		r.stats.Earliest = e.Updated
	}
	if e.Updated.After(r.stats.Latest) {
		r.stats.Latest = e.Updated
	}
	if r.head.updated && e.Updated.After(r.feed.Updated) {
		r.head.ahead = true
		r.warn("AP-TS-01", "an entry is updated later than its feed")
	}
}

// warn reports an accepted deviation; it makes a strict Reader fail.
func (r *Reader) warn(rule, message string) {
	if r.opts.Strict && r.violation == nil {
		r.violation = r.s.Errorf("%w", &RuleError{rule, message})
	}
	r.note(rule, message)
}

// note reports something that is no violation of a rule.
func (r *Reader) note(rule, message string) {
	r.stats.Warnings++
	if r.opts.OnWarning == nil {
		return
	}
	if r.reported == nil {
		r.reported = make(map[string]int)
	}
	if r.reported[rule]++; r.reported[rule] > maxWarnings {
		return
	}
	line, column := r.s.Position()
	r.opts.OnWarning(Warning{Rule: rule, Message: message, Line: line, Column: column})
}
