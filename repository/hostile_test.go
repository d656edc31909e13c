package repository_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/repository"
)

// Any stored documents lead to valid responses: a document that cannot be a
// record is described in oai_dc.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) { o.Records = 7 })
	records := 0
	for i, tt := range []struct {
		text   string
		record bool
	}{
		{`<!DOCTYPE r [<!ENTITY a "a"><!ENTITY b "&a;&a;&a;">]><r xmlns="urn:1">&b;</r>`, false},
		{`<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r xmlns="urn:1">&a;</r>`, false},
		{`<!DOCTYPE r SYSTEM "http://127.0.0.1:1/r.dtd"><r xmlns="urn:1"/>`, true}, // which is never requested
		{`<r xmlns="urn:1">`, false},
		{`</metadata></record><record>`, false},
		{`<r xmlns="urn:1">]]></metadata></r>`, false},
		{`<p:r xmlns:p="urn:1"><![CDATA[</metadata></record>]]><!-- </metadata> --><?p </metadata>?><resumptionToken>x</resumptionToken></p:r>`, true},
		{`<p:r xmlns:p="urn:1"/><p:r xmlns:p="urn:1"/>`, false},
		{`<p:r xmlns:q="urn:1"/>`, false},
		{"<r xmlns='urn:1'>\x01</r>", false},
		{"<r xmlns='urn:1'>&#1;</r>", false},
		{"<r xmlns='urn:1'>\xff</r>", false},
		{"<?xml version='1.0' encoding='UTF-16'?><r xmlns='urn:1'/>", false},
		{"<?xml version='1.0' encoding='ISO-8859-1'?><r xmlns='urn:1'>\xe9</r>", true},
		{`<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badVerb"/></OAI-PMH>`, false},
		{strings.Repeat(`<r xmlns="urn:1">`, 100_000) + strings.Repeat(`</r>`, 100_000), false},
		{`<r xmlns="urn:1"><a ` + strings.Repeat(`b="" `, 1000) + `/></r>`, false},
		{`<r xmlns="urn:1">` + strings.Repeat(" ", 5<<20) + `</r>`, false},
		{`<html><body><p>not found`, false},
		{"", false},
	} {
		w.put(fmt.Sprintf("https://example.org/%03d", i), "application/xml", tt.text)
		if tt.record {
			records++
		}
		if got := len(ids(w.all("verb=ListRecords&metadataPrefix=oai_dc"))); got != i+1 {
			t.Fatalf("%.60s: %d records of oai_dc, want %d", tt.text, got, i+1)
		}
		got := 0
		if formats := w.ask("verb=ListMetadataFormats").Formats; len(formats) > 1 {
			got = len(ids(w.all("verb=ListRecords&metadataPrefix=" + formats[1].Prefix)))
		}
		if got != records {
			t.Fatalf("%.60s: %d records of its own format, want %d", tt.text, got, records)
		}
	}
}

// A file that is too large according to the catalog is not opened; of one with
// unknown length no more is read than a record may have.
func TestLarge(t *testing.T) {
	t.Parallel()
	endless := &endlessXML{}
	w := newWorld(t, func(o *repository.Options) {
		o.Sets[0].Open = func(context.Context, *catalog.Record) (io.ReadCloser, error) { return io.NopCloser(endless), nil }
	})
	w.apply(listURI, catalog.Update{Record: catalog.Record{URI: "https://example.org/known", Type: "text/xml", Length: 1 << 30}})
	const get = "verb=GetRecord&metadataPrefix=oai_dc&identifier=https://example.org/"
	wantIDs(t, []*response{w.ask(get + "known")}, "https://example.org/known")
	if endless.read > 0 {
		t.Errorf("%d bytes were read of a file that is too large", endless.read)
	}
	w.apply(listURI, catalog.Update{Record: catalog.Record{URI: "https://example.org/unknown", Type: "text/xml", Length: -1}})
	wantIDs(t, []*response{w.ask(get + "unknown")}, "https://example.org/unknown")
	if endless.read > 5<<20 {
		t.Errorf("%d bytes were read of a file without end", endless.read)
	}
}

// An endlessXML is a document that never ends.
type endlessXML struct{ read int }

func (e *endlessXML) Read(b []byte) (int, error) {
	n := 0
	if e.read == 0 {
		n = copy(b, `<r xmlns="urn:example:r">`)
	}
	for i := n; i < len(b); i++ {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}
