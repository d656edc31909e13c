package atompmh

import (
	"strconv"
	"time"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

const (
	opening = `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<feed xmlns="` + Namespace + `" xmlns:fh="` + NamespaceHistory + `">` + "\n"
	closing = "</feed>\n"
)

// appendFeed appends the beginning of a document, up to its first entry.
// Everything but the characters of its texts has been checked.
func appendFeed(b []byte, f *Feed) ([]byte, error) {
	b = append(b, opening...)
	b, err := appendText(b, "id", f.ID)
	if err == nil {
		b, err = appendText(b, "title", f.Title)
	}
	if err != nil {
		return nil, err
	}
	b = append(b, "<author>"...)
	if b, err = appendText(b, "name", f.Author); err != nil {
		return nil, err
	}
	b = append(b, "</author>"...)
	b = appendUpdated(b, f.Updated)
	for _, l := range [...]Link{
		{Rel: "self", Type: MediaType, Href: f.Self},
		{Rel: "current", Type: MediaType, Href: f.Current},
		{Rel: "prev-archive", Type: MediaType, Href: f.PrevArchive},
		{Rel: "next-archive", Type: MediaType, Href: f.NextArchive},
	} {
		if l.Href == "" {
			continue
		}
		if b, err = appendLink(b, &l); err != nil {
			return nil, err
		}
	}
	for i := range f.Links {
		if b, err = appendLink(b, &f.Links[i]); err != nil {
			return nil, err
		}
	}
	if f.Archive {
		b = append(b, "<fh:archive/>"...)
	}
	if f.Complete {
		b = append(b, "<fh:complete/>"...)
	}
	return append(b, '\n'), nil
}

// appendEntry appends e, which has been checked except for the characters of
// its texts.
func appendEntry(b []byte, e *Entry) ([]byte, error) {
	b = append(b, "<entry>"...)
	b, err := appendText(b, "id", e.ID)
	if err == nil {
		b, err = appendText(b, "title", e.Title)
	}
	if err != nil {
		return nil, err
	}
	b = appendUpdated(b, e.Updated)
	for i := range e.Links {
		if b, err = appendLink(b, &e.Links[i]); err != nil {
			return nil, err
		}
	}
	if e.Summary != "" {
		if b, err = appendText(b, "summary", e.Summary); err != nil {
			return nil, err
		}
	}
	if e.Kind == Deletion {
		b = append(b, "<content/>"...) // AP-DEL-06
	}
	return append(b, "</entry>\n"...), nil
}

// appendText appends an element with the text s.
func appendText(b []byte, name, s string) ([]byte, error) {
	b = append(b, '<')
	b = append(b, name...)
	b = append(b, '>')
	b, ok := xmlscan.AppendEscaped(b, s)
	if !ok {
		return nil, broken("AP-DOC-01", "%s %q has characters XML does not allow", name, xmlscan.Clip(s))
	}
	b = append(b, "</"...)
	b = append(b, name...)
	return append(b, '>'), nil
}

func appendUpdated(b []byte, t time.Time) []byte {
	b = append(b, "<updated>"...)
	b = appendTime(b, t)
	return append(b, "</updated>"...)
}

// appendLink appends l, which has been checked except for its address and the
// characters of its title.
func appendLink(b []byte, l *Link) ([]byte, error) {
	if !iri.HasScheme(l.Href) || !iri.Plain(l.Href) {
		return nil, broken("AP-DOC-01", "link %s: %q is no absolute URI of the characters allowed in one", l.Rel, shown(l.Href))
	}
	if iri.HasUser(l.Href) {
		return nil, broken("AP-DOC-12", "link %s: its address has a user name or password, which readers ignore", xmlscan.Clip(l.Rel))
	}
	b, ok := appendAttr(b, `<link rel="`, l.Rel)
	for _, a := range [...]struct{ name, value string }{
		{` type="`, l.Type}, {` href="`, l.Href}, {` hreflang="`, l.Hreflang}, {` title="`, l.Title},
	} {
		if ok && a.value != "" {
			b, ok = appendAttr(b, a.name, a.value)
		}
	}
	if !ok {
		return nil, broken("AP-DOC-01", "link %s to %s has characters XML does not allow", xmlscan.Clip(l.Rel), shown(l.Href))
	}
	if l.Length > 0 {
		b = append(b, ` length="`...)
		b = strconv.AppendInt(b, l.Length, 10)
		b = append(b, '"')
	}
	return append(b, "/>"...), nil
}

func appendAttr(b []byte, name, value string) ([]byte, bool) {
	b = append(b, name...)
	b, ok := xmlscan.AppendEscaped(b, value)
	return append(b, '"'), ok
}
