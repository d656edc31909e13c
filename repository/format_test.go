package repository_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// XML contents are available unchanged, in the format of their root; a resource
// that changes to another format becomes deleted in the lists of the old one.
func TestFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const own = `<r:r xmlns:r="urn:example:r" a="1 > 2"><b>x</b><c xmlns="urn:c"/></r:r>`
	w.put("https://example.org/1", "application/xml; charset=utf-8", "\ufeff<?xml version='1.0'?>\n<!DOCTYPE r:r>\n<!-- <x> -->"+own+"<!-- end -->\n")
	w.put("https://example.org/2", "application/rdf+xml", "<x")
	w.put("https://example.org/3", "text/xml", "<noNamespace/>")
	w.put("https://example.org/4", "text/plain", own)
	w.put("https://example.org/5", "text/xml", `<!DOCTYPE r [<!ENTITY e "x">]><r xmlns="urn:example:r">&e;</r>`)
	w.put("https://example.org/6", "text/xml", `<r xmlns="urn:example:r" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="urn:example:r https://example.org/r.xsd"/>`)
	const dc = `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Own</dc:title></oai_dc:dc>`
	w.put("https://example.org/7", "text/xml", dc)
	located := strings.Replace(dc, "<oai_dc:dc", `<oai_dc:dc xmlns:xsi="`+xsiSpace+`" xsi:schemaLocation="`+dcSpace+" "+dcSpace[:len(dcSpace)-1]+`.xsd"`, 1)
	w.put("https://example.org/8", "text/xml", `<OAI-PMH xmlns="`+oaiSpace+`"/>`)
	w.put("https://example.org/9", "text/xml", `<r xmlns="not %zz"/>`)
	w.put("https://example.org/A", "text/xml", `<r xmlns="urn:`+strings.Repeat("x", 1<<16)+`"/>`)
	r := w.ask("verb=ListMetadataFormats")
	if len(r.Formats) != 2 || r.Formats[1].Namespace != "urn:example:r" {
		t.Fatalf("formats %+v", r.Formats)
	}
	prefix := r.Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	rs := w.all(list)
	wantIDs(t, rs, "https://example.org/1", "https://example.org/6")
	if got, want := strings.TrimSpace(rs[0].Records[0].Metadata.Inner), strings.Replace(own, "<r:r", `<r:r xmlns=""`, 1); got != want {
		t.Errorf("metadata\n%s\nwant\n%s", got, want)
	}
	if rs := w.all("verb=ListRecords&metadataPrefix=oai_dc"); len(ids(rs)) != 10 || strings.TrimSpace(rs[0].Records[6].Metadata.Inner) != located {
		t.Errorf("as oai_dc: %v, the last %s", ids(rs), rs[0].Records[6].Metadata.Inner)
	}
	w.pass(time.Minute)
	w.put("https://example.org/1", "application/xml", `<other xmlns="urn:example:o"/>`)
	wantIDs(t, w.all(list), "https://example.org/6", "-https://example.org/1")
	if r := w.ask("verb=GetRecord&identifier=https://example.org/1&metadataPrefix=" + prefix); len(r.Got) != 1 || r.Got[0].Header.Status != "deleted" {
		t.Errorf("what left the format: %+v", r)
	}
	w.pass(time.Minute)
	w.remove("https://example.org/6")
	wantIDs(t, w.all(list), "-https://example.org/1", "-https://example.org/6")
	w.put("https://example.org/1", "application/xml", own)
	wantIDs(t, w.all(list), "-https://example.org/6", "https://example.org/1")
}

// A resource that cannot be read is left out, and found by a later harvest once
// it can be read; other resources are not affected.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, n := range []string{"1", "2", "3"} {
		w.put("https://example.org/"+n, "text/xml", `<r xmlns="urn:example:r">`+n+`</r>`)
	}
	prefix := w.ask("verb=ListMetadataFormats").Formats[1].Prefix
	list := "verb=ListRecords&metadataPrefix=" + prefix
	w.fail("https://example.org/2", errors.New("the disk is gone"))
	w.pass(time.Minute)
	rs := w.all(list)
	wantIDs(t, rs, "https://example.org/1", "https://example.org/3")
	if got := w.do(http.MethodGet, "verb=GetRecord&identifier=https://example.org/2&metadataPrefix="+prefix, nil); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("GetRecord of it: status %d, %v", got.Code, got.Header())
	}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc"), "https://example.org/1", "https://example.org/2", "https://example.org/3")
	w.pass(time.Minute)
	w.fail("https://example.org/2", nil)
	w.restart()
	wantIDs(t, w.all(list+"&from="+rs[0].ResponseDate), "https://example.org/2")
	wantIDs(t, w.all(list), "https://example.org/1", "https://example.org/3", "https://example.org/2")
}
