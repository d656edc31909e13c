package resourcesync_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep/resourcesync"
)

// foreignRoot declares namespaces as documents do: for all of their entries.
const foreignRoot = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"` +
	` xmlns:dc="http://purl.org/dc/terms/" xmlns:x="urn:x" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">` + upLink + listMD

// foreignTests are the children of an entry and the markup that is kept of it.
var foreignTests = []struct{ name, content, want string }{
	{"nothing", `<rs:md length="1"/>`, ``},
	{"an attribute", `<rs:md dc:title="A &quot;&lt;&amp;&#10;" length="1"/>`, `<foreign xmlns:dc="http://purl.org/dc/terms/" dc:title="A &quot;&lt;&amp;&#10;"/>`},
	{"attributes of one namespace", `<rs:md x:b="2" x:a="1"/>`, `<foreign xmlns:x="urn:x" x:b="2" x:a="1"/>`},
	{"xml:lang", `<rs:md xml:lang="en"/>`, `<foreign xml:lang="en"/>`},
	{"an attribute of a tag with its own declaration", `<rs:md xmlns:y="urn:y" y:a="1"/>`, `<foreign xmlns:y="urn:y" y:a="1"/>`},
	{"unknown attributes without a prefix", `<rs:md a="1"/>`, ``},
	{"attributes of Sitemaps", `<rs:md xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9" s:a="1"/>`, ``},
	{"one attribute twice", `<rs:md x:a="1"/><rs:md xmlns:y="urn:x" y:a="2"/>`, `<foreign xmlns:x="urn:x" x:a="1"/>`},
	{"one prefix for two namespaces", `<rs:md x:a="1"/><rs:md xmlns:x="urn:y" x:a="2"/>`, `<foreign xmlns:x="urn:x" x:a="1" xmlns:ns1="urn:y" ns1:a="2"/>`},
	{"the prefix of ResourceSync", `<y:md xmlns:y="http://www.openarchives.org/rs/terms/" xmlns:rs="urn:rs" rs:a="1"/>`, `<foreign xmlns:ns1="urn:rs" ns1:a="1"/>`},
	{"an element", `<dc:title>A &amp; B</dc:title>`, `<foreign><dc:title xmlns:dc="http://purl.org/dc/terms/">A &amp; B</dc:title></foreign>`},
	{"an empty element", `<x:a></x:a><x:b c="d"/>`, `<foreign><x:a xmlns:x="urn:x"/><x:b xmlns:x="urn:x" c="d"/></foreign>`},
	{"a default namespace", `<a xmlns="urn:a"><b xmlns=""/><c/></a>`, `<foreign><a xmlns="urn:a"><b xmlns=""/><c/></a></foreign>`},
	{"mixed content", "<x:a> <!-- no -->t<x:b/>\n<![CDATA[<c>]]><?p i?>&#13;</x:a>", "<foreign><x:a xmlns:x=\"urn:x\"> t<x:b/>\n&lt;c&gt;&#13;</x:a></foreign>"},
	{"a prefix that changes its meaning", `<x:a><x:b xmlns:x="urn:y"/><x:c/></x:a>`, `<foreign><x:a xmlns:x="urn:x"><x:b xmlns:x="urn:y"/><x:c/></x:a></foreign>`},
	{"a prefix used as a value", `<x:a xsi:type="dc:URI">u</x:a>`, `<foreign><x:a xmlns:x="urn:x" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="dc:URI" xmlns:dc="http://purl.org/dc/terms/">u</x:a></foreign>`},
	{"an element with the prefix of ResourceSync", `<rs:a xmlns:rs="urn:rs" xmlns:ns1="urn:1" ns1:b="1"><rs:c/></rs:a>`, `<foreign><ns1:a xmlns:ns1="urn:rs" xmlns:ns2="urn:1" ns2:b="1"><ns1:c/></ns1:a></foreign>`},
	{"both", `<rs:md x:a="1"/><x:b/>`, `<foreign xmlns:x="urn:x" x:a="1"><x:b xmlns:x="urn:x"/></foreign>`},
	{"an element without a namespace", `<a xmlns=""/>`, ``},
	{"an element with one of Sitemaps in it", `<x:a><priority>1</priority></x:a><x:b/>`, `<foreign><x:b xmlns:x="urn:x"/></foreign>`},
	{"an element with one of ResourceSync in it", `<x:a><x:c><rs:ln rel="via" href="urn:a"/></x:c></x:a>`, ``},
	{"XHTML", `<link xmlns="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="de"/>`, `<foreign><link xmlns="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="de"/></foreign>`},
}

// RS-XML-07: attributes and elements of foreign namespaces are kept, written, and
// read back equal, also by another parser.
func TestForeignIsKept(t *testing.T) {
	t.Parallel()
	for _, tt := range foreignTests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := readAll(foreignRoot+`<url><loc>urn:a</loc>`+tt.content+`</url></urlset>`, resourcesync.ReaderOptions{})
			if err != nil || len(got.entries) != 1 {
				t.Fatalf("%d entries, %v", len(got.entries), err)
			}
			e := got.entries[0]
			if e.Foreign.String() != tt.want {
				t.Errorf("kept %s\nwant %s", e.Foreign, tt.want)
			}
			e.Loc = "http://example.org/a"
			wantDocument(t, write(t, got.header, e), got.header, []resourcesync.Entry{e})
		})
	}
}

// Attributes of links are kept with their links; other documents than lists have
// foreign markup, too.
func TestForeignOfLinks(t *testing.T) {
	t.Parallel()
	got, err := readAll(foreignRoot+`<url><loc>http://example.org/a</loc><rs:ln rel="via" href="urn:b" x:a="1"/><rs:ln rel="alternate canonical" href="urn:c" dc:b="2" x:c="3"><x:d/></rs:ln><rs:ln rel="profile" href="urn:d"/></url></urlset>`,
		resourcesync.ReaderOptions{})
	if err != nil || len(got.entries) != 1 || len(got.entries[0].Links) != 4 {
		t.Fatalf("%+v, %v", got.entries, err)
	}
	two := `<foreign xmlns:dc="http://purl.org/dc/terms/" dc:b="2" xmlns:x="urn:x" x:c="3"/>`
	for i, want := range []string{`<foreign xmlns:x="urn:x" x:a="1"/>`, two, two, ""} {
		if l := got.entries[0].Links[i]; l.Foreign.String() != want {
			t.Errorf("link %d has %s, want %s", i, l.Foreign, want)
		}
	}
	wantDocument(t, write(t, got.header, got.entries...), got.header, got.entries)
	for _, s := range samples {
		for i := range s.entries {
			e := s.entries[i]
			e.Foreign = foreign(t, `<foreign xmlns:x="urn:x" x:a="1"><x:b xmlns:x="urn:x"/></foreign>`)
			e.Links = append([]resourcesync.Link(nil), e.Links...)
			for j := range e.Links {
				e.Links[j].Foreign = foreign(t, two)
			}
			doc := write(t, s.header, e)
			wantDocument(t, doc, s.header, []resourcesync.Entry{e})
			if ok, out := xmllint(t, string(doc)); !ok {
				t.Errorf("xmllint: %s", out)
			}
		}
	}
}

func foreign(t reporter, text string) resourcesync.Foreign {
	t.Helper()
	f, err := resourcesync.ParseForeign(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return f
}

// A hostile entry occupies no more memory than MaxForeign: what exceeds it is dropped,
// with one warning for the document, and the rest of the entry is kept.
func TestForeignIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("v", resourcesync.MaxForeign)
	most := 0
	for name, content := range map[string]string{
		"value":           `<rs:md x:a="` + long + `" x:b="1"/>`,
		"values":          `<rs:md x:b="1"/>` + strings.Repeat(`<x:c d="`+long[:1000]+`"/>`, 40),
		"text":            `<rs:md x:b="1"/><x:c>` + long + `</x:c>`,
		"escaped text":    `<rs:md x:b="1"/><x:c>` + strings.Repeat("&amp;", resourcesync.MaxForeign/4) + `</x:c>`,
		"text beyond all": `<rs:md x:b="1"/><x:c>` + strings.Repeat("<![CDATA["+long+"]]>", 200) + `</x:c>`,
		"elements":        `<rs:md x:b="1"/><x:c>` + strings.Repeat("<x:d/>", resourcesync.MaxForeign) + `</x:c>`,
		"declarations":    `<rs:md x:b="1"/><x:c xmlns:n="` + long + `" n:a="1"/>`,
		"links":           `<rs:md x:b="1"/>` + strings.Repeat(`<rs:ln rel="via" href="urn:b" x:a="`+long[:1000]+`"/>`, 40),
	} {
		got, err := readAll(foreignRoot+strings.Repeat(`<url><loc>urn:a</loc>`+content+`</url>`, 2)+`</urlset>`, resourcesync.ReaderOptions{Strict: true})
		if err != nil || len(got.entries) != 2 || len(got.warnings) != 1 || got.warnings[0].Rule != "RS-XML-07" {
			t.Errorf("%s: %d entries, %v, warnings %v", name, len(got.entries), err, got.warnings)
			continue
		}
		for _, e := range got.entries {
			size := len(e.Foreign.String())
			for _, l := range e.Links {
				size += len(l.Foreign.String())
			}
			most = max(most, size)
			if !strings.Contains(e.Foreign.String(), `x:b="1"`) || size > resourcesync.MaxForeign+20*len(e.Links)+40 {
				t.Errorf("%s: %d bytes: %.100s", name, size, e.Foreign)
			}
		}
	}
	if most < resourcesync.MaxForeign/2 {
		t.Errorf("at most %d bytes were kept", most)
	}
}

// ParseForeign accepts markup of foreign namespaces only, and reads in JSON and XML
// what String wrote.
func TestParseForeign(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`<a/>`, `<foreign`, `<foreign/><foreign/>`, `<foreign a="1"/>`, `<foreign><a/></foreign>`, `<foreign>text</foreign>`, `<foreign xmlns="urn:a"/>`,
		`<foreign><loc xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/></foreign>`, `<foreign><a xmlns="urn:a"><b xmlns="http://www.openarchives.org/rs/terms/"/></a></foreign>`,
		`<foreign xmlns:rs="http://www.openarchives.org/rs/terms/" rs:a="1"/>`, `<foreign x:a="1"/>`,
		`<foreign><a xmlns="urn:a">` + strings.Repeat("a", resourcesync.MaxForeign) + `</a></foreign>`,
	} {
		if f, err := resourcesync.ParseForeign(text); err == nil {
			t.Errorf("ParseForeign(%.99s) = %s", text, f)
		}
	}
	for _, text := range []string{``, `<foreign/>`, ` <foreign></foreign>`} {
		if f, err := resourcesync.ParseForeign(text); err != nil || !f.IsZero() || f.String() != "" || f.HasElements() {
			t.Errorf("ParseForeign(%q) = %s, %v", text, f, err)
		}
	}
	f := foreign(t, `<foreign xmlns:x="urn:x" x:a="1 &lt;"><x:b xmlns:x="urn:x">t</x:b></foreign>`)
	var again struct{ F resourcesync.Foreign }
	b, err := json.Marshal(struct{ F resourcesync.Foreign }{f})
	if err != nil || json.Unmarshal(b, &again) != nil || again.F != f {
		t.Errorf("in JSON %s, %v; again %s", b, err, again.F)
	}
	var v struct {
		A string `xml:"urn:x a,attr"`
		B string `xml:"urn:x b"`
	}
	if err := xml.Unmarshal([]byte(f.String()), &v); err != nil || v.A != "1 <" || v.B != "t" {
		t.Errorf("encoding/xml reads %+v, %v", v, err)
	}
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, listHeader)
	if err != nil {
		t.Fatal(err)
	}
	var rule *resourcesync.RuleError
	err = w.Write(&resourcesync.Entry{Loc: "urn:a", Links: []resourcesync.Link{{Rel: "via", Href: "urn:b", Foreign: f}}})
	if !errors.As(err, &rule) || rule.Rule != "RS-XML-07" {
		t.Errorf("a link with elements: %v", err)
	}
}

// Whatever foreign markup is read, its canonical form reads as itself, and means the
// same to another parser.
func TestForeignRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, foreignRoundTrip)
}

// FuzzForeign parses any text.
func FuzzForeign(f *testing.F) {
	for _, tt := range foreignTests {
		f.Add(tt.want)
	}
	f.Fuzz(func(t *testing.T, text string) {
		is, err := resourcesync.ParseForeign(text)
		if err != nil {
			return
		}
		again, err := resourcesync.ParseForeign(is.String())
		if err != nil || again != is {
			t.Fatalf("%s is read as %s, %v", is, again, err)
		}
		e := resourcesync.Entry{Loc: "urn:a", Foreign: is}
		wantDocument(t, write(t, listHeader, e), listHeader, []resourcesync.Entry{e})
	})
}

func foreignRoundTrip(t *rapid.T) {
	content := ""
	for range rapid.IntRange(0, 2).Draw(t, "mds") {
		content += "<rs:md xmlns:p='urn:p" + rapid.SampledFrom([]string{"", "2"}).Draw(t, "p") + "'" + genAttributes(t, true) + "/>"
	}
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		content += genElement(t, 3)
	}
	doc := strings.Replace(foreignRoot, "<urlset", "<urlset xmlns:p='urn:0' xmlns:q='urn:1' xmlns:ns1='urn:2'", 1) + `<url><loc>urn:a</loc>` + content + `</url></urlset>`
	if standardLibrary(doc) != nil {
		return // a name twice
	}
	got, err := readAll(doc, resourcesync.ReaderOptions{})
	if err != nil {
		return
	}
	e := got.entries[0]
	if f := foreign(t, e.Foreign.String()); f != e.Foreign {
		t.Fatalf("%s is read as %s", e.Foreign, f)
	}
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, got.header)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(&e), w.Close()); err != nil {
		t.Fatal(err)
	}
	wantDocument(t, out.Bytes(), got.header, got.entries)
	if was, is := meaning(t, doc), meaning(t, out.String()); was != is {
		t.Fatalf("%s\nmeans %s\nthen %s\nmeans %s", doc, was, out.String(), is)
	}
}

var foreignPrefixes = []string{"p:", "q:", "rs:", "ns1:"}

func genAttributes(t *rapid.T, prefixed bool) (s string) {
	for range rapid.IntRange(0, 3).Draw(t, "attributes") {
		prefixes := foreignPrefixes
		if !prefixed {
			prefixes = append(prefixes, "")
		}
		p := rapid.SampledFrom(prefixes).Draw(t, "prefix")
		if prefixed && p == "rs:" {
			continue
		}
		s += " " + p + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") + "='" + rapid.SampledFrom([]string{"", "&lt;", "&#10;é\""}).Draw(t, "value") + "'"
	}
	return s
}

func genElement(t *rapid.T, depth int) string {
	name := rapid.SampledFrom(append([]string{""}, foreignPrefixes...)).Draw(t, "prefix") + "e"
	tag := name + genAttributes(t, false)
	for _, d := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"xmlns", "xmlns:p", "xmlns:q", "xmlns:rs", "xmlns:ns1"}), 0, 3, rapid.ID).Draw(t, "declarations") {
		tag += fmt.Sprintf(" %s='urn:%d'", d, rapid.IntRange(0, 3).Draw(t, "uri"))
	}
	s := "<" + tag + ">"
	for range rapid.IntRange(0, min(depth, 2)).Draw(t, "children") {
		s += rapid.SampledFrom([]string{"", " ", "t&gt;", "<!-- c -->", "<![CDATA[<>&]]>"}).Draw(t, "text") + genElement(t, depth-1)
	}
	return s + "</" + name + ">"
}

// meaning returns the names, values and texts of the foreign elements of a document.
func meaning(t *rapid.T, doc string) string {
	var b strings.Builder
	d := xml.NewDecoder(strings.NewReader(doc))
	depth, skip := 0, 0
	for {
		tok, err := d.Token()
		if err != nil {
			return b.String()
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if depth++; depth == 3 && (!strings.HasPrefix(tok.Name.Space, "urn:") || hasOurs(t, d, doc)) {
				skip = depth
			}
			if depth < 3 || skip > 0 {
				continue
			}
			fmt.Fprintf(&b, "<%s %s", tok.Name.Space, tok.Name.Local)
			for _, a := range tok.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					fmt.Fprintf(&b, " %s %s=%q", a.Name.Space, a.Name.Local, a.Value)
				}
			}
			b.WriteByte('>')
		case xml.EndElement:
			if skip == depth {
				skip = 0
			} else if depth >= 3 && skip == 0 {
				b.WriteString("</>")
			}
			depth--
		case xml.CharData:
			if depth >= 3 && skip == 0 {
				fmt.Fprintf(&b, "%s", tok)
			}
		}
	}
}

// hasOurs reports whether the element whose tag d has just read has elements of Sitemaps
// or ResourceSync in it: it is not kept.
func hasOurs(t *rapid.T, d *xml.Decoder, doc string) bool {
	t.Helper()
	from := d.InputOffset()
	again := xml.NewDecoder(strings.NewReader(doc))
	depth := 0
	for {
		tok, err := again.Token()
		if err != nil {
			return false
		}
		if again.InputOffset() < from {
			continue
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			depth++
			if strings.Contains(tok.Name.Space, "sitemaps.org") || strings.Contains(tok.Name.Space, "rs/terms") {
				return true
			}
		case xml.EndElement:
			if depth--; depth == 0 {
				return false
			}
		}
	}
}
