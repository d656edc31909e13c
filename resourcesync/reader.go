package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/markup"
	"lockstep/resourcesync/internal/schema"
)

// ReaderOptions configures a [Reader]. The zero value is ready to use.
type ReaderOptions struct {
	Base      string        // URI of the document; relative URIs in it are resolved against it
	Strict    bool          // a Warning is an error
	Exact     bool          // also warn of what every reader understands but a Source should not write
	OnWarning func(Warning) // called for each warning, at most 20 times per rule; may be nil
	MaxBytes  int64         // of the document, uncompressed; default DefaultReadBytes
}

// Stats are the counts of a Reader.
type Stats struct {
	Entries   int   // returned
	Skipped   int   // not returned because of errors in them
	Warnings  int   // including those that OnWarning was not called for
	Bytes     int64 // of the document, uncompressed
	Datetimes int   // entries with a datetime; if none has one, lastmod is the event time (RS-VER-11)
	Disorder  int   // entries whose event time is before that of their predecessor (RS-CHL-11)
}

// A Reader reads one document, entry by entry: its memory does not grow with
// their number. The document may be a gzip file, and in UTF-8, UTF-16, US-ASCII
// or ISO-8859-1.
//
// The Reader accepts deviations from the standard that older versions or common
// mistakes have made usual, with a [Warning]; for a strict Reader they are
// errors. A document that is not well formed is always an error. Errors are
// sticky. They are *[SyntaxError], or what the underlying reader returned.
type Reader struct {
	s     xmlscan.Scanner
	opts  ReaderOptions
	base  *url.URL
	err   error // sticky
	stats Stats

	begun   bool // the root was read
	pending bool // the scanner is at the start of an entry
	root    root
	header  Header
	kind    schema.Kind
	rule    schema.Rule

	draft     draft
	strings   xmlscan.Interner
	blanks    int    // number of white space bytes around the text read last
	lastType  string // the media type checked last
	hashes    []Hash // chunk that the entries' hashes are sliced from
	lastEvent Datetime
	firstTime Datetime     // earliest event time
	listed    []Capability // in a Capability List
	reported  map[string]int
	violation error // of a strict Reader
	unlocated UnlocatedError

	foreign     markup.Collector // of the current entry
	linkForeign markup.Collector // of the current link
	dropped     bool             // some of these did not fit in
}

// NewReader returns a Reader for the document in r.
func NewReader(r io.Reader, o ReaderOptions) *Reader {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultReadBytes
	}
	s := xmlscan.New(r, xmlscan.Options{
		Namespaces: namespaces, MaxBytes: o.MaxBytes, HTML: ErrHTML, NotDocument: ErrNotDocument,
	})
	return &Reader{s: s, opts: o, rule: schema.Unknown.Rule()}
}

// Header returns the description of the document, as far as it precedes the
// first entry; after the last entry was read, all of it (RS-XML-03).
func (r *Reader) Header() (Header, error) {
	if err := r.begin(); err != nil && err != io.EOF {
		return Header{}, err
	}
	h := r.header
	h.Links = append([]Link(nil), h.Links...)
	return h, nil
}

// Read reads the next entry into e and overwrites all of it. At the end of the
// document it returns io.EOF. The content of e belongs to the caller.
func (r *Reader) Read(e *Entry) error {
	if err := r.begin(); err != nil {
		return err
	}
	for {
		if !r.pending {
			if err := r.fail(r.rootChildren()); err != nil {
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
	if err == nil {
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
			return r.fail(fmt.Errorf("read document: base: %w", err))
		}
		r.base = base
	}
	err := r.rootStart()
	if err == nil {
		err = r.rootChildren()
	}
	if err == nil {
		r.normalize(false)
		r.pending = true
	}
	return r.fail(err)
}

// rootStart reads the root's start tag.
func (r *Reader) rootStart() error {
	m, err := r.s.Next()
	if err != nil {
		return err
	}
	name := string(r.s.Local)
	switch {
	case m != xmlscan.Start:
		return r.s.Errorf("%w: it has no element at all", ErrNotDocument)
	case r.s.Space == spaceDraft && name == "changeset":
		return r.s.Errorf("%w: a changeset of a draft of 2012, whose form of changes was abandoned (RS-VER-21)", ErrNotDocument)
	case name == "sitemapindex":
		r.root.index = true
	case name != "urlset":
		return r.s.Errorf("%w: its root element is <%s>, not <urlset> or <sitemapindex>", ErrNotDocument, xmlscan.Clip(name))
	}
	r.root.space = r.s.Space
	if r.s.Space != spaceSitemap {
		r.warn("RS-GEN-01", "the root element is not in the namespace of Sitemaps")
	}
	for i := range r.s.Attrs {
		a := &r.s.Attrs[i]
		if r.isRS(a.Space) && string(a.Local) == "type" { // RS-VER-15
			r.root.alphaType = string(a.Value)
			r.dialect(dialectAlpha)
		}
	}
	if r.opts.Exact {
		r.exactRoot()
	}
	return nil
}

// isRS reports whether space is that of ResourceSync, in any of its forms.
func (r *Reader) isRS(space xmlscan.Space) bool {
	switch space {
	case spaceRS:
		return true
	case spacePreBeta:
		if !r.root.preBeta {
			r.root.preBeta = true
			r.warn("RS-VER-01", "the namespace of ResourceSync is that of the time before the beta")
			r.dialect(dialectPreBeta)
		}
		return true
	case spaceDraft:
		if !r.root.draft {
			r.root.draft = true
			r.warn("RS-VER-21", "the namespace of ResourceSync is that of a draft of 2012")
			r.dialect(dialectAlpha)
		}
		return true
	}
	return false
}

// inSitemap reports whether the current tag is in the namespace of the root.
func (r *Reader) inSitemap() bool {
	return r.s.Space == spaceSitemap || r.s.Space == r.root.space
}

// rootChildren reads the children of the root up to the start of the next
// entry; at the end of the document it returns io.EOF.
func (r *Reader) rootChildren() error {
	for {
		m, err := r.s.Next()
		if err != nil {
			return err
		}
		exactText(r)
		if m == xmlscan.End {
			return r.end()
		}
		switch name := string(r.s.Local); {
		case r.inSitemap() && (name == "url" || name == "sitemap"):
			if (name == "sitemap") != r.root.index {
				r.warn("RS-GEN-05", "<"+name+"> does not belong into this root element; it is read all the same")
			}
			return nil
		case r.isRS(r.s.Space) && (name == "md" || name == "ln"):
			if r.stats.Entries+r.stats.Skipped > 0 {
				r.rootWarn("RS-XML-03", "rs:md or rs:ln of the document behind its first entry")
			}
			if name == "md" {
				r.rootMetadata()
			} else if err := r.rootLink(); err != nil {
				return err
			}
		case r.s.Space == spaceXHTML && name == "meta":
			r.rootMeta()
		case r.foreignEntry():
			r.note("RS-XML-07", "an element "+xmlscan.Clip(name)+" where one of the namespace of Sitemaps is expected, read as an entry")
			return nil
		default:
			exactElement(r)
		}
		if err := r.skip(); err != nil {
			return err
		}
		r.s.PassedText() // discard the text of the skipped element
	}
}

// end reads what may follow the root.
func (r *Reader) end() error {
	if m, err := r.s.Next(); err != nil {
		return err
	} else if m != xmlscan.EOF {
		return r.s.Errorf("a tag after the root element") // unreachable: the scanner refuses it
	}
	r.normalize(true)
	if r.violation != nil {
		return r.violation
	}
	return io.EOF
}

// count updates the statistics, and warns of problems that they show.
func (r *Reader) count(e *Entry) {
	r.stats.Entries++
	if r.stats.Entries == MaxEntries+1 {
		r.warn("RS-IDX-01", "more than 50,000 entries")
	}
	if !r.kind.Events() {
		return
	}
	if !e.Datetime.IsZero() {
		r.stats.Datetimes++
		if !r.header.From.IsZero() && !r.header.FromUnproven && e.Datetime.before(r.header.From) ||
			!r.header.Until.IsZero() && !r.header.Living && r.header.Until.before(e.Datetime) {
			r.warn("RS-EM-04", "datetime outside the interval of the document")
		}
	}
	t := e.EventTime()
	switch {
	case t.IsZero() || e.Datetime.IsZero() && r.stats.Datetimes > 0:
		return
	case r.stats.Datetimes == 1 && r.stats.Entries > 1 && !e.Datetime.IsZero():
		// RS-EM-07: the lastmod of the preceding entries was not the time of the
		// change.
		r.stats.Disorder, r.lastEvent, r.firstTime = 0, Datetime{}, Datetime{}
	}
	switch {
	case t.before(r.lastEvent):
		r.stats.Disorder++
		r.lastEvent = t
		if e.Datetime.IsZero() { // RS-EM-05: lastmod need not be the time of the event
			r.note("RS-VER-12", "by its lastmod, an event is older than the one in front of it")
		} else {
			r.warn("RS-VER-12", "an event is older than the one in front of it")
		}
	case t.Compare(r.lastEvent) > 0: // otherwise both are in one unit
		r.lastEvent = t
	}
	if r.firstTime.IsZero() || t.Compare(r.firstTime) < 0 {
		r.firstTime = t
	}
}

// warn reports an accepted deviation; it makes a strict Reader fail.
func (r *Reader) warn(rule, message string) {
	r.note(rule, message)
	if r.opts.Strict && r.violation == nil {
		r.violation = r.s.Errorf("%w", &RuleError{rule, message})
	}
}

// note reports something that is not an error.
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
	r.opts.OnWarning(Warning{Rule: rule, Line: line, Column: column, Message: message})
}

// withoutUser removes user name and password from a URI, so that they appear
// neither in file names nor in messages; ok is false if the URI cannot be used.
func (r *Reader) withoutUser(text []byte, rule, what string) (_ []byte, ok bool) {
	if bytes.IndexByte(text, '@') < 0 { // as nearly always
		return text, true
	}
	ok = !iri.UserUnclear(text)
	text, had := iri.WithoutUser(text)
	if had && ok {
		r.warn(rule, what+" has a user name or password, which is ignored")
	}
	return text, ok
}

// unclear says what is wrong with a URI that [Reader.withoutUser] does not accept.
const unclear = "has a port that is no number, or a password with /, ? or #"

// shown returns a URI for a message.
func shown(uri string) string {
	uri, _ = iri.WithoutUser(uri)
	return xmlscan.Clip(uri)
}

// resolve returns ref as an absolute URI.
func (r *Reader) resolve(ref string) (string, error) {
	if r.base == nil {
		return "", errors.New("a relative URI in a document whose own URI is not known")
	}
	u, err := r.base.Parse(ref)
	if err != nil {
		return "", errors.New("a URI that is none")
	}
	if !u.IsAbs() {
		return "", errors.New("a relative URI in a document whose own URI is not absolute")
	}
	return u.String(), nil
}
