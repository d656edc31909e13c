package validate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"lockstep/internal/xmlscan"
)

// The namespaces of a feed that are told apart, by their number as a
// [xmlscan.Space].
const (
	inAtom xmlscan.Space = iota + 1
	inHistory
	inTombstones
)

var feedSpaces = []string{"http://www.w3.org/2005/Atom", "http://purl.org/syndication/history/1.0", "http://purl.org/atompub/tombstones/1.0"}

// A feedDoc is a feed document that was read.
type feedDoc struct {
	uri, final, base        string
	id, self                string
	current, prev, next     string
	archive, complete       bool
	paged                   string // relation of a link of paged feeds, if there is one
	updated                 time.Time
	entries                 int
	oldest, newest          time.Time // of the entries
	oldestAt, newestAt      string
	deletionAt, tombstoneAt string // the first ones
	etag                    string
	sum                     [sha256.Size]byte
	whole                   bool // it could be read to its end
	isFeed                  bool
}

// named reports whether uri is the document's: by it it was asked for, answered,
// or calls itself.
func (d *feedDoc) named(uri string) bool { return uri == d.uri || uri == d.final || uri == d.self }

// A feedReader reads one feed document and checks what it shows by itself.
type feedReader struct {
	xmlscan.Scanner
	place
	walk   *feedWalk
	doc    *feedDoc
	number int // of the document in the tally
	counts map[string]int
	links  map[[2]string]bool // of alternates, by type and language
	author bool               // the feed has one
	bare   string             // the first entry without
}

// rejected is why a document is no feed.
var (
	errNoFeed = errors.New("the root is no feed of Atom")
	errPage   = errors.New("this is an HTML page")
	errNoXML  = errors.New("this is no XML")
)

// read reads a feed document. The error is that of reading, not of what was
// read.
func (w *feedWalk) read(src *source) (*feedDoc, error) {
	body := &faithful{r: src.Reader, sum: sha256.New()}
	doc := &feedDoc{uri: src.uri, final: src.final, base: src.final}
	r := &feedReader{place: place{w.collector, src.uri}, walk: w, doc: doc, counts: map[string]int{}, links: map[[2]string]bool{}}
	r.Scanner = xmlscan.New(body, xmlscan.Options{Namespaces: feedSpaces, MaxBytes: w.opts.DocumentBytes, HTML: errPage, NotDocument: errNoXML})
	err := r.root()
	if w.ctx.Err() != nil {
		return nil, context.Cause(w.ctx)
	}
	if _, ok := errors.AsType[*keepError](err); ok {
		return nil, err
	}
	if err != nil && body.err != nil {
		return nil, fmt.Errorf("read %s: %w", printable(src.uri), body.err)
	}
	if err != nil {
		location := ""
		if syntax, ok := errors.AsType[*xmlscan.SyntaxError](err); ok {
			location, err = position(syntax.Line, syntax.Column), syntax.Err
		}
		rule := "AP-DOC-01"
		if strings.Contains(err.Error(), "document type") {
			rule = "AP-DOC-11"
		}
		r.errorf(rule, location, "cannot be read: %v", err)
	}
	doc.whole = err == nil
	w.count(doc.uri)
	_, _ = io.Copy(io.Discard, io.LimitReader(body, drain)) // what stands behind the root is white space
	copy(doc.sum[:], body.sum.Sum(nil))
	return doc, nil
}

// here is the place the reader is at.
func (r *feedReader) here() string { return position(r.Position()) }

// root reads the document.
func (r *feedReader) root() error {
	m, err := r.Next()
	if err != nil {
		return err
	}
	if m != xmlscan.Start || r.Space != inAtom || string(r.Local) != "feed" {
		return r.Errorf("%w", errNoFeed)
	}
	r.doc.isFeed = true
	r.number = r.walk.tally.begin(r.doc.uri)
	r.rebase(&r.doc.base)
	if name, _ := r.Encoding(); name != "" && !strings.EqualFold(name, "UTF-8") {
		r.errorf("AP-DOC-11", "root", "in %s, not in UTF-8", name)
	}
	for {
		m, err := r.Next()
		switch {
		case err != nil:
			return err
		case m == xmlscan.End:
			r.end()
			_, err := r.Next() // what stands behind the root
			return err
		}
		if err := r.child(); err != nil {
			return err
		}
		if r.doc.entries%1024 == 0 && r.walk.ctx.Err() != nil {
			return r.walk.ctx.Err()
		}
	}
}

// child reads a child of the feed (RFC 4287, 4.1.1).
func (r *feedReader) child() (err error) {
	d, name, at := r.doc, string(r.Local), r.here()
	switch r.Space {
	case inHistory:
		switch name {
		case "archive":
			d.archive = true
		case "complete":
			d.complete = true
		default:
			r.warnf("AP-CMP-01", at, "the namespace of feed history has no element %s", name)
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
		r.walk.report.Entries++
		return (&entryReader{feedReader: r, at: at, base: d.base, n: d.entries, counts: map[string]int{}, links: map[[2]string]bool{}}).read()
	case "id":
		d.id, err = r.iri(at)
		return err
	case "updated":
		d.updated, err = r.date(at)
		return err
	case "link":
		l, err := r.link(d.base, at)
		r.feedLink(l, at)
		return err
	case "author":
		r.author = true
	}
	return r.common(name, at, "feed")
}

// common reads a child that feeds and entries may have.
func (r *feedReader) common(name, at, in string) error {
	switch name {
	case "author", "contributor":
		return r.person(name, at)
	case "title", "subtitle", "rights", "summary":
		return r.text(name, at)
	case "category":
		if _, ok := r.Attr("term"); !ok {
			r.errorf("AP-DOC-01", at, "category without term")
		}
	case "generator", "icon", "logo", "published", "source":
	default:
		r.errorf("AP-DOC-01", at, "Atom has no element %s in %s", printable(name), in)
	}
	return r.Skip()
}

// end checks what is known at the end of the feed.
func (r *feedReader) end() {
	d := r.doc
	for _, name := range []string{"id", "title", "updated"} {
		if n := r.counts[name]; n != 1 {
			r.errorf("AP-DOC-02", "root", "the feed has %s, not one", quantity(n, name))
		}
	}
	for _, name := range []string{"generator", "icon", "logo", "rights", "subtitle"} {
		if n := r.counts[name]; n > 1 {
			r.errorf("AP-DOC-01", "root", "the feed has %s", quantity(n, name))
		}
	}
	if !r.author && r.bare != "" {
		r.errorf("AP-DOC-02", "root", "neither the feed nor the entry at %s has an author", r.bare)
	}
	if d.self == "" {
		r.warnf("AP-DOC-03", "root", "no link self")
	}
	if !d.updated.IsZero() && d.newest.After(d.updated) {
		r.errorf("AP-TS-01", d.newestAt, "(I1) the entry is of %s, later than its feed, which is of %s", stamp(d.newest), stamp(d.updated))
	}
	if d.newest.Before(d.updated) && d.entries > 0 && !d.newest.IsZero() {
		r.errorf("AP-TS-13", "root", "the feed is of %s, its newest entry of %s", stamp(d.updated), stamp(d.newest))
	}
	if d.complete && d.prev != "" {
		r.errorf("AP-CMP-03", "root", "a feed that is complete has no archive, but prev-archive leads to %s", d.prev)
	}
	if d.complete && d.deletionAt != "" {
		r.warnf("AP-DEL-02", d.deletionAt, "a deletion entry in a document that is complete: what is not in it is deleted anyway")
	}
	if d.tombstoneAt != "" {
		r.warnf("AP-CLS-05", d.tombstoneAt, "a tombstone, where harvesters look for an entry with empty content")
	}
	if d.paged != "" && d.prev == "" && d.next == "" {
		r.errorf("AP-TS-10", "root", "link %s, but no prev-archive: harvesters do not follow paged feeds", d.paged)
	}
}

// feedLink takes a link of the feed.
func (r *feedReader) feedLink(l feedLink, at string) {
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
func (r *feedReader) once(links map[[2]string]bool, l feedLink, at string) {
	key := [2]string{strings.ToLower(l.media), strings.ToLower(l.lang)}
	if links[key] {
		r.errorf("AP-DOC-07", at, "another alternate link of type %q and language %q", l.media, l.lang)
	}
	links[key] = true
}

// tombstone takes a deletion by RFC 6721.
func (r *feedReader) tombstone(at string) error {
	if r.doc.tombstoneAt == "" {
		r.doc.tombstoneAt = at
	}
	ref, _ := r.Attr("ref")
	when, _ := r.Attr("when")
	if t, ok := parseDate(string(when)); ok && len(ref) > 0 {
		if err := r.walk.tally.addEntry(r.number, r.doc.entries, deletionTold, string(ref), t, ""); err != nil {
			return err
		}
	}
	return r.Skip()
}

// A feedLink is a link of Atom.
type feedLink struct{ rel, href, media, lang string }

// ianaRelation is how a registered relation may be written in full (RFC 4287,
// 4.2.7.2).
const ianaRelation = "http://www.iana.org/assignments/relation/"

var mediaType = regexp.MustCompile(`^[\w!#$&^.+-]+/[\w!#$&^.+-]+\s*(;.*)?$`)

// link reads the link at hand; its href is resolved (AP-DOC-12).
func (r *feedReader) link(base, at string) (feedLink, error) {
	r.rebase(&base)
	l := feedLink{rel: "alternate"}
	for _, a := range []struct {
		name string
		to   *string
	}{{"rel", &l.rel}, {"href", &l.href}, {"type", &l.media}, {"hreflang", &l.lang}} {
		if v, ok := r.Attr(a.name); ok {
			*a.to = string(v)
		}
	}
	l.rel = strings.TrimPrefix(l.rel, ianaRelation)
	if rel := strings.ToLower(l.rel); !strings.Contains(rel, ":") {
		l.rel = rel
	}
	if _, ok := r.Attr("href"); !ok {
		r.errorf("AP-DOC-01", at, "link without href")
	} else if to := resolveFrom(base, l.href); to == "" || strings.ContainsAny(l.href, " \t\r\n") {
		r.errorf("AP-DOC-01", at, "href %q is no IRI", printable(l.href))
	} else {
		l.href = to
	}
	if l.rel == "" {
		r.errorf("AP-DOC-01", at, "rel is empty")
	}
	if l.media != "" && !mediaType.MatchString(l.media) {
		r.errorf("AP-DOC-01", at, "type %q is no media type", printable(l.media))
	}
	return l, r.Skip()
}

// resolveFrom is resolve that leaves a reference as it is where it is not known
// what it is relative to, as in a file.
func resolveFrom(base, ref string) string {
	if to := resolve(base, ref); to != "" {
		return to
	}
	if b, err := url.Parse(base); err == nil && b.IsAbs() {
		return ""
	}
	u, err := url.Parse(ref)
	if err != nil {
		return ""
	}
	return u.String()
}

// rebase applies xml:base of the tag at hand.
func (r *feedReader) rebase(base *string) {
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Space == xmlscan.XML && string(a.Local) == "base" {
			if to := resolveFrom(*base, string(a.Value)); to != "" {
				*base = to
			}
		}
	}
}

// person reads an author or contributor (RFC 4287, 3.2).
func (r *feedReader) person(name, at string) error {
	names := 0
	for {
		m, err := r.Next()
		switch {
		case err != nil:
			return err
		case m == xmlscan.End:
			if names != 1 {
				r.errorf("AP-DOC-01", at, "%s has %s, not one", name, quantity(names, "name"))
			}
			return nil
		}
		if r.Space == inAtom && string(r.Local) == "name" {
			names++
		}
		if err := r.Skip(); err != nil {
			return err
		}
	}
}

// text reads a text (RFC 4287, 3.1).
func (r *feedReader) text(name, at string) error {
	if t, ok := r.Attr("type"); ok {
		switch string(t) {
		case "text", "html", "xhtml":
		default:
			r.errorf("AP-DOC-01", at, "type of %s is %q, not text, html or xhtml", name, printable(string(t)))
		}
	}
	return r.Skip()
}

var absoluteIRI = regexp.MustCompile("^[A-Za-z][A-Za-z0-9+.-]*:[^\\s<>\"{}|\\\\^`]+$")

// iri reads an id.
func (r *feedReader) iri(at string) (string, error) {
	text, raw, err := r.Text()
	if err != nil {
		return "", err
	}
	id := string(text)
	switch {
	case !absoluteIRI.MatchString(id):
		r.errorf("AP-DOC-09", at, "id %q is no absolute IRI", printable(id))
	case len(raw) != len(text):
		r.errorf("AP-DOC-09", at, "id %s has white space around it", printable(id))
	}
	return id, nil
}

// date reads a time; zero if it is illegible.
func (r *feedReader) date(at string) (time.Time, error) {
	text, raw, err := r.Text()
	if err != nil {
		return time.Time{}, err
	}
	t, ok := parseDate(string(text))
	switch {
	case !ok:
		r.errorf("AP-DOC-08", at, "%q is no time by RFC 3339 with T, and Z or an offset", printable(string(text)))
	case len(raw) != len(text):
		r.errorf("AP-DOC-08", at, "%s has white space around it", printable(string(text)))
	}
	return t, nil
}

var dateForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// parseDate reads a time as Atom has it (AP-DOC-08).
func parseDate(s string) (time.Time, bool) {
	if !dateForm.MatchString(s) {
		return time.Time{}, false
	}
	if s[17:19] == "60" { // a leap second, for which there is no time of Go
		s = s[:17] + "59" + s[19:]
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// quantity returns a number and what it counts: "no title", "2 titles".
func quantity(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d of %s", n, what)
}

// feedHeaders looks at how a feed document is served.
func (w *feedWalk) feedHeaders(doc *feedDoc, h http.Header) {
	if h == nil {
		return
	}
	doc.etag = h.Get("ETag")
	p := place{w.collector, doc.uri}
	switch t := baseType(h.Get("Content-Type")); t {
	case "application/atom+xml":
	case "", "application/xml", "text/xml":
		p.warnf("AP-DOC-11", "Content-Type", "served as %q, not as application/atom+xml", t)
	default:
		p.errorf("AP-DOC-11", "Content-Type", "served as %q, not as application/atom+xml", t)
	}
	feedValidators(p, h)
}

// feedValidators is validators for what a feed names.
func feedValidators(p place, h http.Header) {
	for _, name := range []string{"ETag", "Last-Modified"} {
		if h.Get(name) == "" {
			p.warnf("AP-HTTP-01", name, "the answer has no %s", name)
		}
	}
}
