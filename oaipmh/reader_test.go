package oaipmh_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstep/oaipmh"
)

// response returns a response to ListRecords with the given body.
func response(body string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">
<responseDate>2024-05-17T09:30:00Z</responseDate>
<request verb="ListRecords" metadataPrefix="oai_dc" set="a:b" from="2024-05-01">http://example.org/oai</request>
<ListRecords>` + body + `</ListRecords></OAI-PMH>`
}

// record returns a record with metadata of this content.
func record(metadata string) string {
	return `<record><header><identifier>oai:x:1</identifier><datestamp>2024-05-16</datestamp></header><metadata>` + metadata + `</metadata></record>`
}

// read reads all records of a response, through Clean.
func read(text string) (recs []oaipmh.Record, r *oaipmh.Reader, err error) {
	r = oaipmh.NewReader(oaipmh.Clean(strings.NewReader(text)), oaipmh.ReaderOptions{})
	for rec, err := range r.Records() {
		if err != nil {
			return recs, r, err
		}
		recs = append(recs, rec)
	}
	return recs, r, nil
}

const xmlDecl = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

func TestReader(t *testing.T) {
	t.Parallel()
	recs, r, err := read(response(`
<record><header><identifier> oai:x:1 </identifier><datestamp>2024-05-16T10:00:00Z</datestamp><setSpec>a</setSpec><setSpec>a:b</setSpec></header>
<metadata><oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"><record>not ours</record></oai_dc:dc></metadata>
<about><provenance xmlns="urn:p"><record><header/></record></provenance></about></record>
<record><header status="deleted"><identifier>oai:x:2</identifier><datestamp>2024-05-16</datestamp></header></record>
<record><header status="Deleted"><identifier>oai:x:3</identifier><datestamp>yesterday</datestamp></header><metadata><a xmlns=""/></metadata></record>
<record><header><identifier>oai:x:4</identifier><datestamp>2024-05-16 10:00:00</datestamp></header><metadata/></record>
<record><header><identifier>oai:x:5</identifier><datestamp>2024-05-16T12:00:00+02:00</datestamp></header></record>
<resumptionToken expirationDate="2024-05-18T00:00:00Z" completeListSize="120" cursor="5"> a&amp;b </resumptionToken>`))
	if err != nil {
		t.Fatal(err)
	}
	ten := time.Date(2024, 5, 16, 10, 0, 0, 0, time.UTC)
	day := ten.Truncate(24 * time.Hour)
	for i, want := range []string{
		fmt.Sprint("oai:x:1 ", ten, " [a a:b] false http://www.openarchives.org/OAI/2.0/oai_dc/"),
		fmt.Sprint("oai:x:2 ", day, " [] true "), fmt.Sprint("oai:x:3 ", time.Time{}, " [] true "),
		fmt.Sprint("oai:x:4 ", ten, " [] false "), fmt.Sprint("oai:x:5 ", ten, " [] false "),
	} {
		rec := &recs[i]
		if got := fmt.Sprint(rec.Identifier, " ", rec.Datestamp, " ", rec.Sets, " ", rec.Deleted, " ", rec.Namespace); got != want {
			t.Errorf("record %d = %s, want %s", i, got, want)
		}
		if (rec.Metadata != nil) != (i == 0) {
			t.Errorf("record %d has metadata %q", i, rec.Metadata)
		}
	}
	const doc = xmlDecl + `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns="http://www.openarchives.org/OAI/2.0/"><record>not ours</record></oai_dc:dc>` + "\n"
	if got := string(recs[0].Metadata); !strings.Contains(got, `xmlns="http://www.openarchives.org/OAI/2.0/"`) || len(got) != len(doc) {
		t.Errorf("metadata = %s, want as %s", got, doc)
	}
	head, _ := r.Header()
	want := oaipmh.Request{URL: "http://example.org/oai", Verb: oaipmh.VerbListRecords, MetadataPrefix: "oai_dc", Set: "a:b", From: "2024-05-01"}
	if !head.ResponseDate.Equal(time.Date(2024, 5, 17, 9, 30, 0, 0, time.UTC)) || head.Request != want {
		t.Errorf("header = %+v", head)
	}
	token, ok := r.Token()
	if !ok || token.Value != "a&b" || token.Complete != 120 || token.Cursor != 5 || token.Expires.IsZero() || r.Verb() != oaipmh.VerbListRecords {
		t.Errorf("token = %+v of %s", token, r.Verb())
	}
}

// TestReaderMetadata: metadata is returned as a document of its own, which is well
// formed if that is possible without guessing.
func TestReaderMetadata(t *testing.T) {
	t.Parallel()
	const dc = `xmlns:dc="http://purl.org/dc/elements/1.1/"`
	for name, tt := range map[string]struct{ in, want string }{
		"as it is":            {`<a xmlns="urn:x" b="1">t<!-- c --><c/></a>`, `<a xmlns="urn:x" b="1">t<!-- c --><c/></a>`},
		"a page":              {`<html xmlns="http://www.w3.org/1999/xhtml"/>`, `<html xmlns="http://www.w3.org/1999/xhtml"/>`},
		"around":              {"\n  <!-- x --><a xmlns='urn:x'/>\n", `<a xmlns='urn:x'/>`},
		"the first root":      {`<a xmlns="urn:x"/><b xmlns="urn:x"/>`, `<a xmlns="urn:x"/>`},
		"text only":           {`text`, ""},
		"declared outside":    {`<a xmlns="" xsi:nil="true"/>`, `<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns="" xsi:nil="true"/>`},
		"control":             {"<a xmlns=''>\x07&#x1f;&#0;&#xD800;</a>", "<a xmlns=''>\uFFFD\uFFFD\uFFFD\uFFFD</a>"},
		"ampersand":           {`<a xmlns="" b="R&D&x=1">AT&T & co &amp; &lt;</a>`, `<a xmlns="" b="R&amp;D&amp;x=1">AT&amp;T &amp; co &amp; &lt;</a>`},
		"entities":            {`<a xmlns="">&nbsp;&eacute;&hellip;</a>`, "<a xmlns=\"\">\u00a0é…</a>"},
		"latin-1":             {"<a xmlns=''>caf\xe9</a>", "<a xmlns=''>caf\uFFFD</a>"},
		"CDATA":               {"<a xmlns=''><![CDATA[R&D \x01 &x; ]]></a>", "<a xmlns=''><![CDATA[R&D \uFFFD &x; ]]></a>"},
		"undeclared, known":   {`<dc:title>x</dc:title>`, `<dc:title ` + dc + `>x</dc:title>`},
		"undeclared, unknown": {`<zz:title>x</zz:title>`, "!"},
		"undeclared inside":   {`<a xmlns=""><dc:b/></a>`, `<a ` + dc + ` xmlns=""><dc:b/></a>`},
		"declared inside":     {`<a xmlns=""><dc:b ` + dc + `/></a>`, `<a xmlns=""><dc:b ` + dc + `/></a>`},
		"mentioned":           {`<a xmlns="">see dc:title</a>`, `<a xmlns="">see dc:title</a>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recs, _, err := read(response(record(tt.in)))
			if _, syntax := errors.AsType[*oaipmh.SyntaxError](err); syntax && tt.want == "!" {
				return
			}
			if err != nil || len(recs) != 1 {
				t.Fatal(recs, err)
			}
			want := tt.want
			if want != "" {
				want = xmlDecl + want + "\n"
			}
			if got := string(recs[0].Metadata); got != want {
				t.Errorf("metadata = %q, want %q", got, want)
			}
		})
	}
	recs, _, err := read(strings.ReplaceAll(response(record(`<a xmlns="" xsi:nil="true"/>`)), "xmlns:xsi", "xmlns:other"))
	if want := `<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns="" xsi:nil="true"/>`; err != nil || !strings.Contains(string(recs[0].Metadata), want) {
		t.Errorf("metadata = %v, error %v, want %s", recs, err, want)
	}
}

// TestReaderUndeclared: a missing declaration is added only to the records that
// need it: the same record always becomes the same bytes, whatever other records
// the response has.
func TestReaderUndeclared(t *testing.T) {
	t.Parallel()
	const plain = `<a xmlns="">dc:title &lt;dc:title</a>`
	recs, _, err := read(response(record(plain) + record(`<dc:title/>`) + record(plain)))
	if err != nil || string(recs[0].Metadata) != string(recs[2].Metadata) || strings.Contains(string(recs[0].Metadata), "xmlns:dc") {
		t.Errorf("%v, error %v", recs, err)
	}
}

// TestReaderShapes reads real forms of responses, valid and invalid.
func TestReaderShapes(t *testing.T) {
	t.Parallel()
	one := response(record(`<a xmlns="urn:a"/>`))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(one))
	_ = z.Close()
	prefixed := strings.NewReplacer("<", "<o:", "</", "</o:", "<?", "<?", "xmlns=", "xmlns:o=").Replace(response(record("")))
	prefixed = strings.ReplaceAll(strings.ReplaceAll(prefixed, "<o:?", "<?"), "<o:/", "</o:")
	for name, text := range map[string]string{
		"as it should":     one,
		"BOM":              "\ufeff" + one,
		"blank before":     "\r\n\n " + one,
		"comment before":   strings.Replace(one, "?>", "?><?xml-stylesheet type='text/xsl' href='oai.xsl'?><!-- made by -->", 1),
		"no declaration":   strings.TrimPrefix(one, xmlDecl),
		"no namespace":     strings.Replace(one, `xmlns="http://www.openarchives.org/OAI/2.0/"`, "", 1),
		"old namespace":    strings.Replace(one, "OAI/2.0/", "OAI/2.0", 1),
		"no xsi":           strings.Replace(one, "xmlns:xsi", "xmlns:other", 1),
		"prefixed":         prefixed,
		"gzip":             zipped.String(),
		"blank behind":     one + "\n\n",
		"token beside":     strings.Replace(one, "</ListRecords>", "</ListRecords><resumptionToken/>", 1),
		"other elements":   strings.Replace(one, "<record>", "<x:y xmlns:x='urn:x'><record/></x:y><record>", 1),
		"no responseDate":  strings.Replace(one, "responseDate", "respondedAt", 2),
		"empty response":   strings.Replace(one, "<ListRecords>", "<ListRecords><resumptionToken/>", 1),
		"latin-1 declared": strings.Replace(one, "UTF-8", "ISO-8859-1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if recs, _, err := read(text); err != nil || len(recs) != 1 || recs[0].Identifier != "oai:x:1" {
				t.Errorf("%+v, error %v of %s", recs, err, text)
			}
		})
	}
}

// TestReaderErrors distinguishes the kinds of unusable responses.
func TestReaderErrors(t *testing.T) {
	t.Parallel()
	body := func(s string) string { return `<OAI-PMH xmlns="` + oaipmh.Namespace + `">` + s + `</OAI-PMH>` }
	for name, tt := range map[string]struct {
		in   string
		is   error
		want string
	}{
		"error":              {in: body(`<error code="noRecordsMatch">No  "records"` + "\n" + `</error>`), want: `the repository answers noRecordsMatch: No "records"`},
		"two errors":         {in: body(`<error code="badVerb"/><error code="badArgument">x</error>`), want: "badVerb\nthe repository answers badArgument: x"},
		"error with markup":  {in: body(`<error code="badArgument"><p>What <b>is</b> that?</p></error>`), want: "badArgument: What is that?"},
		"error in a list":    {in: response(`<error code="noRecordsMatch">none</error>`), want: "the repository answers noRecordsMatch: none"},
		"error after a list": {in: strings.Replace(response(""), "</OAI", `<error code="x">y</error></OAI`, 1), want: "answers x: y"},
		"long error":         {in: body(`<error code="badArgument">` + strings.Repeat("long ", 1000) + `</error>`), want: "long …"},
		"neither":            {in: body(""), is: oaipmh.ErrNotOAI},
		"html":               {in: "<!DOCTYPE html><html><body></body></html>", is: oaipmh.ErrHTML},
		"html without type":  {in: "<html><head/></html>", is: oaipmh.ErrHTML},
		"atom":               {in: "<feed xmlns='http://www.w3.org/2005/Atom'/>", is: oaipmh.ErrNotOAI},
		"json":               {in: `{"error": "x"}`, is: oaipmh.ErrNotOAI},
		"nothing":            {in: "", is: oaipmh.ErrNotOAI},
		"cut":                {in: response(record("<a xmlns=''/>"))[:550], want: "cut off"},
		"deep":               {in: response(record(strings.Repeat("<a>", 1000))), is: oaipmh.ErrLimit},
		"bomb":               {in: `<!DOCTYPE x [<!ENTITY a "aaa">]>` + body(""), want: "document type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := read(tt.in)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %v %s", err, tt.is, tt.want)
			}
		})
	}
	_, _, err := read(body(`<error code="badVerb"/><error code="badArgument">x</error>`))
	if !oaipmh.HasCode(fmt.Errorf("x: %w", err), oaipmh.CodeBadArgument) || len(oaipmh.ErrorsIn(err)) != 2 {
		t.Errorf("errors in %v: %v", err, oaipmh.ErrorsIn(err))
	}
}

// readable reports whether err is of a documented kind.
func readable(err error) bool {
	_, syntax := errors.AsType[*oaipmh.SyntaxError](err)
	return syntax || len(oaipmh.ErrorsIn(err)) > 0 || errors.Is(err, oaipmh.ErrNotOAI) || errors.Is(err, oaipmh.ErrHTML) || errors.Is(err, oaipmh.ErrLimit)
}

// TestReaderLimit refuses a record that is too large, in bounded memory.
func TestReaderLimit(t *testing.T) {
	t.Parallel()
	text := response(record(`<a xmlns="urn:a">` + strings.Repeat("x", 100_000) + `</a>`))
	r := oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{MaxRecord: 50_000})
	if err := r.Read(new(oaipmh.Record)); !errors.Is(err, oaipmh.ErrLimit) {
		t.Errorf("error = %v, want ErrLimit", err)
	}
	r = oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{MaxRecord: 200_000})
	var rec oaipmh.Record
	if err := r.Read(&rec); err != nil || len(rec.Metadata) < 100_000 {
		t.Errorf("%d bytes, error %v", len(rec.Metadata), err)
	}
	if err := r.Read(&rec); !errors.Is(err, io.EOF) {
		t.Errorf("error = %v, want EOF", err)
	}
}

// TestReaderTexts: the texts of a response that describes a repository are limited
// together, and so are those of one record.
func TestReaderTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	answer := func(verb, text string) *oaipmh.Reader {
		return oaipmh.NewReader(strings.NewReader(`<OAI-PMH xmlns="`+oaipmh.Namespace+`"><`+verb+`>`+text+`</`+verb+`></OAI-PMH>`), oaipmh.ReaderOptions{})
	}
	repeated := func(n int, before, after string) string { return strings.Repeat(before+long+after, n) }
	_, sets := answer("ListSets", repeated(40, "<set><setName>", "</setName></set>")).Sets()
	_, formats := answer("ListMetadataFormats", repeated(40, "<metadataFormat><schema>", "</schema></metadataFormat>")).Formats()
	_, identify := answer("Identify", repeated(40, "<adminEmail>", "</adminEmail>")).Identify()
	record := answer("ListIdentifiers", "<header>"+repeated(40, "<setSpec>", "</setSpec>")+"</header>").Read(new(oaipmh.Record))
	for what, err := range map[string]error{"Sets": sets, "Formats": formats, "Identify": identify, "a record": record} {
		if !errors.Is(err, oaipmh.ErrLimit) {
			t.Errorf("%s with 40 MiB of text: error %v, want ErrLimit", what, err)
		}
	}
	r, n := answer("ListIdentifiers", repeated(40, "<header><setSpec>", "</setSpec></header>")), 0
	for _, err := range r.Records() {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 40 {
		t.Errorf("%d records, want 40", n)
	}
}

// TestReaderMessage: an error message of megabytes costs little more memory than
// reading it.
func TestReaderMessage(t *testing.T) {
	message := strings.Repeat("a ", 4<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := oaipmh.NewReader(strings.NewReader(`<OAI-PMH xmlns="`+oaipmh.Namespace+`"><error code="x">`+message+`</error></OAI-PMH>`), oaipmh.ReaderOptions{}).Sets()
	runtime.ReadMemStats(&after)
	if all := oaipmh.ErrorsIn(err); len(all) != 1 || all[0].Message != strings.Repeat("a ", 150)+"…" {
		t.Errorf("error %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 100<<20 {
		t.Errorf("%d MB were allocated for a message of 8 MB", got>>20)
	}
}

func TestReaderIdentify(t *testing.T) {
	t.Parallel()
	text := `<OAI-PMH xmlns="` + oaipmh.Namespace + `"><Identify><repositoryName>R</repositoryName><baseURL>http://x/oai</baseURL>
<protocolVersion>2.0</protocolVersion><adminEmail>a@x</adminEmail><adminEmail>b@x</adminEmail><earliestDatestamp>0001-01-01</earliestDatestamp>
<deletedRecord>Transient</deletedRecord><granularity>yyyy-mm-ddThh:mm:ssZ</granularity><compression>gzip</compression>
<description><oai-identifier xmlns="urn:i"><baseURL>no</baseURL></oai-identifier></description></Identify></OAI-PMH>`
	id, err := oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{}).Identify()
	if err != nil || id.RepositoryName != "R" || id.BaseURL != "http://x/oai" || len(id.AdminEmails) != 2 || id.DeletedRecord != oaipmh.DeletedTransient ||
		id.Granularity != oaipmh.Second || id.Compressions[0] != "gzip" || id.EarliestDatestamp.Year() > 1 {
		t.Errorf("%+v, error %v", id, err)
	}
	id, err = oaipmh.NewReader(strings.NewReader(strings.NewReplacer("Transient", "of course", "yyyy-mm-ddThh:mm:ssZ", "minutes").Replace(text)), oaipmh.ReaderOptions{}).Identify()
	if err != nil || id.DeletedRecord != oaipmh.DeletedNo || id.Granularity != oaipmh.Day {
		t.Errorf("%+v, error %v, want what is always true", id, err)
	}
	if _, err = oaipmh.NewReader(strings.NewReader(response("")), oaipmh.ReaderOptions{}).Identify(); !errors.Is(err, oaipmh.ErrNotOAI) {
		t.Errorf("error = %v of another verb's answer", err)
	}
}

func TestReaderLists(t *testing.T) {
	t.Parallel()
	text := `<OAI-PMH xmlns="` + oaipmh.Namespace + `"><ListSets><set><setSpec>a:b</setSpec><setName>A &amp; B</setName><setDescription><x xmlns=""/></setDescription>
<setDescription><oai_dc:dc xmlns:oai_dc="` + oaipmh.DublinCoreNamespace + `" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>T</dc:title><dc:description>Both &lt;of them></dc:description><dc:description>x</dc:description></oai_dc:dc></setDescription></set>
<set><setSpec>c</setSpec></set><resumptionToken>next</resumptionToken></ListSets></OAI-PMH>`
	r := oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{})
	sets, err := r.Sets()
	if token, _ := r.Token(); err != nil || fmt.Sprintf("%q", sets) != `[{"a:b" "A & B" "Both <of them>"} {"c" "" ""}]` || token.Value != "next" {
		t.Errorf("%v, error %v", sets, err)
	}
	text = `<OAI-PMH xmlns="` + oaipmh.Namespace + `"><ListMetadataFormats><metadataFormat><metadataPrefix>oai_dc</metadataPrefix><schema>S</schema>
<metadataNamespace>N</metadataNamespace></metadataFormat></ListMetadataFormats></OAI-PMH>`
	formats, err := oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{}).Formats()
	if err != nil || fmt.Sprint(formats) != "[{oai_dc S N}]" {
		t.Errorf("%v, error %v", formats, err)
	}
	if _, err := oaipmh.NewReader(strings.NewReader(text), oaipmh.ReaderOptions{}).Sets(); !errors.Is(err, oaipmh.ErrNotOAI) {
		t.Errorf("error = %v of another verb's answer", err)
	}
}

// FuzzReader reads any input: it terminates, errors are of the documented
// kinds, and the metadata of a record is a document that reads back the same.
func FuzzReader(f *testing.F) {
	f.Add([]byte(response(record(`<a xmlns:b="urn:b"><b:c>&amp;</b:c></a>`) + `<resumptionToken cursor="0">x</resumptionToken>`)))
	f.Add([]byte(response(record(`<dc:x xsi:y=""/>`))))
	f.Add([]byte(`<OAI-PMH><error code="badVerb"/></OAI-PMH>`))
	f.Add([]byte(`<OAI-PMH><GetRecord><record><header status="deleted"/></record></GetRecord></OAI-PMH>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		recs, r, err := read(string(b))
		if err != nil && !readable(err) {
			t.Fatalf("error %v (%T)", err, err)
		}
		if _, ok := r.Token(); ok && r.Verb() == "" && err == nil {
			t.Fatal("a token of no answer")
		}
		for _, rec := range recs {
			if rec.Metadata == nil {
				continue
			}
			again, _, err := read(`<o:OAI-PMH xmlns:o="` + oaipmh.Namespace + `"><o:ListRecords><o:record><o:metadata>` +
				strings.TrimPrefix(string(rec.Metadata), xmlDecl) + `</o:metadata></o:record></o:ListRecords></o:OAI-PMH>`)
			if err != nil || len(again) != 1 || again[0].Namespace != rec.Namespace || string(again[0].Metadata) != string(rec.Metadata) {
				t.Fatalf("%q reads back as %v, error %v", rec.Metadata, again, err)
			}
		}
	})
}
