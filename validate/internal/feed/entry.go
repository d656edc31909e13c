package feed

import (
	"strings"
	"time"

	"lockstep/internal/xmlscan"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
)

// An entryReader reads one entry (RFC 4287, 4.1.2).
type entryReader struct {
	reader *reader
	at     string // its location
	base   string
	n      int // its number in the document
	counts map[string]int
	links  map[[2]string]bool

	id         string
	updated    time.Time
	alternates []link
	untyped    bool // one of them has no type
	author     bool
	content    contentShape
}

// contentShape is the form of an entry's content.
type contentShape uint8

const (
	noContent    contentShape = iota
	emptyContent              // without src
	someContent               // or with src
)

// maxAlternates caps the alternate links of one entry that are kept.
const maxAlternates = 100

// read reads the entry whose start tag was just read.
func (r *entryReader) read() error {
	r.reader.rebase(&r.base)
	for {
		m, err := r.reader.Next()
		switch {
		case err != nil:
			return err
		case m == xmlscan.End:
			return r.end()
		}
		if err := r.child(); err != nil {
			return err
		}
	}
}

// child reads a child of the entry.
func (r *entryReader) child() (err error) {
	if r.reader.Space != inAtom {
		return r.reader.Skip() // an extension
	}
	name, at := string(r.reader.Local), r.reader.here()
	r.counts[name]++
	switch name {
	case "id":
		r.id, err = r.reader.iri(at)
		return err
	case "updated":
		r.updated, err = r.reader.date(at)
		return err
	case "published":
		_, err = r.reader.date(at)
		return err
	case "link":
		return r.entryLink(at)
	case "content":
		return r.readContent()
	case "source":
		return r.source()
	case "author":
		r.author = true
	case "generator", "icon", "logo", "subtitle", "entry":
		r.reader.found.Errorf("AP-DOC-01", at, "Atom has no element %s in an entry", name)
		return r.reader.Skip()
	}
	return r.reader.common(name, at, "an entry")
}

// entryLink handles a link.
func (r *entryReader) entryLink(at string) error {
	l, err := r.reader.link(r.base, at)
	if l.rel == "alternate" {
		r.reader.once(r.links, l, at)
		r.untyped = r.untyped || l.media == ""
		if len(r.alternates) < maxAlternates {
			r.alternates = append(r.alternates, l)
		}
	}
	return err
}

// readContent checks content, which neither a deletion nor an active entry may
// have.
func (r *entryReader) readContent() error {
	_, outside := r.reader.Attr("src")
	blank, err := r.reader.Blank()
	if blank && !outside && r.content != someContent {
		r.content = emptyContent
	} else {
		r.content = someContent
	}
	return err
}

// source looks for an author in the source element of a copied entry.
func (r *entryReader) source() error {
	for {
		m, err := r.reader.Next()
		if err != nil || m == xmlscan.End {
			return err
		}
		r.author = r.author || r.reader.Space == inAtom && string(r.reader.Local) == "author"
		if err := r.reader.Skip(); err != nil {
			return err
		}
	}
}

// end performs the checks at the end of the entry.
func (r *entryReader) end() error {
	for _, name := range []string{"id", "title", "updated"} {
		if n := r.counts[name]; n != 1 {
			r.reader.found.Errorf("AP-DOC-05", r.at, "the entry has %s", finding.NotOne(n, name))
		}
	}
	for _, name := range []string{"content", "published", "rights", "source", "summary"} {
		if n := r.counts[name]; n > 1 {
			r.reader.found.Errorf("AP-DOC-01", r.at, "the entry has %s", finding.NotOne(n, name))
		}
	}
	if !r.author && r.reader.bare == "" {
		r.reader.bare = r.at
	}
	about, d := r.shape(), r.reader.doc
	d.note(about, r.id, stamp(r.updated), r.alternates)
	if r.updated.IsZero() {
		return nil
	}
	if d.oldest.IsZero() || r.updated.Before(d.oldest) {
		d.oldest, d.oldestAt = r.updated, r.at
	}
	if r.updated.After(d.newest) {
		d.newest, d.newestAt = r.updated, r.at
	}
	if about == 0 || r.id == "" {
		return nil
	}
	if about == tally.Deletion && d.deletionAt == "" {
		d.deletionAt = r.at
	}
	return r.reader.walk.addEntry(r.reader.number, r.n, about, r.id, r.updated, r.kept())
}

// shape returns the kind of event that the entry reports, as interpreted by a
// lenient consumer (AP-CLS-04); 0 if none.
func (r *entryReader) shape() tally.About {
	if len(r.alternates) == 0 {
		switch r.content {
		case emptyContent:
			return tally.Deletion
		case noContent:
			r.reader.found.Errorf("AP-ACT-05", r.at, "the entry has neither an alternate link nor content: it is no active and no deletion entry")
		default:
			r.reader.found.Errorf("AP-DEL-06", r.at, "the entry has no alternate link, and content that is not empty: it is no active and no deletion entry")
		}
		return 0
	}
	switch {
	case r.content == emptyContent:
		r.reader.found.Errorf("AP-DEL-05", r.at, "the entry has empty content, as a deletion entry has, and an alternate link")
	case r.content == someContent:
		r.reader.found.Errorf("AP-ACT-04", r.at, "the entry has an alternate link and content")
	}
	if r.untyped {
		r.reader.found.Errorf("AP-ACT-05", r.at, "an alternate link has no type")
	}
	return tally.Active
}

// kept returns the alternates as one text, if they are needed later.
func (r *entryReader) kept() string {
	if r.reader.walk.visitor.Settings.Sample == 0 || r.reader.walk.single {
		return ""
	}
	var b strings.Builder
	b.WriteString(r.at)
	for _, l := range r.alternates {
		b.WriteString("\n" + l.media + "\n" + l.href)
	}
	return b.String()
}
