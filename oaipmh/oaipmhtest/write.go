package oaipmhtest

import (
	"bytes"
	"encoding/xml"
	"strings"

	"lockstep/oaipmh"
)

const (
	declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

	dcBegin = `<oai_dc:dc xmlns:oai_dc="` + oaipmh.DublinCoreNamespace + `" xmlns:dc="http://purl.org/dc/elements/1.1/"` +
		` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="` + oaipmh.DublinCoreNamespace + ` ` + oaipmh.DublinCoreSchema + `">`
	dcEnd = `</oai_dc:dc>`

	// dirt is part of every record of a dirty repository, and clean is its expected
	// form after cleaning.
	dirt  = "<dc:coverage>bell \x07, reference &#x1F;, R&D, byte \xE9.</dc:coverage>"
	clean = "<dc:coverage>bell \uFFFD, reference \uFFFD, R&amp;D, byte \uFFFD.</dc:coverage>"
)

// document returns the document that a harvester should obtain for a record.
func (r *Repository) document(rec *Record) []byte {
	b := bytes.NewBufferString(declaration)
	r.metadata(b, rec, clean)
	b.WriteByte('\n')
	return b.Bytes()
}

// metadata writes the content of <metadata>; dirt is the addition of a dirty
// repository.
func (r *Repository) metadata(b *bytes.Buffer, rec *Record, dirt string) {
	if rec.Raw != "" {
		b.WriteString(rec.Raw)
		return
	}
	b.WriteString(dcBegin)
	element(b, "dc:title", rec.Title)
	element(b, "dc:identifier", rec.Identifier)
	if rec.Size > 0 {
		words := rec.Title + ". "
		element(b, "dc:description", strings.Repeat(words, rec.Size/len(words)+1)[:rec.Size])
	}
	if r.o.Dirty {
		b.WriteString(dirt)
	}
	b.WriteString(dcEnd)
}

// header writes the header of a record.
func (r *Repository) header(b *bytes.Buffer, rec *Record) {
	b.WriteString("<header")
	if rec.Deleted {
		b.WriteString(` status="deleted"`)
	}
	b.WriteString(">")
	element(b, "identifier", rec.Identifier)
	element(b, "datestamp", oaipmh.FormatDatestamp(rec.Datestamp, r.o.Granularity))
	for _, s := range rec.Sets {
		element(b, "setSpec", s)
	}
	b.WriteString("</header>")
}

// record writes a record.
func (r *Repository) record(b *bytes.Buffer, rec *Record) {
	b.WriteString("<record>")
	r.header(b, rec)
	if !rec.Deleted && !rec.Bare {
		b.WriteString("<metadata>")
		r.metadata(b, rec, dirt)
		b.WriteString("</metadata>")
	}
	b.WriteString("</record>\n")
}

// element writes an element with a text.
func element(b *bytes.Buffer, name, text string) {
	b.WriteString("<" + name + ">")
	if strings.ContainsAny(text, "<>&\"'\r\n\t") {
		_ = xml.EscapeText(b, []byte(text)) // a Buffer never fails
	} else {
		b.WriteString(text)
	}
	b.WriteString("</" + name + ">")
}
