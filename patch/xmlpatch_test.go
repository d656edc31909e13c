package patch_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstep/patch"
)

// ops wraps operations in a document of RFC 7351, in which only the operations
// have a namespace.
func ops(s string) string {
	for _, verb := range []string{"add", "replace", "remove"} {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "<"+verb, "<p:"+verb), "</"+verb, "</p:"+verb)
	}
	return `<?xml version="1.0" encoding="UTF-8"?><p:patch xmlns:p="urn:ietf:rfc:7351">` + s + `</p:patch>`
}

const note = "<?xml version='1.0'?>\n<!-- first -->\n<doc>\n  <note  a='1'\tb = \"x\" >This is a &#115;ample</note >\n  <foo a=\"1\"/>\n  <foo a=\"2\">two<!--c-->three<?do it?></foo>\n</doc>\n"

// TestXMLPatchVectors: the rules of RFC 5261, each operation with every kind of
// target, and the example of RFC 7351. Only the intended bytes change.
func TestXMLPatchVectors(t *testing.T) {
	t.Parallel()
	type vector struct{ name, doc, ops, want string } // want "": refused
	change := func(old, with string) string {
		if !strings.Contains(note, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(note, old, with, 1)
	}
	for _, tt := range []vector{
		{"nothing", note, ``, note},

		{"add element", note, `<add sel="doc"><new id="1">x</new></add>`, change("</doc>", `<new id="1">x</new></doc>`)},
		{"add with white space", note, "<add sel='/doc'>  <new/>\n</add>", change("</doc>", "  <new/>\n</doc>")},
		{"add to what is empty", note, `<add sel="doc/foo[1]"><x/></add>`, change(`<foo a="1"/>`, `<foo a="1"><x/></foo>`)},
		{"add several", note, `<add sel="doc/note">, <b>bold</b><!--c--><?pi?></add>`, change("</note >", ", <b>bold</b><!--c--><?pi?></note >")},
		{"add nothing", note, `<add sel="doc/foo[1]"/>`, note},
		{"prepend", note, `<add sel="doc/note" pos="prepend">So: </add>`, change("This", "So: This")},
		{"before", note, `<add sel="doc/foo[@a='2']" pos="before"><bar/></add>`, change(`<foo a="2">`, `<bar/><foo a="2">`)},
		{"after", note, `<add sel='doc/foo[@a="2"]' pos="after"><bar/></add>`, change("</foo>", "</foo><bar/>")},
		{"after a text", note, `<add sel="doc/foo[2]/text()[1]" pos="after">&amp;</add>`, change("two<!", "two&amp;<!")},
		{"before a comment", note, `<add sel="doc/foo[2]/comment()" pos="before"><b/></add>`, change("<!--c", "<b/><!--c")},
		{"before the root", note, "<add sel=\"*\" pos=\"before\"><?style sheet?>\n</add>", change("<doc>", "<?style sheet?>\n<doc>")},
		{"an element before the root", note, `<add sel="doc" pos="before"><doc/></add>`, ``},
		{"a text after the root", note, `<add sel="doc" pos="after">text</add>`, ``},
		{"add to a text", note, `<add sel="doc/note/text()"><b/></add>`, ``},
		{"add to an attribute", note, `<add sel="doc/note/@a">x</add>`, ``},
		{"unknown pos", note, `<add sel="doc" pos="first"><b/></add>`, ``},
		{"add attribute", note, `<add sel="doc/note" type="@c">"new" &amp; old</add>`, change(`= "x"`, `= "x" c="&quot;new&quot; &amp; old"`)},
		{"add attribute to a tag without", note, `<add sel="doc" type="@c">1</add>`, change("<doc>", `<doc c="1">`)},
		{"add attribute to an empty element", note, `<add sel="doc/foo[1]" type="@c">1</add>`, change(`a="1"/>`, `a="1" c="1"/>`)},
		{"add attribute from CDATA", note, `<add sel="doc" type="@c">a<![CDATA[<b>]]></add>`, change("<doc>", `<doc c="a&lt;b>">`)},
		{"add attribute that is there", note, `<add sel="doc/note" type="@a">1</add>`, ``},
		{"add attribute of elements", note, `<add sel="doc/note" type="@c"><x/></add>`, ``},
		{"add attribute without a name", note, `<add sel="doc/note" type="@">1</add>`, ``},
		{"add attribute with a bad name", note, `<add sel="doc/note" type='@a="1" b'>1</add>`, ``},
		{"add declaration", note, `<add sel="doc" type="namespace::pref">urn:ns:xxx</add>`, change("<doc>", `<doc xmlns:pref="urn:ns:xxx">`)},
		{"unknown type", note, `<add sel="doc" type="element">x</add>`, ``},

		{"replace element", note, "<replace sel=\"doc/foo[@a='1']\">\n  <bar a=\"2\"/>\n</replace>", change(`<foo a="1"/>`, `<bar a="2"/>`)},
		{"replace root", note, `<replace sel="doc"><a/></replace>`, note[:strings.Index(note, "<doc>")] + "<a/>\n"},
		{"replace attribute", note, `<replace sel="doc/note/@b">it's "y"</replace>`, change(`= "x"`, `= "it's &quot;y&quot;"`)},
		{"replace attribute in single quotes", note, `<replace sel="doc/note/@a">it's "y"</replace>`, change(`'1'`, `'it&apos;s "y"'`)},
		{"empty attribute", note, `<replace sel="doc/note/@a"/>`, change(`'1'`, `''`)},
		{"replace comment", note, `<replace sel="comment()"><!--second--></replace>`, change("<!-- first -->", "<!--second-->")},
		{"replace instruction", note, `<replace sel='doc/foo[2]/processing-instruction("do")'><?bar test?></replace>`, change("<?do it?>", "<?bar test?>")},
		{"replace text", note, `<replace sel="doc/foo[2]/text()[2]">drei</replace>`, change("three", "drei")},
		{"replace text by nothing", note, `<replace sel="doc/note/text()"/>`, change("This is a &#115;ample", "")},
		{"replace by two", note, `<replace sel="doc/foo[1]"><a/><b/></replace>`, ``},
		{"replace by nothing", note, `<replace sel="doc/foo[1]"/>`, ``},
		{"replace by another kind", note, `<replace sel="doc/foo[1]">text</replace>`, ``},
		{"replace text by an element", note, `<replace sel="doc/note/text()"><a/></replace>`, ``},

		{"remove element", note, `<remove sel="doc/foo[1]"/>`, change(`<foo a="1"/>`, "")},
		{"with the white space before", note, `<remove sel="doc/foo[1]" ws="before"/>`, change("\n  <foo a=\"1\"/>", "")},
		{"with the white space after", note, `<remove sel="doc/foo[1]" ws="after"/>`, change("<foo a=\"1\"/>\n  ", "")},
		{"with both", note, `<remove sel="doc/foo[1]" ws="both"/>`, change("\n  <foo a=\"1\"/>\n  ", "")},
		{"no white space", note, `<remove sel="doc/foo[2]/comment()" ws="after"/>`, ``},
		{"unknown ws", note, `<remove sel="doc/foo[1]" ws="all"/>`, ``},
		{"remove attribute", note, `<remove sel="doc/note/@b"/>`, change("\tb = \"x\"", "")},
		{"remove comment", note, `<remove sel="comment()[1]" ws="after"/>`, change("<!-- first -->\n", "")},
		{"remove instruction", note, `<remove sel="doc/foo[2]/processing-instruction()"/>`, change("<?do it?>", "")},
		{"remove text", note, `<remove sel="doc/foo[2]/text()[1]"/>`, change("two", "")},
		{"remove root", note, `<remove sel="doc"/>`, ``},
		{"texts join", note, `<remove sel="doc/foo[2]/comment()"/><replace sel="doc/foo[2]/text()">one</replace>`, change("two<!--c-->three", "one")},

		{"by a child", `<a><b><c>1</c></b><b><c>2</c><d/></b></a>`, `<remove sel="a/b[c='2']/d"/>`, `<a><b><c>1</c></b><b><c>2</c></b></a>`},
		{"by its text", `<a><b>x<!---->y<i>z</i></b><b>x</b></a>`, `<remove sel="a/b[.='xyz']"/>`, `<a><b>x</b></a>`},
		{"by references and CDATA", `<a><b>&lt;<![CDATA[&]]></b></a>`, `<add sel="a/b[.='&lt;&amp;']" type="@x">1</add>`, `<a><b x="1">&lt;<![CDATA[&]]></b></a>`},
		{"any name", `<a><b/><c><d/></c></a>`, `<remove sel="*/*[2]/*"/>`, `<a><b/><c></c></a>`},
		{"conditions in a row", `<a><b x="1" n="1"/><b x="1" n="2"/></a>`, `<remove sel="a/b[@x='1'][2]"/>`, `<a><b x="1" n="1"/></a>`},
		{"id", `<a><b xml:id="x"><c/></b></a>`, `<remove sel="id('x')/c"/>`, `<a><b xml:id="x"></b></a>`},
		{"several", note, `<remove sel="doc/foo"/>`, ``},
		{"none", note, `<remove sel="doc/bar"/>`, ``},
		{"none, by an index", note, `<remove sel="doc/foo[3]"/>`, ``},
		{"no selector", note, `<remove/>`, ``},
		{"empty selector", note, `<remove sel=""/>`, ``},
		{"a slash", note, `<remove sel="/"/>`, ``},
		{"a slash at the end", note, `<remove sel="doc/foo[1]/"/>`, ``},
		{"an axis", note, `<remove sel="doc/child::foo[1]"/>`, ``},
		{"anywhere", note, `<remove sel="//foo[1]"/>`, ``},
		{"upwards", note, `<remove sel="doc/foo[1]/.."/>`, ``},
		{"a function", note, `<remove sel="doc/foo[last()]"/>`, ``},
		{"open condition", note, `<remove sel="doc/foo[1"/>`, ``},
		{"unknown operation", note, `<add sel="doc"/><move sel="doc"/>`, ``},
		{"text between operations", note, `<add sel="doc"/>x`, ``},
		{"fails half way", note, `<remove sel="doc/foo[1]"/><remove sel="doc/bar"/>`, ``},
		{"one after the other", note, `<remove sel="doc/foo[1]"/><!-- and --><remove sel="doc/foo[1]" ws="before"/>`, note[:strings.Index(note, "\n  <foo")] + "\n</doc>\n"},

		{"a byte order mark, CRLF", "\ufeff<a>\r\n<b>1</b>\r\n</a>\r\n", `<replace sel="a/b[.='1']/text()">2</replace>`, "\ufeff<a>\r\n<b>2</b>\r\n</a>\r\n"},
		{"an old document type", "<!DOCTYPE a SYSTEM 'a.dtd'>\n<a><b/></a>", `<remove sel="a/b"/>`, "<!DOCTYPE a SYSTEM 'a.dtd'>\n<a></a>"},
		{"no XML", `{"a":1}`, ``, ``},
		{"unclosed", `<a>`, ``, ``},
		{"overlapping", `<a><b></a></b>`, ``, ``},
		{"two roots", `<a/><b/>`, ``, ``},
		{"empty", ``, ``, ``},
	} {
		got, err := patch.ApplyXML([]byte(tt.doc), []byte(ops(tt.ops)), 1<<20)
		if string(got) != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, patch.ErrInvalid) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
}

// TestXMLPatchNamespaces: names keep the meaning they have in the patch, and
// are written with the prefixes of the document.
func TestXMLPatchNamespaces(t *testing.T) {
	t.Parallel()
	const doc = `<doc xmlns="urn:1" xmlns:y="urn:2"><elem a="foo" y:b="1"><y:child/></elem><n xmlns="">x</n></doc>`
	for _, tt := range []struct{ name, doc, patch, want string }{
		{"the example of RFC 7351",
			"<doc xmlns=\"http://example.com/ns1\" xmlns:y=\"http://example.com/ns2\">\n  <note>Sample doc</note>\n  <elem a='foo'>\n    <child/>\n  </elem>\n  <elem a='bar'>\n    <y:child/>\n  </elem>\n</doc>",
			"<p:patch xmlns=\"http://example.com/ns1\" xmlns:y=\"http://example.com/ns2\" xmlns:p=\"urn:ietf:rfc:7351\">\n  <p:add sel=\"doc/elem[@a='foo']\">  <!-- new -->\n    <child id=\"4773\">\n      <y:node/>\n    </child>\n  </p:add>\n  <p:replace sel=\"doc/note/text()\">Patched doc</p:replace>\n  <p:remove sel=\"*/elem[@a='bar']/y:child\" ws=\"both\"/>\n  <p:add sel=\"*/elem[@a='bar']\" type=\"@b\">new attr</p:add>\n</p:patch>",
			"<doc xmlns=\"http://example.com/ns1\" xmlns:y=\"http://example.com/ns2\">\n  <note>Patched doc</note>\n  <elem a='foo'>\n    <child/>\n    <!-- new -->\n    <child id=\"4773\">\n      <y:node/>\n    </child>\n  </elem>\n  <elem a='bar' b=\"new attr\"></elem>\n</doc>"},
		{"a prefix of its own", doc, `<diff xmlns:q="urn:1" xmlns:r="urn:2"><remove sel="q:doc/q:elem/r:child"/></diff>`,
			`<doc xmlns="urn:1" xmlns:y="urn:2"><elem a="foo" y:b="1"></elem><n xmlns="">x</n></doc>`},
		{"a default of its own", doc, `<diff><remove sel="*/n/text()"/></diff>`,
			`<doc xmlns="urn:1" xmlns:y="urn:2"><elem a="foo" y:b="1"><y:child/></elem><n xmlns=""></n></doc>`},
		{"no namespace is meant", doc, `<diff><remove sel="doc/elem"/></diff>`, ``},
		{"an attribute has no default", doc, `<diff xmlns="urn:1"><remove sel="doc/elem/@a"/></diff>`,
			`<doc xmlns="urn:1" xmlns:y="urn:2"><elem y:b="1"><y:child/></elem><n xmlns="">x</n></doc>`},
		{"an attribute with a prefix", doc, `<diff xmlns="urn:1" xmlns:z="urn:2"><replace sel="doc/elem[@z:b='1']/@z:b">2</replace></diff>`,
			strings.Replace(doc, `y:b="1"`, `y:b="2"`, 1)},
		{"undeclared prefix", doc, `<diff xmlns="urn:1"><remove sel="doc/elem/y:child"/></diff>`, ``},
		{"added names are written like the others", doc, `<diff xmlns:q="urn:1" xmlns:r="urn:2"><add sel="q:doc/q:elem"><q:a r:x="1"><r:b></r:b></q:a></add></diff>`,
			strings.Replace(doc, `</elem>`, `<a y:x="1"><y:b></y:b></a></elem>`, 1)},
		{"what is missing is declared", doc, `<diff xmlns="urn:1" xmlns:z="urn:3"><add sel="doc/elem"><z:a><z:b z:x="1" u="2"/></z:a></add></diff>`,
			strings.Replace(doc, `</elem>`, `<z:a xmlns:z="urn:3"><z:b z:x="1" u="2"/></z:a></elem>`, 1)},
		{"for an attribute, too", doc, `<diff xmlns="urn:1" xmlns:z="urn:3"><add sel="doc/elem"><a z:x="1" z:y="2"/></add></diff>`,
			strings.Replace(doc, `</elem>`, `<a xmlns:z="urn:3" z:x="1" z:y="2"/></elem>`, 1)},
		{"no namespace where there is a default", doc, `<diff xmlns:q="urn:1"><add sel="q:doc/q:elem"><a/></add></diff>`,
			strings.Replace(doc, `</elem>`, `<a xmlns=""/></elem>`, 1)},
		{"its own declarations stay", doc, `<diff xmlns:q="urn:1"><add sel="q:doc/q:elem"><w:a xmlns:w="urn:2"><w:b/></w:a></add></diff>`,
			strings.Replace(doc, `</elem>`, `<w:a xmlns:w="urn:2"><w:b/></w:a></elem>`, 1)},
		{"a prefix that means something else here", doc, `<diff xmlns:q="urn:1" xmlns:y="urn:9"><add sel="q:doc/q:elem"><y:a/></add></diff>`,
			strings.Replace(doc, `</elem>`, `<y:a xmlns:y="urn:9"/></elem>`, 1)},
		{"an added attribute", doc, `<diff xmlns="urn:1" xmlns:z="urn:2"><add sel="doc" type="@z:n">1</add></diff>`,
			strings.Replace(doc, `xmlns:y="urn:2"`, `xmlns:y="urn:2" y:n="1"`, 1)},
		{"an added attribute without a prefix for it", doc, `<diff xmlns="urn:1" xmlns:z="urn:3"><add sel="doc" type="@z:n">1</add></diff>`, ``},
		{"replace a declaration", doc, `<diff xmlns="urn:1"><replace sel="doc/namespace::y">urn:22</replace></diff>`, strings.Replace(doc, "urn:2", "urn:22", 1)},
		{"remove a declaration", `<a xmlns:x="urn:x"/>`, `<diff><remove sel="a/namespace::x"/></diff>`, `<a/>`},
		{"a declaration that is further up", doc, `<diff xmlns="urn:1"><remove sel="doc/elem/namespace::y"/></diff>`, ``},
		{"operations of another namespace", doc, `<diff xmlns="urn:1" xmlns:o="urn:o"><o:remove sel="doc/elem"/></diff>`, ``},
		{"an error, not a patch", doc, `<patch-ops-error xmlns="urn:ietf:params:xml:ns:patch-ops-error"><unlocated-node phrase="x"/></patch-ops-error>`, ``},
		{"another list of operations", doc, `<o:pidf-diff xmlns:o="urn:ietf:params:xml:ns:pidf-diff" xmlns="urn:1"><o:remove sel="doc/elem/@a"/></o:pidf-diff>`,
			`<doc xmlns="urn:1" xmlns:y="urn:2"><elem y:b="1"><y:child/></elem><n xmlns="">x</n></doc>`},
	} {
		got, err := patch.Apply("application/patch-ops-error+xml", []byte(tt.doc), []byte(tt.patch), 1<<20)
		if string(got) != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, patch.ErrInvalid) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
}

// TestXMLSelectorsOther: a complete implementation of XPath selects the same
// number of nodes with the same selectors.
func TestXMLSelectorsOther(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(5261, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var grow func(depth int) string
	grow = func(depth int) string {
		if depth == 0 {
			return pick("x", "y", "x&amp;", "<!--x-->", "<![CDATA[y]]>", "<?p?>", "")
		}
		var b strings.Builder
		for range r.IntN(5) {
			name := pick("a", "b", "c")
			fmt.Fprintf(&b, "%s<%s%s>%s</%s>", pick("", "x", " "), name, pick("", ` n="1"`, ` n="2"`, ` m='x' n="1"`), grow(depth-1), name)
		}
		return b.String()
	}
	same := 0
	for range 6 {
		doc := "<a>" + grow(4) + "</a>"
		write(t, dir, "doc.xml", doc)
		var selectors []string
		query := "concat('|'"
		for range 120 {
			sel := "a"
			for range r.IntN(4) {
				sel += "/" + pick("a", "b", "c", "*", "b")
				for range r.IntN(3) {
					sel += pick("", "[1]", "[2]", "[@n='1']", `[@m="x"]`, "[b='x']", "[.='x']", "[c='']")
				}
			}
			sel += pick("", "", "/text()", "/text()[2]", "/comment()", "/processing-instruction('p')", "/@n")
			selectors, query = append(selectors, sel), query+",count(/"+sel+"),'|'"
		}
		out, err := exec.Command(program, "--xpath", query+")", filepath.Join(dir, "doc.xml")).Output()
		must(t, err)
		counts := strings.Split(strings.Trim(strings.TrimSpace(string(out)), "|"), "|")
		for i, sel := range selectors {
			if sel == "a" {
				continue
			}
			_, err := patch.ApplyXML([]byte(doc), []byte(ops(`<remove sel='`+strings.ReplaceAll(sel, "'", "&apos;")+`'/>`)), 1<<20)
			if (err == nil) != (counts[i] == "1") {
				t.Errorf("%s in %s: %v, xmllint selects %s", sel, doc, err, counts[i])
			}
			if err == nil {
				same++
			}
		}
	}
	if same < 20 {
		t.Errorf("only %d selectors found something", same)
	}
}

// TestXMLPatchHostile: no input takes long, or much memory.
func TestXMLPatchHostile(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	wide := "<a>" + many(200_000, "<b/>") + "</a>"
	var tag strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&tag, ` a%d=""`, i)
	}
	attrs := "<a" + tag.String() + "/>"
	var spaces strings.Builder
	spaces.WriteString("<a")
	for i := range 30_000 {
		fmt.Fprintf(&spaces, ` xmlns:n%d="u%d"`, i, i)
	}
	spaces.WriteString("><b/></a>")
	limit := 20 * time.Second
	if underRace {
		limit *= 10
	}
	for name, tt := range map[string]struct{ doc, patch string }{
		"depth":         {many(50_000, "<a>") + many(50_000, "</a>"), ops("")},
		"patch's depth": {"<a/>", ops(`<add sel="a">` + many(50_000, "<a>") + many(50_000, "</a>") + `</add>`)},
		"both":          {many(900, "<a>") + many(900, "</a>"), ops(`<add sel="` + many(899, "a/") + `a">` + many(900, "<a>") + many(900, "</a>") + `</add>`)},
		"insertions":    {wide, ops(many(20_000, `<add sel="a" pos="prepend"><c/></add>`))},
		"selections":    {wide, ops(many(20_000, `<add sel="a/b[200000]"/>`))},
		"tests":         {wide, ops(many(20_000, `<add sel="a/b[.='x']"/>`))},
		"attributes":    {attrs, ops(many(20_000, `<add sel="*[@a59999='']"/>`))},
		"declarations":  {spaces.String(), `<p xmlns:q="u0">` + many(20_000, `<add sel="a"><q:c/></add>`) + `</p>`},
		"texts":         {"<a>" + many(80_000, "<![CDATA[x]]>") + "</a>", ops(many(20_000, `<add sel="a">x</add>`))},
		"renaming":      {`<a xmlns:z="u"/>`, `<p xmlns:q="u"><add sel="a"><c` + strings.ReplaceAll(attrs[2:len(attrs)-2], " a", " q:a") + `/></add></p>`},
		"entities":      {`<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;">]><a>&y;</a>`, ops(`<remove sel="a[.='']"/>`)},
		"external":      {`<!DOCTYPE a SYSTEM "file:///etc/passwd" [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`, ops(`<remove sel="a[.='']"/>`)},
		"UTF-16":        {"\xff\xfe<\x00a\x00/\x00>\x00", ops("")},
		"Latin-1":       {"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", ops("")},
		"large":         {"<a>" + many(1<<20, "x") + "</a>", ops("")},
		"large patch":   {"<a/>", ops(`<add sel="a">` + many(1<<20, "x") + `</add>`)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		out, err := patch.ApplyXML([]byte(tt.doc), []byte(tt.patch), 1<<20)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if err != nil && !refused(err) || len(out) > 1<<20 || took > limit {
			t.Errorf("%s: %d bytes, %v, %s", name, len(out), err, took)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 3<<29 {
			t.Errorf("%s: %d MB were allocated", name, got>>20)
		}
	}
	if _, err := patch.ApplyXML([]byte(`<a/>`), []byte(ops(`<add sel="a">x</add>`)), 7); !errors.Is(err, patch.ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
}

// FuzzXMLPatch: any patch is handled safely, unchanged parts remain, and a
// result is XML.
func FuzzXMLPatch(f *testing.F) {
	f.Add([]byte(note), []byte(ops(`<add sel="doc" pos="prepend"><x/></add><replace sel="doc/note/@a">2</replace><remove sel="doc/foo[1]" ws="both"/>`)))
	f.Add([]byte(`<doc xmlns="urn:1" xmlns:y="urn:2"><y:c y:b="1"/></doc>`), []byte(`<p xmlns:q="urn:2" xmlns="urn:1"><add sel="doc/q:c"><q:z q:k="&lt;"><u/></q:z></add></p>`))
	f.Add([]byte(`<a>x<![CDATA[y]]><!--z--></a>`), []byte(`<diff><replace sel="a/text()">1</replace><add sel="a" type="@x">2</add><add sel="a" type="namespace::n">3</add></diff>`))
	f.Fuzz(func(t *testing.T, before, diff []byte) {
		const limit = 1 << 16
		if got, err := patch.ApplyXML(before, []byte(ops("")), int64(len(before))); err == nil && string(got) != string(before) {
			t.Fatalf("nothing makes of %q %q", before, got)
		}
		got, err := patch.ApplyXML(before, diff, limit)
		if err != nil {
			if !refused(err) {
				t.Fatal(err)
			}
			return
		}
		if len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
		if err := wellFormed(got); err != nil {
			t.Fatalf("%q with %q yields %q: %v", before, diff, got, err)
		}
	})
}

func wellFormed(doc []byte) error {
	d := xml.NewDecoder(strings.NewReader(string(doc)))
	for {
		if _, err := d.RawToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestXMLPatchWork: all visited nodes, and all moved bytes, count as work.
func TestXMLPatchWork(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("it takes long, and there is one goroutine")
	}
	const n = 10_000
	many := strings.Repeat
	within := func(kids string) string { return `<r xml:id="i">` + kids + "</r>" }
	var spaces, renamed strings.Builder
	for i := range 500 {
		fmt.Fprintf(&spaces, ` xmlns:n%d="u%d"`, i, i)
		fmt.Fprintf(&renamed, `<n%d:x/>`, i)
	}
	for name, tt := range map[string]struct{ doc, patch string }{
		"positions":    {within(many("<a/>", n)), ops(`<remove sel="r/*/b` + many("[1]", 4000) + `"/>`)},
		"tests":        {within(many("<a/>", n)), ops(`<remove sel="r/*/b` + many("[c='']", 4000) + `"/>`)},
		"an ID":        {within(many("<!---->", n)), ops(many(`<add sel="id('i')"/>`, 4000))},
		"a child":      {within(many("<a/>", n) + "<c/>"), ops(many(`<add sel="r[c='']"/>`, 4000))},
		"a text":       {within(many("<!---->", n)), ops(many(`<add sel="r[.='']"/>`, 4000))},
		"declarations": {"<r/>", `<p` + spaces.String() + `><add sel="r"><t a="` + many("x", 100_000) + `">` + renamed.String() + `</t></add></p>`},
		"prefixes":     {"<r/>", `<p><add sel="r"><t` + spaces.String() + `>` + many("<n499:x/>", 80_000) + `</t></add></p>`},
	} {
		if _, err := patch.ApplyXML([]byte(tt.doc), []byte(tt.patch), 1<<20); !errors.Is(err, patch.ErrTooLarge) {
			t.Errorf("%s: error %v, want ErrTooLarge", name, err)
		}
	}
}
