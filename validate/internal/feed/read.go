package feed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"lockstep/atompmh"
	"lockstep/internal/xmlscan"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
)

// The namespaces that a feed reader distinguishes, by their number as a
// [xmlscan.Space].
const (
	inAtom xmlscan.Space = iota + 1
	inHistory
	inTombstones
)

var spaces = []string{atompmh.Namespace, atompmh.NamespaceHistory, atompmh.NamespaceTombstones}

// A document is a feed document that was read.
type document struct {
	uri, final, base        string
	id, self                string
	current, prev, next     string
	archive, complete       bool
	paged                   string // relation of a paging link, if there is one
	updated                 time.Time
	entries                 int
	oldest, newest          time.Time // of the entries
	oldestAt, newestAt      string
	deletionAt, tombstoneAt string // locations of the first ones
	etag, modified          string // from its headers
	sum                     [sha256.Size]byte
	entryHash               hash.Hash // hash of its entries; nil once the document is in a chain,
	entrySum                string    // and the sum of that hash
	whole                   bool      // it could be read to its end
	feed                    bool
}

// named reports whether uri is the document's: the requested, final or
// self-declared one.
func (d *document) named(uri string) bool { return uri == d.uri || uri == d.final || uri == d.self }

// A reader reads one feed document and checks it by itself.
type reader struct {
	xmlscan.Scanner
	found   finding.Place
	walk    *walk
	doc     *document
	number  int // of the document in the tally
	counts  map[string]int
	links   map[[2]string]bool // of alternates, by type and language
	author  bool               // the feed has one
	counted bool               // the entries were, from another address
	bare    string             // the first entry without an author
}

// read reads a feed document. The error is that of reading, not about the
// content.
func (w *walk) read(ctx context.Context, src *visit.Source) (*document, error) {
	body := visit.NewHashed(src)
	doc := &document{uri: src.URI, final: src.Final, base: src.Final, entryHash: sha256.New()}
	r := &reader{found: w.visitor.Collector.In(src.URI), walk: w, doc: doc, counts: map[string]int{}, links: map[[2]string]bool{}, counted: w.visitor.CountedBefore(src.URI)}
	r.Scanner = xmlscan.New(body, xmlscan.Options{Namespaces: spaces, MaxBytes: w.visitor.Settings.DocumentBytes, HTML: visit.ErrPage, NotDocument: visit.ErrNoXML})
	err := r.root(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, ok := errors.AsType[*tally.KeepError](err); ok {
		return nil, err
	}
	if err != nil && body.Err() != nil {
		return nil, fmt.Errorf("read %s: %w", finding.Printable(src.URI), body.Err())
	}
	if err != nil {
		location := ""
		if syntax, ok := errors.AsType[*xmlscan.SyntaxError](err); ok {
			location, err = finding.Position(syntax.Line, syntax.Column), syntax.Err
		}
		rule := "AP-DOC-01"
		if strings.Contains(err.Error(), "document type") {
			rule = "AP-DOC-11"
		}
		r.found.Errorf(rule, location, "cannot be read: %v", err)
	}
	doc.whole = err == nil
	w.visitor.Count(doc.uri)
	doc.sum = body.Rest()
	return doc, nil
}

// here returns the reader's location.
func (r *reader) here() string { return finding.Position(r.Position()) }

// root reads the document.
func (r *reader) root(ctx context.Context) error {
	m, err := r.Next()
	if err != nil {
		return err
	}
	if m != xmlscan.Start || r.Space != inAtom || string(r.Local) != "feed" {
		return r.otherRoot()
	}
	r.doc.feed = true
	r.number = r.walk.tally.Begin(r.doc.uri)
	r.rebase(&r.doc.base)
	if name, _ := r.Encoding(); name != "" && !strings.EqualFold(name, "UTF-8") {
		r.found.Advisef("AP-DOC-11", "root", "in %s, not in UTF-8", name)
	}
	for {
		m, err := r.Next()
		switch {
		case err != nil:
			return err
		case m == xmlscan.End:
			r.end()
			_, err := r.Next() // content after the root
			return err
		}
		if err := r.child(); err != nil {
			return err
		}
		if r.doc.entries%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// otherRoot reports a document whose root is not that of a feed.
func (r *reader) otherRoot() error {
	switch name := string(r.Local); {
	case r.Space == inAtom && name == "entry":
		return r.Errorf("this is one entry of Atom, not a feed")
	case name == "rss", name == "RDF":
		return r.Errorf("the root is %s: this may be RSS, but is no feed of Atom", name)
	case name == "feed":
		return r.Errorf("the root is feed, but not in the namespace %s", atompmh.Namespace)
	default:
		return r.Errorf("the root is %s, not feed: this is no feed of Atom", finding.Printable(name))
	}
}

// child reads a child of the feed (RFC 4287, 4.1.1).
func (r *reader) child() (err error) {
	d, name, at := r.doc, string(r.Local), r.here()
	switch r.Space {
	case inHistory:
		switch name {
		case "archive":
			d.archive = true
		case "complete":
			d.complete = true
		default:
			r.found.Warnf("AP-CMP-01", at, "the namespace of feed history has no element %s", name)
		}
		return r.Skip()
	case inTombstones:
		if name == "deleted-entry" {
			return r.tombstone(at)
		}
		return r.Skip()
	case inAtom:
	default:
		return r.Skip() // an extension
	}
	r.counts[name]++
	switch name {
	case "entry":
		d.entries++
		if !r.counted {
			r.walk.visitor.Collector.Report.Entries++
		}
		return (&entryReader{reader: r, at: at, base: d.base, n: d.entries, counts: map[string]int{}, links: map[[2]string]bool{}}).read()
	case "id":
		d.id, err = r.iri(at)
		return err
	case "updated":
		d.updated, err = r.date(at)
		return err
	case "link":
		l, err := r.link(d.base, at)
		r.takeLink(l, at)
		return err
	case "author":
		r.author = true
	}
	return r.common(name, at, "feed")
}

// common reads a child that feeds and entries share.
func (r *reader) common(name, at, in string) error {
	switch name {
	case "author", "contributor":
		return r.person(name, at)
	case "title", "subtitle", "rights", "summary":
		return r.text(name, at)
	case "category":
		if _, ok := r.Attr("term"); !ok {
			r.found.Errorf("AP-DOC-01", at, "category without term")
		}
	case "generator", "icon", "logo", "published", "source":
	default:
		r.found.Errorf("AP-DOC-01", at, "Atom has no element %s in %s", finding.Printable(name), in)
	}
	return r.Skip()
}

// end performs the checks at the end of the feed.
func (r *reader) end() {
	d := r.doc
	for _, name := range []string{"id", "title", "updated"} {
		if n := r.counts[name]; n != 1 {
			r.found.Errorf("AP-DOC-02", "root", "the feed has %s", finding.NotOne(n, name))
		}
	}
	for _, name := range []string{"generator", "icon", "logo", "rights", "subtitle"} {
		if n := r.counts[name]; n > 1 {
			r.found.Errorf("AP-DOC-01", "root", "the feed has %s", finding.NotOne(n, name))
		}
	}
	if !r.author && r.bare != "" {
		r.found.Warnf("AP-DOC-02", "root", "neither the feed nor the entry at %s has an author", r.bare)
	}
	switch {
	case d.self == "":
		r.found.Warnf("AP-DOC-03", "root", "no link self")
	case elsewhere(d.self, d.uri, d.final):
		r.found.Warnf("AP-DOC-03", "root", "the link self leads to %s", d.self)
	}
	if !d.updated.IsZero() && d.newest.After(d.updated) {
		r.found.Errorf("AP-TS-01", d.newestAt, "(I1) the entry is of %s, later than its feed, which is of %s", stamp(d.newest), stamp(d.updated))
	}
	if d.newest.After(r.walk.visitor.Settings.Now().Add(visit.ClockSkew)) {
		r.found.Advisef("AP-TS-11", d.newestAt, "the entry is of %s, which is still to come: what changes until then looks older", stamp(d.newest))
	}
	if d.newest.Before(d.updated) && d.entries > 0 && !d.newest.IsZero() && !d.complete { // a deletion changes a complete feed
		r.found.Advisef("AP-TS-13", "root", "the feed is of %s, its newest entry of %s", stamp(d.updated), stamp(d.newest))
	}
	if d.complete && d.prev != "" {
		r.found.Advisef("AP-CMP-03", "root", "a feed that is complete has no archive, but prev-archive leads to %s", d.prev)
	}
	if d.complete && d.deletionAt != "" {
		r.found.Warnf("AP-DEL-02", d.deletionAt, "a deletion entry in a document that is complete: what is not in it is deleted anyway")
	}
	if d.tombstoneAt != "" {
		r.found.Advisef("AP-CLS-05", d.tombstoneAt, "a tombstone, where harvesters look for an entry with empty content")
	}
	if d.paged != "" && d.prev == "" && d.next == "" {
		r.found.Errorf("AP-TS-10", "root", "link %s, but no prev-archive: harvesters do not follow paged feeds", d.paged)
	}
}

// takeLink handles a link of the feed.
func (r *reader) takeLink(l link, at string) {
	d := r.doc
	take := func(to *string) {
		if *to == "" {
			*to = l.href
		}
	}
	switch l.rel {
	case "self":
		take(&d.self)
	case "current":
		take(&d.current)
	case "prev-archive":
		take(&d.prev)
	case "next-archive":
		take(&d.next)
	case "next", "previous", "first", "last":
		d.paged = l.rel
	case "alternate":
		r.once(r.links, l, at)
	}
}

// once checks that an alternate is the only one of its type and language.
func (r *reader) once(links map[[2]string]bool, l link, at string) {
	key := [2]string{strings.ToLower(l.media), strings.ToLower(l.lang)}
	if links[key] {
		r.found.Warnf("AP-DOC-07", at, "another alternate link of type %q and language %q", l.media, l.lang)
	}
	links[key] = true
}

// tombstone reads a deletion according to RFC 6721.
func (r *reader) tombstone(at string) error {
	if r.doc.tombstoneAt == "" {
		r.doc.tombstoneAt = at
	}
	ref, _ := r.Attr("ref")
	when, _ := r.Attr("when")
	if t, ok := parseDate(string(when)); ok && len(ref) > 0 {
		if err := r.walk.addEntry(r.number, r.doc.entries, tally.Deletion, string(ref), t, ""); err != nil {
			return err
		}
	}
	return r.Skip()
}
