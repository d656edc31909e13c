package resourcesync

import (
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/digest"
	"lockstep/resourcesync/internal/schema"
)

// Reading of entries in the form of August 2012 and the drafts around it: best
// effort (RS-VER-14, RS-VER-15, RS-VER-21).

// alphaChange reads the change from rs:type of the current lastmod element.
func (r *Reader) alphaChange(e *Entry) {
	for i := range r.s.Attrs {
		a := &r.s.Attrs[i]
		if !r.isRS(a.Space) || string(a.Local) != "type" || r.draft.seen&schema.ItemChange != 0 {
			continue
		}
		r.warn("RS-VER-15", "rs:type of lastmod, which is change now")
		r.dialect(dialectAlpha)
		if r.change(&e.Metadata, a.Value, false) {
			r.draft.seen |= schema.ItemChange
		}
	}
}

// alphaExpires reads the time of a deletion.
func (r *Reader) alphaExpires(e *Entry) error {
	text, err := r.textOf()
	if err != nil {
		return err
	}
	if r.draft.seen&schema.ItemChange != 0 || !r.kind.Events() {
		return nil // the Sitemap extension of that name, which is unrelated
	}
	r.warn("RS-VER-15", "expires, which is change deleted now")
	r.dialect(dialectAlpha)
	e.Change = Deleted
	r.draft.seen |= schema.ItemChange
	if d, ok := r.datetime(text, "expires"); ok {
		e.Lastmod = d
		r.draft.has |= schema.ItemLastmod
	}
	return nil
}

// alphaFixity reads a hash: rs:fixity type="md5" with base64 text.
func (r *Reader) alphaFixity() error {
	token := ""
	for i := range r.s.Attrs {
		if a := &r.s.Attrs[i]; string(a.Local) == "type" {
			token = string(xmlscan.Trim(a.Value))
		}
	}
	text, err := r.textOf()
	if err != nil {
		return err
	}
	r.warn("RS-VER-14", "rs:fixity, which is hash now")
	r.dialect(dialectAlpha)
	r.alphaHash(token, text)
	return nil
}

// alphaText reads an element that later became an attribute.
func (r *Reader) alphaText(e *Entry, name string) error {
	text, err := r.textOf()
	if err != nil {
		return err
	}
	r.warn("RS-VER-14", "rs:"+name+", which is an attribute now")
	r.dialect(dialectAlpha)
	if name == "md5" {
		r.alphaHash(name, text)
		return nil
	}
	if r.draft.seen&schema.ItemLength == 0 {
		if e.Length, e.HasLength = r.length(text); e.HasLength {
			r.draft.seen |= schema.ItemLength
		}
	}
	return nil
}

func (r *Reader) alphaHash(token string, text []byte) {
	a, _ := digest.Lookup(token)
	if a == 0 {
		return
	}
	d := &r.draft
	for _, h := range d.hashes {
		if h.owner < 0 && h.algorithm == a {
			return
		}
	}
	sum, _ := digest.Decode(a, string(text))
	if sum == nil {
		r.warn("RS-HASH-04", a.String()+" digest is neither hex nor base64 of the right length")
		return
	}
	d.hashes = append(d.hashes, draftHash{a, -1, d.keep(sum)})
	d.seen |= schema.ItemHash
}

// legacyMetadata reads attributes that rs:md no longer has.
func (r *Reader) legacyMetadata(e *Entry) {
	d := &r.draft
	if d.seen&schema.ItemModified != 0 {
		r.warn("RS-VER-13", "modified of an entry, which is lastmod now")
		r.dialect(dialectBeta)
		if d.has&schema.ItemLastmod == 0 {
			e.Lastmod = d.modified
			d.has |= schema.ItemLastmod
		}
	}
	if d.seen&schema.ItemETag != 0 {
		r.warn("RS-VER-13", "etag of an entry, which has no place any more")
		r.dialect(dialectPreBeta)
	}
}
