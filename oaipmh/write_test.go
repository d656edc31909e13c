package oaipmh_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/oaipmh"
)

var (
	writeTime = time.Date(2026, 3, 1, 12, 30, 45, 999, time.UTC)
	writeHead = oaipmh.Header{ResponseDate: writeTime, Request: oaipmh.Request{
		URL: "https://example.org/oai?a=1&b=2", Verb: oaipmh.VerbListRecords, MetadataPrefix: "oai_dc", From: "2026-01-01", Set: "a:b",
	}}
)

// The Reader reads back what a Writer writes, and so does encoding/xml.
func TestWriter(t *testing.T) {
	t.Parallel()
	records := []oaipmh.Record{
		{Identifier: "oai:a<b>&\"'", Datestamp: writeTime, Sets: []string{"a:b", "c"}, Metadata: []byte(`<?xml version="1.0"?><!-- > --><x:r xmlns:x="urn:x" a=">"><x:c/></x:r><!-- <end> -->`), Namespace: "urn:x"},
		{Identifier: "gone", Datestamp: writeTime, Deleted: true, Metadata: []byte("<not/>")},
		{Identifier: "control \x01 \xff \ufffe", Datestamp: writeTime, Metadata: []byte(`<r xmlns="urn:y"><![CDATA[<]]></r>`), Namespace: "urn:y"},
	}
	token := oaipmh.Token{Value: `t"<`, Complete: 17, Cursor: 0, Expires: writeTime}
	var b bytes.Buffer
	w := oaipmh.NewWriter(&b, writeHead, oaipmh.Second)
	if w.Begun() {
		t.Error("it has begun")
	}
	for i := range records {
		if err := w.Record(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Token(&token), w.Close()); err != nil {
		t.Fatal(err)
	}
	if w.Bytes() != int64(b.Len()) {
		t.Errorf("%d bytes were counted, %d written", w.Bytes(), b.Len())
	}
	wellFormed(t, b.Bytes())

	r := oaipmh.NewReader(bytes.NewReader(b.Bytes()), oaipmh.ReaderOptions{})
	head, err := r.Header()
	if err != nil || head.Request != writeHead.Request || !head.ResponseDate.Equal(writeTime.Truncate(time.Second)) {
		t.Errorf("header %+v, %v", head, err)
	}
	var got []oaipmh.Record
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec)
	}
	if len(got) != 3 {
		t.Fatalf("%d records", len(got))
	}
	if got[0].Identifier != records[0].Identifier || !slices.Equal(got[0].Sets, records[0].Sets) || got[0].Namespace != "urn:x" || !bytes.Contains(got[0].Metadata, []byte(`<x:r xmlns:x="urn:x" a=">"><x:c/></x:r>`)) {
		t.Errorf("record %+v, %s", got[0], got[0].Metadata)
	}
	if !got[1].Deleted || got[1].Metadata != nil {
		t.Errorf("deleted record %+v", got[1])
	}
	if got[2].Identifier != "control \ufffd \ufffd \ufffd" {
		t.Errorf("identifier %q", got[2].Identifier)
	}
	if tok, ok := r.Token(); !ok || tok.Value != token.Value || tok.Complete != 17 || tok.Cursor != 0 || !tok.Expires.Equal(writeTime.Truncate(time.Second)) {
		t.Errorf("token %+v", tok)
	}
}

func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
	}
}

// Errors repeat the request unless it was invalid (OAI-PMH 2.0, 3.2).
func TestWriterError(t *testing.T) {
	t.Parallel()
	for code, echoed := range map[string]bool{oaipmh.CodeBadVerb: false, oaipmh.CodeBadArgument: false, oaipmh.CodeNoRecordsMatch: true} {
		var b bytes.Buffer
		w := oaipmh.NewWriter(&b, writeHead, oaipmh.Second)
		if err := errors.Join(w.Error(&oaipmh.Error{Code: code, Message: "no <such> thing"}), w.Close()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), `<request verb="ListRecords" metadataPrefix="oai_dc" from="2026-01-01" set="a:b">`); got != echoed {
			t.Errorf("%s: %s", code, &b)
		}
		r := oaipmh.NewReader(&b, oaipmh.ReaderOptions{})
		_, err := r.Header()
		for range r.Records() {
		}
		for _, e := range r.Records() {
			err = errors.Join(err, e)
		}
		if !oaipmh.HasCode(err, code) {
			t.Errorf("%s is read as %v", code, err)
		}
	}
}

// TestWriterSets: what is written of sets is read back.
func TestWriterSets(t *testing.T) {
	t.Parallel()
	sets := []oaipmh.Set{{Spec: "maps", Name: "Maps & plans", Description: "Maps <of> the coast\nand \"plans\""}, {Spec: "b", Name: "b"}}
	var b bytes.Buffer
	w := oaipmh.NewWriter(&b, writeHead, oaipmh.Second)
	for i := range sets {
		if err := w.Set(&sets[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if got, err := oaipmh.NewReader(&b, oaipmh.ReaderOptions{}).Sets(); err != nil || !slices.Equal(got, sets) {
		t.Errorf("%q, %v, want %q\n%s", got, err, sets, text)
	}
	if n := strings.Count(text, "<setDescription>"); n != 1 {
		t.Errorf("%d descriptions:\n%s", n, text)
	}
}

// A response answers one verb: parts of another are refused, as are a response
// without parts, and metadata without an element.
func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	newWriter := func() *oaipmh.Writer { return oaipmh.NewWriter(io.Discard, writeHead, oaipmh.Second) }
	w := newWriter()
	if err := errors.Join(w.Set(&oaipmh.Set{Spec: "a"}), w.Format(&oaipmh.Format{Prefix: "b"}), w.Close()); err == nil {
		t.Error("a format among sets was accepted")
	}
	if err := newWriter().Close(); err == nil {
		t.Error("an empty response was accepted")
	}
	for _, bad := range []string{"", "text", "<!-- a -->", "<?a", "<a", "<!DOCTYPE a>", `<a b=">`} {
		if err := newWriter().Record(&oaipmh.Record{Metadata: []byte(bad)}); err == nil {
			t.Errorf("metadata %q was accepted", bad)
		}
	}
	w = newWriter()
	if err := errors.Join(w.Set(&oaipmh.Set{Spec: "a"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Set(&oaipmh.Set{Spec: "a"}); err == nil {
		t.Error("a set behind the end was accepted")
	}
	w = oaipmh.NewWriter(&full{}, writeHead, oaipmh.Second)
	var err error
	for range 10_000 {
		err = errors.Join(err, w.Set(&oaipmh.Set{Spec: "a"}))
	}
	if err == nil || w.Close() == nil {
		t.Error("writing failed, and nobody was told")
	}
}

type full struct{}

func (*full) Write([]byte) (int, error) { return 0, errors.New("full") }

// EndOfDatestamp follows the definition of until (OAI-PMH 2.0, 2.7.1).
func TestEndOfDatestamp(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"2026-02-28": "2026-02-28T23:59:59.999999Z", "2026-02-28T23:59:59Z": "2026-02-28T23:59:59.999999Z", "2024-02-28T00:00:00Z": "2024-02-28T00:00:00.999999Z",
	} {
		at, g, err := oaipmh.ParseDatestamp(in)
		if got := oaipmh.EndOfDatestamp(at, g).Format(time.RFC3339Nano); err != nil || got != want {
			t.Errorf("EndOfDatestamp(%s) = %s, want %s", in, got, want)
		}
	}
}

// Documents that are valid metadata, and others.
func TestDocument(t *testing.T) {
	t.Parallel()
	const xsi = ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`
	for _, tt := range []struct{ doc, namespace, schema, want string }{
		{`<r xmlns="urn:a"/>`, "urn:a", "", `<r xmlns="urn:a"/>`},
		{"\xef\xbb\xbf<?xml version='1.0' encoding='UTF-8'?>\n<!DOCTYPE p:r SYSTEM 'r.dtd'>\n<p:r xmlns:p='urn:a'>é</p:r>\n<!-- x -->", "urn:a", "", `<p:r xmlns:p='urn:a'>é</p:r>`},
		{"<?xml version='1.0' encoding='ISO-8859-1'?><r xmlns='urn:a'>\xe9</r>", "urn:a", "", "<r xmlns='urn:a'>é</r>"},
		{`<r xmlns="urn:a"` + xsi + ` xsi:schemaLocation="urn:b b.xsd urn:a a.xsd"/>`, "urn:a", "a.xsd", `<r xmlns="urn:a"` + xsi + ` xsi:schemaLocation="urn:b b.xsd urn:a a.xsd"/>`},
	} {
		m, err := oaipmh.Document(strings.NewReader(tt.doc), 1<<20)
		if err != nil || m.Namespace != tt.namespace || m.Schema != tt.schema || string(m.Document) != tt.want {
			t.Errorf("%s: %q in %q, schema %q, %v", tt.doc, m.Document, m.Namespace, m.Schema, err)
		}
	}
	for _, doc := range []string{
		"", "text", "<r/>", "<p:r/>", `<r xmlns="urn:a">`, `<r xmlns="urn:a"/><r/>`, `<r xmlns="urn:a"/>text`, "<r xmlns='urn:a'>\x01</r>", "<r xmlns='urn:a'>\xff</r>",
		`<!DOCTYPE r [<!ENTITY e "x">]><r xmlns="urn:a">&e;</r>`, `<r xmlns="urn:a">&e;</r>`, `<html xmlns="http://www.w3.org/1999/xhtml"/>`,
		strings.Repeat(`<r xmlns="urn:a">`, 1000) + strings.Repeat("</r>", 1000), `<r xmlns="urn:a">` + strings.Repeat("x", 1<<20) + "</r>",
	} {
		if m, err := oaipmh.Document(strings.NewReader(doc), 1<<20); err == nil {
			t.Errorf("%.60q is taken for %q", doc, m.Document)
		}
	}
}

// names lists the elements of a document with their namespaces, by encoding/xml.
func names(doc []byte, inside string) (all []string, err error) {
	depth, begun := 0, inside == ""
	for d := xml.NewDecoder(bytes.NewReader(doc)); ; {
		t, err := d.Token()
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
		switch e := t.(type) {
		case xml.StartElement:
			if begun {
				depth++
				all = append(all, fmt.Sprintf("%d %s %s", depth, e.Name.Space, e.Name.Local))
			}
			begun = begun || e.Name.Local == inside
		case xml.EndElement:
			if depth--; begun && depth < 0 {
				return all, nil
			}
			depth = max(depth, 0)
		}
	}
}

// Inserting valid metadata leaves a response well formed and does not change
// the meaning of the metadata.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`<r xmlns="urn:a"><b xmlns=""/></r>`, `<p:r xmlns:p="urn:a"><b/><p:c d="&lt;" p:e='"'/></p:r>`, "<?xml version='1.0'?><!-- > --><r\nxmlns = 'urn:a' ><![CDATA[]]></r><?x y?>",
		`<a xmlnsx="" xmlns:xmlnsy="urn:b" xmlns='urn:a'>]]&gt;</a>`, `<p:r xmlns:p="urn:a" a="xmlns='x'"><b/></p:r>`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := oaipmh.Document(bytes.NewReader(doc), 1<<20)
		if err != nil {
			return
		}
		var b bytes.Buffer
		w := oaipmh.NewWriter(&b, writeHead, oaipmh.Second)
		if err := errors.Join(w.Record(&oaipmh.Record{Identifier: "x", Metadata: m.Document}), w.Close()); err != nil {
			t.Fatalf("%q: %v", m.Document, err)
		}
		want, err := names(m.Document, "")
		if err != nil {
			return // encoding/xml disagrees
		}
		got, err := names(b.Bytes(), "metadata")
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q became\n%s\nelements %q, want %q, %v", m.Document, &b, got, want, err)
		}
		n := 0
		for rec, err := range oaipmh.NewReader(&b, oaipmh.ReaderOptions{}).Records() {
			if err != nil || rec.Namespace != m.Namespace {
				t.Fatalf("%q is read as %q, %v", m.Document, rec.Namespace, err)
			}
			n++
		}
		if n != 1 {
			t.Fatalf("%d records", n)
		}
	})
}

// Each metadata part states the location of its schema (OAI-PMH 2.0, 2.5); one
// that does already, or binds xsi to another namespace, stays unchanged.
func TestLocate(t *testing.T) {
	t.Parallel()
	const xsi = ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`
	for _, tt := range []struct{ doc, want string }{
		{`<r xmlns="urn:a"><b/></r>`, `<r` + xsi + ` xsi:schemaLocation="urn:a s.xsd?a&amp;b" xmlns="urn:a"><b/></r>`},
		{`<p:r xmlns:p="urn:a"` + xsi + `/>`, `<p:r xsi:schemaLocation="urn:a s.xsd?a&amp;b" xmlns:p="urn:a"` + xsi + `/>`},
		{`<r xmlns="urn:a"` + xsi + ` xsi:schemaLocation="urn:b b.xsd"/>`, ""},
		{`<r xmlns="urn:a" xmlns:xsi="urn:x"/>`, ""},
	} {
		m, err := oaipmh.Document(strings.NewReader(tt.doc), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		m.Locate("")
		for range 2 {
			m.Locate("s.xsd?a&b")
		}
		if tt.want == "" {
			tt.want = tt.doc
		}
		if got := string(m.Document); got != tt.want {
			t.Errorf("%s became\n%s, want\n%s", tt.doc, got, tt.want)
		}
		if m, err = oaipmh.Document(strings.NewReader(tt.want), 1<<20); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
}
