package atompmh

import (
	"bytes"
	"net/url"
	"strings"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

// link reads the current link element into the draft, and reports whether it is
// usable. A link without an address is skipped.
func (r *Reader) link(base *url.URL) bool {
	d := &r.draft
	var l draftLink
	var rel, href, ref, title []byte
	hasRel, hasRef := false, false
	for i := range r.s.Attrs {
		a := &r.s.Attrs[i]
		if a.Prefix != nil {
			if a.Space == xmlscan.XML && string(a.Local) == "base" {
				base = r.baseOf(base)
			}
			continue
		}
		switch string(a.Local) {
		case "rel":
			rel, hasRel = a.Value, true
		case "href":
			href = a.Value
		case "type":
			l.Type = r.strings.Get(xmlscan.Trim(a.Value))
		case "hreflang":
			l.Hreflang = r.strings.Get(xmlscan.Trim(a.Value))
		case "title":
			title = xmlscan.Trim(a.Value)
		case "length":
			l.Length = r.length(xmlscan.Trim(a.Value))
		case "ref":
			ref, hasRef = a.Value, true
		}
	}
	if !hasRel && hasRef { // AP-AMB-04: the draft sometimes uses this name
		r.warn("AP-AMB-04", "attribute ref of a link, which is called rel")
		rel = ref
	}
	l.Rel = r.relation(rel, hasRel || hasRef)
	if len(d.links) == maxLinks {
		r.warn("AP-DOC-01", "too many links in one entry; the rest is ignored")
		return false
	}
	var ok bool
	if l.href, ok = r.href(href, base); !ok {
		if l.Rel == RelAlternate {
			d.broken++
		}
		return false
	}
	l.title = d.keep(title)
	if l.Rel == RelAlternate {
		d.alternates++
		if l.Type == "" {
			r.warnAlternate()
		}
	}
	d.links = append(d.links, l)
	d.shared += len(l.Rel) + len(l.Type) + len(l.Hreflang)
	return true
}

// warnAlternate warns of an alternate link of an entry without a type.
func (r *Reader) warnAlternate() {
	if r.s.Depth() == 3 { // feed, entry, link
		r.warn("AP-ACT-05", "an alternate link without a media type")
	}
}

// relation returns a relation in its usual spelling; a missing one means
// alternate (RFC 4287, 4.2.7.2).
func (r *Reader) relation(rel []byte, stated bool) string {
	rel = xmlscan.Trim(rel)
	if len(rel) == 0 {
		if stated {
			r.warn("AP-DOC-01", "a link with an empty relation, taken as alternate")
		}
		return RelAlternate
	}
	name := r.strings.Get(rel)
	usual := usualRelation(name)
	if usual != name {
		r.warn("AP-DOC-01", "relation \""+xmlscan.Clip(name)+"\", which is spelt "+xmlscan.Clip(usual))
	}
	return usual
}

// usualRelation returns rel as it is usually written: registered relations by
// their names, in lower case.
func usualRelation(rel string) string {
	if rel == RelAlternate {
		return rel // the usual one
	}
	const registry = "http://www.iana.org/assignments/relation/"
	rel = strings.TrimPrefix(rel, registry)
	for i := range len(rel) {
		if rel[i] == ':' {
			return rel
		}
	}
	return strings.ToLower(rel)
}

// length returns the hint to the size of a link's target.
func (r *Reader) length(v []byte) int64 {
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' || n > 1<<58 {
			r.warn("AP-DOC-01", "length \""+xmlscan.Clip(string(v))+"\" of a link, ignored")
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// href stores the URI that v means relative to base (AP-DOC-12).
func (r *Reader) href(v []byte, base *url.URL) (span, bool) {
	v = xmlscan.Trim(v)
	if len(v) == 0 {
		r.warn("AP-DOC-01", "a link without an address, ignored")
		return span{}, false
	}
	if iri.HasScheme(v) {
		v, ok := r.withoutUser(v)
		if !ok {
			r.warn("AP-DOC-12", "a link to an address that has a port that is no number, or a password with /, ? or #, ignored")
			return span{}, false
		}
		return r.draft.keep(iri.Encode(v)), true
	}
	reason := "whose own address is not known"
	if base != nil {
		u, err := base.Parse(string(v))
		switch {
		case err != nil:
			reason = "that is no address"
		case !u.IsAbs():
			reason = "without an absolute address to resolve it against"
		default:
			v, _ = r.withoutUser([]byte(u.String()))
			return r.draft.keep(iri.Encode(v)), true
		}
	}
	r.warn("AP-DOC-12", "a link to \""+shown(string(v))+"\" in a document "+reason+", ignored")
	return span{}, false
}

// withoutUser removes user name and password from an address, so that they
// appear neither in file names nor in messages; ok is false if the address is
// malformed, and where they end is not certain.
func (r *Reader) withoutUser(v []byte) (_ []byte, ok bool) {
	if bytes.IndexByte(v, '@') < 0 { // as nearly always
		return v, true
	}
	ok = !iri.UserUnclear(v)
	v, had := iri.WithoutUser(v)
	if had && ok {
		r.warn("AP-DOC-12", "a link with a user name or password, which is ignored")
	}
	return v, ok
}

// shown returns an address for a message.
func shown(address string) string {
	address, _ = iri.WithoutUser(address)
	return xmlscan.Clip(address)
}

// baseOf returns the base URI of the current element: base, or what its
// xml:base makes of it (AP-DOC-12).
func (r *Reader) baseOf(base *url.URL) *url.URL {
	for i := range r.s.Attrs {
		a := &r.s.Attrs[i]
		if a.Space != xmlscan.XML || string(a.Local) != "base" {
			continue
		}
		ref := string(iri.Encode(xmlscan.Trim(a.Value)))
		var u *url.URL
		var err error
		if base == nil {
			u, err = url.Parse(ref)
		} else {
			u, err = base.Parse(ref)
		}
		if err != nil {
			r.warn("AP-DOC-12", "xml:base \""+shown(ref)+"\" is no URI, ignored")
			return base
		}
		return u
	}
	return base
}
