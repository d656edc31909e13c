package oaipmh

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/internal/xmlscan"
)

// A Writer writes one response (OAI-PMH 2.0, 3.2). It writes nothing before its
// first part. Its errors are sticky, and [Writer.Close] returns them too.
// Characters that XML cannot represent become U+FFFD.
type Writer struct {
	w    *bufio.Writer
	head Header
	gran Granularity
	in   string // the open element of OAI-PMH
	n    int64  // bytes written
	err  error
	buf  []byte
}

// NewWriter returns a Writer of a response that begins with h, to w. The
// request is repeated in full unless an error forbids that. Datestamps of
// records have granularity g.
func NewWriter(w io.Writer, h Header, g Granularity) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 32<<10), head: h, gran: g}
}

// Bytes returns the number of bytes written so far.
func (w *Writer) Bytes() int64 { return w.n }

// Begun reports whether anything was written.
func (w *Writer) Begun() bool { return w.n > 0 }

// Error writes an error instead of an answer; there may be several, and nothing
// else in the response.
func (w *Writer) Error(e *Error) error {
	bare := e.Code == CodeBadVerb || e.Code == CodeBadArgument // 3.2: the request has no attributes then
	w.begin("", bare)
	w.text(`<error code="`, e.Code, `">`, e.Message, "</error>\n")
	return w.err
}

// Identify describes the repository (OAI-PMH 2.0, 4.2).
func (w *Writer) Identify(i *Identify) error {
	w.begin(string(VerbIdentify), false)
	w.element("repositoryName", i.RepositoryName)
	w.element("baseURL", i.BaseURL)
	w.element("protocolVersion", i.ProtocolVersion)
	for _, mail := range i.AdminEmails {
		w.element("adminEmail", mail)
	}
	w.element("earliestDatestamp", FormatDatestamp(i.EarliestDatestamp, i.Granularity))
	w.element("deletedRecord", string(i.DeletedRecord))
	w.element("granularity", i.Granularity.String())
	for _, c := range i.Compressions {
		w.element("compression", c)
	}
	return w.err
}

// Set lists a set (OAI-PMH 2.0, 4.6).
func (w *Writer) Set(s *Set) error {
	w.begin(string(VerbListSets), false)
	w.raw("<set>")
	w.element("setSpec", s.Spec)
	w.element("setName", s.Name)
	if s.Description != "" {
		w.raw(`<setDescription><oai_dc:dc xmlns:oai_dc="` + DublinCoreNamespace + `" xmlns:dc="` + dublinCoreElements +
			`" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="` + DublinCoreNamespace + " " + DublinCoreSchema + `">`)
		w.element("dc:description", s.Description)
		w.raw("</oai_dc:dc></setDescription>")
	}
	w.raw("</set>\n")
	return w.err
}

// Format lists a format (OAI-PMH 2.0, 4.4).
func (w *Writer) Format(f *Format) error {
	w.begin(string(VerbListMetadataFormats), false)
	w.raw("<metadataFormat>")
	w.element("metadataPrefix", f.Prefix)
	w.element("schema", f.Schema)
	w.element("metadataNamespace", f.Namespace)
	w.raw("</metadataFormat>\n")
	return w.err
}

// Record writes a record of GetRecord or ListRecords; for ListIdentifiers its
// header (OAI-PMH 2.0, 2.5). Its Metadata is a well-formed document, as
// returned by [Document] and [Reader].
func (w *Writer) Record(r *Record) error {
	verb := w.head.Request.Verb
	if verb == "" {
		verb = VerbListRecords
	}
	w.begin(string(verb), false)
	if verb == VerbListIdentifiers {
		w.header(r)
		return w.err
	}
	w.raw("<record>\n")
	w.header(r)
	if !r.Deleted {
		w.raw("<metadata>\n")
		w.metadata(r.Metadata)
		w.raw("\n</metadata>\n")
	}
	w.raw("</record>\n")
	return w.err
}

func (w *Writer) header(r *Record) {
	if r.Deleted {
		w.raw(`<header status="deleted">`)
	} else {
		w.raw("<header>")
	}
	w.element("identifier", r.Identifier)
	w.element("datestamp", FormatDatestamp(r.Datestamp, w.gran))
	for _, s := range r.Sets {
		w.element("setSpec", s)
	}
	w.raw("</header>\n")
}

// metadata writes the root of a document so that its meaning does not change in
// the response: names without a namespace must not get that of the response.
func (w *Writer) metadata(doc []byte) {
	root, name, open := rootTag(doc)
	if root == nil {
		w.fail(errors.New("write record: its metadata has no element"))
		return
	}
	w.bytes(root[:name])
	if bareNames(root) && !declaresDefault(open) {
		w.raw(` xmlns=""`)
	}
	w.bytes(root[name:])
}

// Token writes the resumption token; one without Value marks the end of the
// list (OAI-PMH 2.0, 3.5). It follows the records.
func (w *Writer) Token(t *Token) error {
	w.begin(string(w.head.Request.Verb), false)
	w.raw("<resumptionToken")
	if !t.Expires.IsZero() && t.Value != "" {
		w.text(` expirationDate="`, FormatDatestamp(t.Expires, Second), `"`)
	}
	if t.Complete >= 0 {
		w.raw(` completeListSize="` + strconv.FormatInt(t.Complete, 10) + `"`)
	}
	if t.Cursor >= 0 {
		w.raw(` cursor="` + strconv.FormatInt(t.Cursor, 10) + `"`)
	}
	w.text(">", t.Value, "</resumptionToken>\n")
	return w.err
}

// Close ends the response. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.err == nil && !w.Begun() {
		return errors.New("write response: it has nothing in it")
	}
	if w.in != "" {
		w.raw("</" + w.in + ">\n")
	}
	w.raw("</OAI-PMH>\n")
	if w.err == nil {
		w.err = w.w.Flush()
	}
	err := w.err
	if w.err == nil {
		w.err = errors.New("write response: it is complete")
	}
	return err
}

// begin writes the beginning of the response.
func (w *Writer) begin(element string, bare bool) {
	if w.Begun() {
		if element != w.in {
			w.fail(fmt.Errorf("write response: %q among %q", element, w.in))
		}
		return
	}
	w.in = element
	w.raw(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<OAI-PMH xmlns="` + Namespace + `" xmlns:xsi="` + schemaInstance + `"` +
		` xsi:schemaLocation="` + Namespace + " " + Namespace + `OAI-PMH.xsd">` + "\n")
	w.element("responseDate", FormatDatestamp(w.head.ResponseDate, Second))
	w.raw("\n<request")
	if q := &w.head.Request; !bare {
		w.attribute("verb", string(q.Verb))
		w.attribute("identifier", q.Identifier)
		w.attribute("metadataPrefix", q.MetadataPrefix)
		w.attribute("from", q.From)
		w.attribute("until", q.Until)
		w.attribute("set", q.Set)
		w.attribute("resumptionToken", q.Token)
	}
	w.text(">", w.head.Request.URL, "</request>\n")
	if element != "" {
		w.raw("<" + element + ">\n")
	}
}

func (w *Writer) attribute(name, value string) {
	if value != "" {
		w.text(" "+name+`="`, value, `"`)
	}
}

func (w *Writer) element(name, text string) { w.text("<"+name+">", text, "</"+name+">") }

// text writes markup and escaped text in turn, beginning with markup.
func (w *Writer) text(parts ...string) {
	for i, p := range parts {
		if i%2 == 0 {
			w.raw(p)
			continue
		}
		w.buf = AppendText(w.buf[:0], p)
		w.bytes(w.buf)
	}
}

func (w *Writer) raw(s string) {
	if w.err == nil {
		var n int
		n, w.err = w.w.WriteString(s)
		w.n += int64(n)
	}
}

func (w *Writer) bytes(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.n += int64(n)
	}
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// AppendText appends s, escaped for use in an attribute or as text. Characters
// that XML cannot represent become U+FFFD.
func AppendText(b []byte, s string) []byte {
	out, ok := xmlscan.AppendEscaped(b, s)
	if ok {
		return out
	}
	return AppendText(b, strings.Map(func(r rune) rune {
		if r == 0xFFFE || r == 0xFFFF || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError))))
}
