package repository

import (
	"net/url"
	"strings"

	"lockstep/catalog"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// maxRelations is how many related resources a description names: a resource
// with thousands of links would fill a response.
const maxRelations = 100

const dublinCoreRoot = `<oai_dc:dc xmlns:oai_dc="` + oaipmh.DublinCoreNamespace + `" xmlns:dc="http://purl.org/dc/elements/1.1/"` +
	` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="` + oaipmh.DublinCoreNamespace + " " + oaipmh.DublinCoreSchema + `">` + "\n"

// describe generates an oai_dc description from the catalog's record of a
// resource: every item has one (OAI-PMH 2.0, 3.4).
func describe(r *catalog.Record, identifier string) []byte {
	b := []byte(dublinCoreRoot)
	add := func(element, text string) {
		if text != "" {
			b = append(append(append(b, "<dc:"...), element...), '>')
			b = oaipmh.AppendText(b, text)
			b = append(append(append(b, "</dc:"...), element...), ">\n"...)
		}
	}
	add("title", titleOf(r.URI))
	if !r.Lastmod.IsZero() {
		add("date", oaipmh.FormatDatestamp(r.Lastmod, oaipmh.Second))
	}
	add("type", kindOf(r.Type))
	add("format", r.Type)
	add("identifier", r.URI)
	if identifier != r.URI {
		add("identifier", identifier)
	}
	for i := range r.Links[:min(len(r.Links), maxRelations)] {
		switch l := &r.Links[i]; l.Rel {
		case resourcesync.RelPatch, resourcesync.RelMemento, catalog.RelRecord, "profile":
		case "via":
			add("source", l.Href)
		case "license":
			add("rights", l.Href)
		default:
			add("relation", l.Href)
		}
	}
	return append(b, "</oai_dc:dc>"...)
}

// titleOf returns the default title of a resource: the last words of its URI.
func titleOf(uri string) string {
	plain, query, _ := strings.Cut(uri, "?")
	plain, _, _ = strings.Cut(plain, "#")
	name := strings.TrimRight(plain, "/")
	name = name[strings.LastIndexAny(name, "/:")+1:]
	if query != "" {
		name += "?" + query
	}
	if s, err := url.PathUnescape(name); err == nil {
		name = s
	}
	if strings.TrimSpace(name) == "" {
		return uri
	}
	return name
}

// kindOf returns the kind of a resource with that media type, as a term of the
// DCMI Type Vocabulary; "" if unknown.
func kindOf(mediaType string) string {
	kind, sub, _ := strings.Cut(mediaType, "/")
	switch {
	case kind == "text", strings.HasPrefix(sub, "pdf"), strings.HasPrefix(sub, "epub"):
		return "Text"
	case kind == "image":
		return "Image"
	case kind == "audio":
		return "Sound"
	case kind == "video":
		return "MovingImage"
	}
	return ""
}
