package resourcesync

import (
	"strconv"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/lexical"
	"lockstep/resourcesync/internal/markup"
)

// The namespaces (RS-GEN-01).
const (
	nsSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	nsRS      = "http://www.openarchives.org/rs/terms/"
)

// appendHeader appends everything before the first entry, in the order of
// RS-XML-03.
func appendHeader(b []byte, h *Header) ([]byte, error) {
	root := "urlset"
	if h.Index {
		root = "sitemapindex"
	}
	b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	b = append(b, root...)
	b = append(b, ` xmlns="`+nsSitemap+`" xmlns:rs="`+nsRS+`">`+"\n"...)
	var err error
	for i := range h.Links {
		if b, err = appendLink(b, &h.Links[i]); err != nil {
			return nil, err
		}
		b = append(b, '\n')
	}
	b = append(b, `<rs:md capability="`...)
	b = append(b, h.Capability...)
	b = append(b, '"')
	b = appendDatetime(b, ` at="`, h.At)
	b = appendDatetime(b, ` completed="`, h.Completed)
	b = appendDatetime(b, ` from="`, h.From)
	b = appendDatetime(b, ` until="`, h.Until)
	return append(b, "/>\n"...), nil
}

// appendEntry appends e, which has been checked except for the characters of
// its texts.
func (w *Writer) appendEntry(b []byte, e *Entry) ([]byte, error) {
	if w.header.Index {
		b = append(b, "<sitemap><loc>"...)
	} else {
		b = append(b, "<url><loc>"...)
	}
	b, ok := lexical.AppendURI(b, e.Loc)
	if !ok || !lexical.Requestable(e.Loc) {
		return nil, broken("RS-XML-09", "loc is no absolute URI of the characters allowed in one")
	}
	if iri.HasUser(e.Loc) {
		return nil, broken("RS-XML-09", "loc has a user name or password, which readers ignore")
	}
	b = append(b, "</loc>"...)
	if !e.Lastmod.IsZero() {
		b = append(b, "<lastmod>"...)
		b = e.Lastmod.AppendTo(b)
		b = append(b, "</lastmod>"...)
	}
	if e.ChangeFreq != "" {
		b = append(b, "<changefreq>"...)
		b = append(b, e.ChangeFreq...)
		b = append(b, "</changefreq>"...)
	}
	b, err := appendMetadata(b, &e.Metadata, e.Foreign)
	if err != nil {
		return nil, err
	}
	for i := range e.Links {
		if b, err = appendLink(b, &e.Links[i]); err != nil {
			return nil, err
		}
	}
	if !e.Foreign.IsZero() {
		b = append(b, markup.Elements(e.Foreign.String())...)
	}
	if w.header.Index {
		return append(b, "</sitemap>\n"...), nil
	}
	return append(b, "</url>\n"...), nil
}

// appendMetadata appends the rs:md of an entry, unless it is empty.
func appendMetadata(b []byte, m *Metadata, f Foreign) ([]byte, error) {
	start := len(b)
	b = append(b, "<rs:md"...)
	empty := len(b)
	if m.Capability != "" {
		b = append(b, ` capability="`...)
		b = append(b, m.Capability...)
		b = append(b, '"')
	}
	if m.Change != 0 {
		b = append(b, ` change="`...)
		b = append(b, m.Change.String()...)
		b = append(b, '"')
	}
	b = appendDatetime(b, ` datetime="`, m.Datetime)
	b = appendDatetime(b, ` at="`, m.At)
	b = appendDatetime(b, ` completed="`, m.Completed)
	b = appendDatetime(b, ` from="`, m.From)
	b = appendDatetime(b, ` until="`, m.Until)
	b, err := appendContent(b, m.Hashes, m.Length, m.HasLength, m.Type, m.Encoding, m.Path)
	if err != nil {
		return nil, err
	}
	if !f.IsZero() {
		b = append(b, markup.Attributes(f.String())...)
	}
	if len(b) == empty {
		return b[:start], nil
	}
	return append(b, "/>"...), nil
}

// appendContent appends the attributes that rs:md and rs:ln share.
func appendContent(b []byte, hs Hashes, length int64, hasLength bool, typ, encoding, path string) ([]byte, error) {
	if len(hs) > 0 {
		b = append(b, ` hash="`...)
		b = hs.AppendTo(b)
		b = append(b, '"')
	}
	if hasLength {
		b = append(b, ` length="`...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, '"')
	}
	ok := true
	if typ != "" {
		b = append(b, ` type="`...)
		if b, ok = xmlscan.AppendEscaped(b, typ); !ok {
			return nil, broken("RS-TYPE-01", "type %q is no media type", xmlscan.Clip(typ))
		}
		b = append(b, '"')
	}
	if encoding != "" {
		b = append(b, ` encoding="`...)
		if b, ok = xmlscan.AppendEscaped(b, encoding); !ok {
			return nil, broken("RS-ENC-01", "encoding %q is no content coding", xmlscan.Clip(encoding))
		}
		b = append(b, '"')
	}
	if path != "" {
		b = append(b, ` path="`...)
		if b, ok = xmlscan.AppendEscaped(b, path); !ok {
			return nil, broken("RS-PATH-01", "path %q has characters XML does not allow", xmlscan.Clip(path))
		}
		b = append(b, '"')
	}
	return b, nil
}

// appendLink appends l, which has been checked except for its characters.
func appendLink(b []byte, l *Link) ([]byte, error) {
	b = append(b, `<rs:ln rel="`...)
	b, ok := xmlscan.AppendEscaped(b, l.Rel)
	b = append(b, `" href="`...)
	if ok {
		b, ok = lexical.AppendURI(b, l.Href)
	}
	if !ok {
		return nil, broken("RS-LN-01", "link %s: href %q is no absolute URI of the characters allowed in one", xmlscan.Clip(l.Rel), shown(l.Href))
	}
	if iri.HasUser(l.Href) {
		return nil, broken("RS-LN-01", "link %s: href has a user name or password, which readers ignore", xmlscan.Clip(l.Rel))
	}
	b = append(b, '"')
	b = appendDatetime(b, ` modified="`, l.Modified)
	if l.Pri != 0 {
		b = append(b, ` pri="`...)
		b = strconv.AppendInt(b, int64(l.Pri), 10)
		b = append(b, '"')
	}
	b, err := appendContent(b, l.Hashes, l.Length, l.HasLength, l.Type, l.Encoding, l.Path)
	if err != nil {
		return nil, err
	}
	if !l.Foreign.IsZero() {
		b = append(b, markup.Attributes(l.Foreign.String())...)
	}
	return append(b, "/>"...), nil
}

// appendDatetime appends an attribute, unless d is absent.
func appendDatetime(b []byte, name string, d Datetime) []byte {
	if d.IsZero() {
		return b
	}
	b = append(b, name...)
	b = d.AppendTo(b)
	return append(b, '"')
}
