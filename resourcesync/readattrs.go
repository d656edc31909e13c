package resourcesync

import (
	"strings"

	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/datetime"
	"lockstep/resourcesync/internal/digest"
	"lockstep/resourcesync/internal/lexical"
	"lockstep/resourcesync/internal/schema"
)

// metadata reads the attributes of the current rs:md into m; for the root, only
// some are used. The first value of an attribute wins (RS-XML-05), an
// unprefixed one over a prefixed one (RS-XML-06).
func (r *Reader) metadata(m *Metadata, root bool) {
	prefixed, foreign := false, false
	for i := range r.s.Attrs {
		a := &r.s.Attrs[i]
		if a.Prefix != nil {
			rs := r.isRS(a.Space)
			prefixed, foreign = prefixed || rs, foreign || !rs
			continue
		}
		r.metadataAttr(m, a, root)
	}
	if foreign && !root {
		foreignAttributes(r, &r.foreign)
	}
	if !prefixed {
		return
	}
	r.warn("RS-XML-06", "attributes of ResourceSync with a prefix")
	for i := range r.s.Attrs {
		if a := &r.s.Attrs[i]; a.Prefix != nil && r.isRS(a.Space) {
			r.metadataAttr(m, a, root)
		}
	}
}

// metadataAttr reads one attribute of an rs:md.
func (r *Reader) metadataAttr(m *Metadata, a *xmlscan.Attr, root bool) {
	d, v := &r.draft, a.Value
	it := schema.AttributeItem(a.Local)
	seen := &d.seen
	if root {
		seen = &r.root.has
	}
	if it == 0 {
		r.exactUnknown("rs:md", a)
	}
	if it == 0 || *seen&it != 0 {
		return
	}
	ok := true
	switch it {
	case schema.ItemCapability:
		ok = r.capability(m, v, root)
	case schema.ItemChange:
		ok = r.change(m, v, root)
	case schema.ItemDatetime:
		m.Datetime, ok = r.datetime(v, "datetime")
	case schema.ItemAt:
		m.At, ok = r.datetime(v, "at")
	case schema.ItemCompleted:
		m.Completed, ok = r.datetime(v, "completed")
	case schema.ItemFrom:
		m.From, ok = r.datetime(v, "from")
	case schema.ItemUntil:
		m.Until, ok = r.datetime(v, "until")
	case schema.ItemModified:
		d.modified, ok = r.datetime(v, "modified")
	case schema.ItemHash:
		ok = r.hash(v, -1)
	case schema.ItemLength:
		m.Length, ok = r.length(v)
		m.HasLength = ok
	case schema.ItemType:
		m.Type, ok = r.mediaType(v)
	case schema.ItemEncoding:
		m.Encoding, ok = r.encoding(v)
	case schema.ItemPath:
		d.path, ok = r.path(v)
	case schema.ItemETag:
		d.etag = d.keep(v)
	}
	if ok {
		*seen |= it
	}
}

// datetime parses the value of the datetime attribute name.
func (r *Reader) datetime(v []byte, name string) (Datetime, bool) {
	at, liberty, ok := datetime.Parse(xmlscan.Trim(v))
	if !ok {
		r.warn("RS-DT-02", name+" \""+xmlscan.Clip(string(v))+"\" is no datetime, ignored")
		return Datetime{}, false
	}
	if liberty != "" {
		r.warn("RS-DT-05", name+": a "+liberty)
		return Datetime{at}, true
	}
	r.exactDatetime(v, name)
	return Datetime{at}, true
}

// capability parses a capability; unknown ones are returned unchanged
// (RS-GEN-06).
func (r *Reader) capability(m *Metadata, v []byte, root bool) bool {
	v = xmlscan.Trim(v)
	c := Capability(r.draft.share(&r.strings, v))
	if schema.KindOf(c, false) == schema.Unknown {
		if folded := Capability(strings.ToLower(string(c))); schema.KindOf(folded, false) != schema.Unknown {
			r.warn("RS-GEN-04", "capability \""+xmlscan.Clip(string(c))+"\" in upper case")
			c = folded
		} else if !root {
			r.note("RS-GEN-06", "unknown capability \""+xmlscan.Clip(string(c))+"\" in an entry")
		}
	}
	m.Capability = c
	return c != ""
}

// change parses a change. A word that the standard does not define means that
// something happened to the resource (RS-EM-02).
func (r *Reader) change(m *Metadata, v []byte, root bool) bool {
	switch string(v) {
	case "updated":
		m.Change = Updated
	case "created":
		m.Change = Created
	case "deleted":
		m.Change = Deleted
	default:
		c, err := ParseChange(string(xmlscan.Trim(v)))
		if err != nil {
			r.warn("RS-EM-02", err.Error()+": its loc shows whether the resource is still there")
			m.Change = UnknownChange
			return !root
		}
		r.warn("RS-EM-02", "change \""+string(v)+"\", which is spelt "+c.String())
		m.Change = c
	}
	return true
}

// length parses a number of bytes (RS-LEN-02).
func (r *Reader) length(v []byte) (int64, bool) {
	v = xmlscan.Trim(v)
	n, ok := int64(0), len(v) > 0
	for _, c := range v {
		c -= '0'
		if c > 9 || n > (1<<63-1-int64(c))/10 {
			ok = false
			break
		}
		n = n*10 + int64(c)
	}
	if !ok {
		r.warn("RS-LEN-02", "length \""+xmlscan.Clip(string(v))+"\" is no number of bytes, ignored")
		return 0, false
	}
	return n, true
}

// mediaType parses a media type (RS-TYPE-01).
func (r *Reader) mediaType(v []byte) (string, bool) {
	if string(v) == r.lastType && len(v) > 0 {
		return r.lastType, true
	}
	v = xmlscan.Trim(v)
	if !lexical.MediaType(v) {
		r.warn("RS-TYPE-01", "type \""+xmlscan.Clip(string(v))+"\" is no media type, ignored")
		return "", false
	}
	r.lastType = r.draft.share(&r.strings, v)
	return r.lastType, true
}

// encoding parses a content coding.
func (r *Reader) encoding(v []byte) (string, bool) {
	v = xmlscan.Trim(v)
	r.exactEncoding(v)
	return r.draft.share(&r.strings, v), len(v) > 0
}

// path parses a path in a package. A path that leads out of it is dropped
// (RS-ZIP-06); a missing leading slash is left to the code that opens the
// package.
func (r *Reader) path(v []byte) (span, bool) {
	p := string(v)
	switch {
	case p == "" || !lexical.ClosedPath(p):
		r.warn("RS-ZIP-06", "path \""+xmlscan.Clip(p)+"\" is no place in a package, ignored")
		return span{}, false
	case p[0] != '/':
		r.warn("RS-PATH-01", "path without a slash in front")
	}
	return r.draft.keep(v), true
}

// hash parses a hash attribute of the entry or one of its links.
func (r *Reader) hash(v []byte, owner int32) bool {
	d := &r.draft
	first, text := len(d.hashes), len(d.text)
	r.exactHash(v)
	if r.plainHashes(v, owner) {
		return true
	}
	d.hashes, d.text = d.hashes[:first], d.text[:text]
	digest.Values(string(v), func(a digest.Algorithm, sum []byte) bool {
		for _, h := range d.hashes[first:] {
			if h.algorithm == a {
				return false
			}
		}
		d.hashes = append(d.hashes, draftHash{a, owner, d.keep(sum)})
		return true
	}, func(liberty string) { r.warn("RS-HASH-04", liberty) })
	return len(d.hashes) > first
}

// plainHashes is hash for the form that the Writer produces; it reports whether
// v has that form.
func (r *Reader) plainHashes(v []byte, owner int32) bool {
	d := &r.draft
	seen := 0
	for len(v) > 0 {
		a, digits, rest, ok := digest.CutPlain(v)
		if !ok || seen&(1<<a) != 0 {
			return false
		}
		seen |= 1 << a
		from := len(d.text)
		if d.text, ok = digest.AppendUnhex(d.text, digits); !ok {
			return false
		}
		d.hashes = append(d.hashes, draftHash{a, owner, span{int32(from), int32(len(d.text))}})
		v = rest
	}
	return seen != 0
}
