package resourcesync

import (
	"bytes"
	"strings"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/schema"
)

// rootMetadata reads the rs:md of the root.
func (r *Reader) rootMetadata() {
	in := &r.root
	if in.seenMD {
		r.warn("RS-XML-05", "more than one rs:md at the root, taken together")
	}
	in.seenMD = true
	r.draft.reset()
	r.metadata(&in.times, true)
	if in.capability == "" {
		in.capability = string(in.times.Capability)
	}
	if in.modified.IsZero() {
		in.modified = r.draft.modified
	}
	const known = schema.ItemCapability | schema.ItemAt | schema.ItemCompleted | schema.ItemFrom | schema.ItemUntil | schema.ItemModified
	for i := range (in.has &^ known).Each() {
		r.rootWarn("RS-MD-12", i.String()+" at the root, ignored")
	}
}

// rootLink reads an rs:ln of the root.
func (r *Reader) rootLink() error {
	r.draft.reset()
	r.foreign.Reset(MaxForeign)
	r.link()
	if len(r.root.links) < maxLinks {
		r.root.text += r.draft.size()
	}
	if r.root.text > maxEntryText {
		return r.s.Errorf("%w: a root with links of more than %d bytes", ErrLimit, maxEntryText)
	}
	text := string(r.draft.text)
	for i := range r.draft.links {
		if len(r.root.links) == maxLinks {
			r.warn("RS-LN-01", "too many links at the root; the rest is ignored")
			break
		}
		r.root.links = append(r.root.links, r.draft.links[i].cut(r, text, int32(i)))
	}
	return nil
}

// rootMeta reads an xhtml:meta, which held the time of the document in the
// alpha version (RS-VER-15).
func (r *Reader) rootMeta() {
	var name, content []byte
	for i := range r.s.Attrs {
		switch a := &r.s.Attrs[i]; string(a.Local) {
		case "name":
			name = a.Value
		case "content":
			content = a.Value
		}
	}
	if !strings.EqualFold(string(name), "DCTERMS.modified") || !r.root.modified.IsZero() {
		return
	}
	r.warn("RS-VER-15", "xhtml:meta with the time of the document")
	r.dialect(dialectAlpha)
	if d, ok := r.datetime(content, "DCTERMS.modified"); ok {
		r.root.modified = d
		r.root.has |= schema.ItemModified
	}
}

// link reads the current rs:ln: one link for each of its relations. A link
// without a required attribute is skipped, and the entry remains usable
// (RS-LN-01).
func (r *Reader) link() {
	d := &r.draft
	if len(d.links) >= maxLinks {
		r.warn("RS-LN-01", "too many links in one entry; the rest is ignored")
		return
	}
	var l draftLink
	var rel, href []byte
	first, seen := len(d.hashes), [2]bool{}
	take := func(a *xmlscan.Attr) {
		switch string(a.Local) {
		case "rel":
			if !seen[0] {
				rel, seen[0] = a.Value, true
			}
		case "href":
			if !seen[1] {
				href, seen[1] = a.Value, true
			}
		default:
			r.linkAttr(&l, a)
		}
	}
	prefixed, foreign := false, false
	for i := range r.s.Attrs {
		if a := &r.s.Attrs[i]; a.Prefix == nil {
			take(a)
		} else {
			rs := r.isRS(a.Space)
			prefixed, foreign = prefixed || rs, foreign || !rs
		}
	}
	if prefixed {
		r.warn("RS-XML-06", "attributes of ResourceSync with a prefix")
		for i := range r.s.Attrs {
			if a := &r.s.Attrs[i]; a.Prefix != nil && r.isRS(a.Space) {
				take(a)
			}
		}
	}
	href = xmlscan.Trim(href)
	if len(xmlscan.Trim(rel)) == 0 || len(href) == 0 {
		r.warn("RS-LN-01", "a link without rel or href, ignored")
		d.hashes = d.hashes[:first]
		return
	}
	href, ok := r.withoutUser(href, "RS-LN-01", "the href of a link")
	if !ok {
		r.warn("RS-LN-01", "the href of a link "+unclear+"; the link is ignored")
		d.hashes = d.hashes[:first]
		return
	}
	r.exactLink(rel, href)
	if !iri.HasScheme(href) {
		abs, err := r.resolve(string(href))
		if err != nil {
			r.warn("RS-LN-01", "the href of a link is "+err.Error()+"; the link is ignored")
			d.hashes = d.hashes[:first]
			return
		}
		r.warn("RS-LN-01", "the href of a link is a relative URI")
		href = []byte(abs)
	}
	l.href = d.keep(href)
	if foreign {
		l.Foreign = foreignLink(r)
	}
	r.addLinks(l, rel, first)
}

// addLinks adds l once for each relation (RS-LN-03); the hashes from first on
// belong to it.
func (r *Reader) addLinks(l draftLink, rel []byte, first int) {
	d := &r.draft
	hashes := len(d.hashes)
	for n, name := range bytes.Fields(rel) {
		if len(d.links) >= maxLinks {
			return
		}
		if n == 1 {
			r.warn("RS-LN-03", "a link with several relations")
		}
		l.Rel = r.relation(name)
		owner := int32(len(d.links))
		for i := first; i < hashes; i++ {
			if n == 0 {
				d.hashes[i].owner = owner
			} else {
				h := d.hashes[i]
				h.owner = owner
				d.hashes = append(d.hashes, h)
			}
		}
		d.links = append(d.links, l)
	}
}

// relation returns a relation in its usual spelling.
func (r *Reader) relation(name []byte) string {
	rel := r.draft.share(&r.strings, name)
	usual := rel
	if strings.EqualFold(rel, RelPatch) {
		usual = RelPatch
	} else if bytes.IndexByte(name, ':') < 0 {
		usual = strings.ToLower(rel)
	}
	if usual != rel {
		r.warn("RS-LN-03", "relation \""+xmlscan.Clip(rel)+"\", which is spelt "+xmlscan.Clip(usual))
	}
	return usual
}

// linkAttr reads a further attribute of a link; the first value wins.
func (r *Reader) linkAttr(l *draftLink, a *xmlscan.Attr) {
	v := a.Value
	switch string(a.Local) {
	case "type":
		if l.Type == "" {
			l.Type, _ = r.mediaType(v)
		}
	case "encoding":
		if l.Encoding == "" {
			l.Encoding, _ = r.encoding(v)
		}
	case "path":
		if l.path == (span{}) {
			l.path, _ = r.path(v)
		}
	case "modified":
		if l.Modified.IsZero() {
			l.Modified, _ = r.datetime(v, "modified of a link")
		}
	case "hash":
		if len(r.draft.hashes) == 0 || r.draft.hashes[len(r.draft.hashes)-1].owner != int32(len(r.draft.links)) {
			r.hash(v, int32(len(r.draft.links)))
		}
	case "length":
		if !l.HasLength {
			l.Length, l.HasLength = r.length(v)
		}
	case "pri":
		n, ok := int64(0), len(v) > 0 && len(v) <= 9
		for _, c := range v {
			ok = ok && c >= '0' && c <= '9'
			n = n*10 + int64(c-'0')
		}
		if !ok || n < 1 || n > maxPri {
			r.warn("RS-PRI-01", "pri \""+xmlscan.Clip(string(v))+"\" is not between 1 and 999999, ignored")
		} else if l.Pri == 0 {
			l.Pri = int(n)
		}
	default:
		r.exactUnknown("rs:ln", a)
	}
}
