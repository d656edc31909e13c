package resourcesync

import (
	"bytes"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/digest"
	"lockstep/resourcesync/internal/lexical"
	"lockstep/resourcesync/internal/schema"
)

// A span is a piece of a draft's text.
type span struct{ from, to int32 }

// A draft is the state of the current entry. Its texts are collected in one
// buffer, so that a finished entry costs one string, of which its fields are
// slices.
type draft struct {
	text   []byte
	shared int // bytes of its strings that are not in text
	loc    span
	path   span
	etag   span
	hashes []draftHash
	links  []draftLink
	seen   schema.Item // items that its rs:md states
	has    schema.Item // items that it has
	md     int         // elements rs:md
	last   rank        // rank of the last child so far
	bad    bool        // the entry is unusable
	hasLoc bool
	noLoc  string // what is wrong with its loc: the document is then incomplete

	modified Datetime // before 0.9
}

// A draftHash is a digest, of the entry (owner -1) or of one of its links.
type draftHash struct {
	algorithm digest.Algorithm
	owner     int32
	digest    span
}

// A draftLink is a link whose texts have not been sliced yet.
type draftLink struct {
	Link
	href, path span
}

func (d *draft) reset() {
	*d = draft{text: d.text[:0], hashes: d.hashes[:0], links: d.links[:0]}
}

// keep appends b to the draft's text.
func (d *draft) keep(b []byte) span {
	from := len(d.text)
	d.text = append(d.text, b...)
	return span{int32(from), int32(len(d.text))}
}

// size returns the number of bytes of all texts.
func (d *draft) size() int { return len(d.text) + d.shared }

// share returns b as a string of in, which other entries may share, and counts it.
func (d *draft) share(in *xmlscan.Interner, b []byte) string {
	d.shared += len(b)
	return in.Get(b)
}

// entry reads the entry whose start tag was just read. It reports whether the
// entry is usable; a document remains readable if some are not.
func (r *Reader) entry(e *Entry) (ok bool, err error) {
	*e = Entry{}
	d := &r.draft
	d.reset()
	r.foreign.Reset(MaxForeign)
	foreign := !r.inSitemap()
	if r.opts.Exact && !foreign {
		r.exactAttributes()
	}
	for {
		m, err := r.s.Next()
		if err != nil {
			return false, err
		}
		exactText(r)
		if m == xmlscan.End {
			break
		}
		name := r.s.Local
		switch {
		case r.inSitemap():
			err = r.sitemapChild(e, name)
		case r.isRS(r.s.Space):
			err = r.rsChild(e, name)
		default:
			err = foreignElement(r)
		}
		if err != nil {
			return false, err
		}
		r.s.PassedText() // discard the text of the child element
		if d.size() > maxEntryText {
			return false, r.s.Errorf("%w: an entry with more than %d bytes", ErrLimit, maxEntryText)
		}
	}
	switch {
	case !d.hasLoc && foreign:
		r.note("RS-XML-07", "an entry that is not in the namespace of Sitemaps and has no loc in it, skipped")
		r.lost("an entry that is not in the namespace of Sitemaps", e.Datetime)
		return false, nil
	case !d.hasLoc:
		r.warn("RS-XML-09", "an entry without loc, skipped")
		r.lost("an entry without loc", e.Datetime)
		return false, nil
	case d.noLoc != "":
		r.lost(d.noLoc, e.Datetime)
	}
	if d.bad {
		return false, nil
	}
	r.normalizeEntry(e)
	if d.bad {
		return false, nil
	}
	r.finish(e)
	return true, nil
}

// A rank is the position of a child in an entry (RS-XML-03).
type rank uint8

const (
	rankLoc rank = iota + 1
	rankLastmod
	rankChangeFreq
	rankMetadata
	rankLink
)

// comes records the next child of an entry, and warns if it is out of order.
func (r *Reader) comes(k rank) {
	switch last := r.draft.last; {
	case k >= last:
	case last <= rankChangeFreq:
		r.rootWarn("RS-XML-03", "loc, lastmod and changefreq in another order than that of the schema")
	default:
		r.rootWarn("RS-XML-03", "elements of ResourceSync in front of those of Sitemaps, or rs:ln in front of rs:md")
	}
	r.draft.last = k
}

// sitemapChild reads a child in the Sitemap namespace.
func (r *Reader) sitemapChild(e *Entry, name []byte) error {
	switch string(name) {
	case "loc":
		r.comes(rankLoc)
		text, err := r.textOf()
		if err == nil {
			r.loc(text)
		}
		return err
	case "lastmod":
		r.comes(rankLastmod)
		if len(r.s.Attrs) > 0 {
			r.alphaChange(e)
		}
		text, err := r.textOf()
		if err != nil {
			return err
		}
		if len(text) == 0 {
			r.exactEmpty("RS-DT-02", "lastmod")
			return nil
		}
		d, ok := r.datetime(text, "lastmod")
		switch {
		case !ok:
		case r.draft.has&schema.ItemLastmod != 0:
			r.warn("RS-XML-09", "a second lastmod, ignored")
		default:
			e.Lastmod = d
			r.draft.has |= schema.ItemLastmod
		}
		return nil
	case "changefreq":
		r.comes(rankChangeFreq)
		text, err := r.textOf()
		switch {
		case err != nil:
			return err
		case len(text) == 0:
			r.exactEmpty("RS-XML-14", "changefreq")
		case !lexical.ChangeFreq(text):
			r.warn("RS-XML-14", "changefreq is none of the seven words, ignored")
		case e.ChangeFreq == "":
			e.ChangeFreq = r.strings.Get(text)
			r.draft.has |= schema.ItemChangeFreq
		}
		return nil
	case "expires":
		return r.alphaExpires(e)
	case "url", "sitemap":
		r.note("RS-XML-09", "an entry within another one, skipped")
		r.lost("an entry within another one", Datetime{})
	default:
		exactElement(r)
	}
	return r.skip()
}

// rsChild reads a child in the ResourceSync namespace.
func (r *Reader) rsChild(e *Entry, name []byte) error {
	switch string(name) {
	case "md":
		r.comes(rankMetadata)
		r.draft.md++
		if r.draft.md == 2 {
			r.warn("RS-XML-05", "more than one rs:md in an entry, taken together")
		}
		r.metadata(&e.Metadata, false)
	case "ln":
		r.comes(rankLink)
		r.link()
	case "fixity":
		return r.alphaFixity()
	case "size", "md5":
		return r.alphaText(e, string(name))
	default:
		exactElement(r)
	}
	return r.skip()
}

// loc reads the text of loc (RS-XML-09).
func (r *Reader) loc(text []byte) {
	d := &r.draft
	switch {
	case len(text) == 0:
		return
	case d.hasLoc:
		if bytes.Equal(text, d.text[d.loc.from:d.loc.to]) {
			r.warn("RS-XML-09", "loc twice in an entry")
			return
		}
		r.warn("RS-XML-09", "an entry with two different locs, skipped")
		d.bad, d.noLoc = true, "an entry with two different locs"
		return
	}
	d.hasLoc = true
	if r.root.manifests && text[0] == '/' { // RS-RDM-06: a path in the package
		d.loc = d.keep(text)
		if p, ok := r.path(text); ok && d.path == (span{}) {
			d.path = p
		}
		return
	}
	if lexical.PlainURL(text) {
		r.exactLoc(text)
		d.loc = d.keep(text)
		return
	}
	text, ok := r.withoutUser(text, "RS-XML-09", "loc")
	if !ok {
		r.badLoc(text, unclear)
		return
	}
	if !iri.HasScheme(text) {
		if !lexical.RelativeURI(text) {
			r.badLoc(text, "is not a URI")
			return
		}
		abs, err := r.resolve(string(text))
		if err != nil {
			r.badLoc(text, "is "+err.Error())
			return
		}
		r.warn("RS-XML-09", "loc is a relative URI")
		d.loc = d.keep([]byte(abs))
		return
	}
	uri := text
	if !iri.Plain(text) {
		r.warn("RS-AMB-24", "loc has characters that a URI has not")
		uri = iri.Encode(text)
	}
	if !lexical.Requestable(uri) {
		r.badLoc(text, "is not a URI")
		return
	}
	r.exactLoc(text)
	d.loc = d.keep(uri)
}

// badLoc records that the current entry is unusable because of its loc.
func (r *Reader) badLoc(text []byte, what string) {
	r.warn("RS-XML-09", "loc \""+xmlscan.Clip(string(text))+"\" "+what+"; the entry is skipped")
	r.draft.bad = true
	r.draft.noLoc = "loc \"" + xmlscan.Clip(string(text)) + "\" " + what
}

// finish slices the texts of the entry.
func (r *Reader) finish(e *Entry) {
	d := &r.draft
	text := string(d.text)
	e.Loc = text[d.loc.from:d.loc.to]
	e.Path = text[d.path.from:d.path.to]
	e.ETag = text[d.etag.from:d.etag.to]
	e.Hashes = r.cutHashes(text, -1)
	e.Foreign = foreignOf(&r.foreign)
	if len(d.links) == 0 {
		return
	}
	links := make([]Link, 0, len(d.links))
	for i := range d.links {
		l := &d.links[i]
		if l.Rel != "" {
			links = append(links, l.cut(r, text, int32(i)))
		}
	}
	if len(links) > 0 {
		e.Links = links
	}
}

// cut returns the finished link.
func (l *draftLink) cut(r *Reader, text string, owner int32) Link {
	out := l.Link
	out.Href = text[l.href.from:l.href.to]
	out.Path = text[l.path.from:l.path.to]
	out.Hashes = r.cutHashes(text, owner)
	return out
}

// cutHashes returns the hashes of the entry or one of its links. They are
// slices of a chunk shared by a few dozen entries.
func (r *Reader) cutHashes(text string, owner int32) Hashes {
	const chunk = 64
	if cap(r.hashes)-len(r.hashes) < len(r.draft.hashes) {
		r.hashes = make([]Hash, 0, max(chunk, len(r.draft.hashes)))
	}
	from := len(r.hashes)
	for i := range r.draft.hashes {
		if h := &r.draft.hashes[i]; h.owner == owner && h.algorithm != 0 {
			r.hashes = append(r.hashes, Hash{Algorithm(h.algorithm), text[h.digest.from:h.digest.to]})
		}
	}
	to := len(r.hashes)
	if from == to {
		return nil
	}
	return r.hashes[from:to:to]
}

// textOf reads the text of the element whose start tag was just read, up to its
// end, without surrounding white space. The result is valid until the next
// call.
func (r *Reader) textOf() ([]byte, error) {
	text, raw, err := r.s.Text()
	r.blanks = len(raw) - len(text)
	return text, err
}
