package resourcesync_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

const (
	xmlDecl   = `<?xml version="1.0" encoding="UTF-8"?>`
	openRoot  = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	closeRoot = `</urlset>`
)

// inRoot returns a document with the given content in its root.
func inRoot(content string) string { return openRoot + content + closeRoot }

// wellFormed are documents that every XML parser accepts.
var wellFormed = map[string]string{
	"empty root":                 inRoot(""),
	"empty-element root":         `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`,
	"declaration":                xmlDecl + inRoot(""),
	"declaration, single quotes": `<?xml version='1.0' encoding='utf-8' standalone='yes'?>` + inRoot(""),
	"declaration, blanks":        "<?xml  version = \"1.0\"\n encoding=\"UTF-8\" ?>" + inRoot(""),
	"declaration, version alone": `<?xml version="1.0"?>` + inRoot(""),
	"declaration of ASCII":       `<?xml version="1.0" encoding="US-ASCII"?>` + inRoot(""),
	"byte order mark":            "\ufeff" + xmlDecl + inRoot(""),
	"comments around":            "<!-- a --><?a b?>\n" + inRoot("") + "\n<!-- c --><?d?> \n",
	"comment of hyphens":         inRoot("<!----><!-- - - --><!-->--><!--->-->"),
	"comment with markup":        inRoot("<!-- <a & ]]> &no; <?x -->"),
	"instruction with markup":    inRoot("<?x <a & ]]> &no; -- ? > ?>"),
	"instruction named xmlish":   inRoot("<?xml-stylesheet href='a'?>"),
	"CDATA":                      inRoot("<a><![CDATA[ <b> & ]] > ]> ]]]]></a>"),
	"brackets in text":           inRoot("<a>]] > ]></a>"),
	"greater-than in text":       inRoot("<a>1 > 0</a>"),
	"references":                 inRoot("<a b='&lt;&gt;&amp;&quot;&apos;'>&lt;&gt;&amp;&quot;&apos;</a>"),
	"character references":       inRoot("<a b='&#9;&#10;&#xd;&#x20AC;'>&#65;&#x1F600;&#x10FFFF;</a>"),
	"blanks in tags":             inRoot("<a  b = '1'\n\tc=\"2\" ></a  ><d />"),
	"greater-than in attribute":  inRoot("<a b='>'/>"),
	"line break in attribute":    inRoot("<a b='1\r\n2'/>"),
	"quotes in quotes":           inRoot(`<a b='"' c="'"/>`),
	"names beyond ASCII":         inRoot("<été où='là'/><名/>"),
	"name with every character":  inRoot("<_a-b.c9/>"),
	"same name, two prefixes":    inRoot("<a xmlns:p='u:1' xmlns:q='u:2' p:b='' q:b='' b=''/>"),
	"prefix declared behind use": inRoot("<a p:b='' xmlns:p='u:1'/>"),
	"prefix declared anew":       inRoot("<p:a xmlns:p='u:1'><p:b xmlns:p='u:2'/></p:a>"),
	"namespace undeclared":       inRoot("<a xmlns=''><b/></a>"),
	"prefix xml":                 inRoot("<a xml:lang='en' xml:space='preserve'/>"),
	"prefix xml declared":        inRoot("<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>"),
	"bare document type":         "<!DOCTYPE urlset>" + inRoot(""),
	"document type SYSTEM":       `<!DOCTYPE urlset SYSTEM "http://127.0.0.1:1/none.dtd">` + inRoot(""),
	"document type PUBLIC":       `<!DOCTYPE  urlset  PUBLIC  "-//X//Y" 'none.dtd'  >` + inRoot(""),
	"controls that are allowed":  inRoot("<a>\t\r\n\u007f\u0085\u009f</a>"),
	"edges of the planes":        inRoot("<a>\ud7ff\ue000\ufffd\U00010000\U0010FFFF</a>"),
	"deep, but not too deep":     inRoot(strings.Repeat("<a>", 60) + strings.Repeat("</a>", 60)),
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	for name, doc := range wellFormed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := readAll(doc, resourcesync.ReaderOptions{}); err != nil {
				t.Errorf("Reader: %v", err)
			}
			if err := standardLibrary(doc); err != nil && name != "document type PUBLIC" {
				t.Errorf("encoding/xml does not accept this, is it well formed? %v", err)
			}
			if ok, out := xmllint(t, doc); !ok {
				t.Errorf("xmllint does not accept this, is it well formed? %s", out)
			}
		})
	}
}

// An illFormed document is one that no parser may accept.
type illFormed struct {
	doc  string
	kind int
}

const (
	syntax     = iota // xmllint agrees
	namespaces        // a violation of the namespace rules, of which xmllint only warns
	policy            // well formed, but refused by policy
)

var notWellFormed = map[string]illFormed{
	"nothing":                       {"", syntax},
	"white space":                   {" \n ", syntax},
	"declaration alone":             {xmlDecl, syntax},
	"comment alone":                 {"<!-- a -->", syntax},
	"text":                          {"no XML", syntax},
	"text in front":                 {"a" + inRoot(""), syntax},
	"text behind":                   {inRoot("") + "a", syntax},
	"reference behind":              {inRoot("") + "&#32;", syntax},
	"CDATA behind":                  {inRoot("") + "<![CDATA[]]>", syntax},
	"two roots":                     {inRoot("") + inRoot(""), syntax},
	"end tag behind":                {inRoot("") + "</urlset>", syntax},
	"end tag first":                 {"</urlset>", syntax},
	"root not closed":               {openRoot, syntax},
	"root half closed":              {openRoot + "</urlset", syntax},
	"element not closed":            {inRoot("<a>"), syntax},
	"wrong end":                     {inRoot("<a></b>"), syntax},
	"end too long":                  {inRoot("<a></ab>"), syntax},
	"end too short":                 {inRoot("<ab></a>"), syntax},
	"crossed":                       {inRoot("<a><b></a></b>"), syntax},
	"end by another prefix":         {inRoot("<p:a xmlns:p='u:1' xmlns:q='u:1'></q:a>"), syntax},
	"attribute in end tag":          {inRoot("<a></a b='1'>"), syntax},
	"blank in front of name":        {inRoot("< a/>"), syntax},
	"blank inside end":              {inRoot("<a></ a>"), syntax},
	"blank inside empty tag":        {inRoot("<a/ >"), syntax},
	"name begins with digit":        {inRoot("<1/>"), syntax},
	"name begins with hyphen":       {inRoot("<-a/>"), syntax},
	"attribute without value":       {inRoot("<a b/>"), syntax},
	"attribute without quotes":      {inRoot("<a b=1/>"), syntax},
	"attribute not closed":          {inRoot("<a b='1/>"), syntax},
	"attributes without blank":      {inRoot("<a b='1'c='2'/>"), syntax},
	"attribute twice":               {inRoot("<a b='1' b='1'/>"), syntax},
	"attribute twice by namespace":  {inRoot("<a xmlns:p='u:1' xmlns:q='u:1' p:b='' q:b=''/>"), namespaces},
	"default namespace twice":       {inRoot("<a xmlns='u:1' xmlns='u:2'/>"), syntax},
	"prefix declared twice":         {inRoot("<a xmlns:p='u:1' xmlns:p='u:1'/>"), syntax},
	"less-than in attribute":        {inRoot("<a b='<'/>"), syntax},
	"ampersand in attribute":        {inRoot("<a b='1&2'/>"), syntax},
	"ampersand in text":             {inRoot("<a>1 & 2</a>"), syntax},
	"reference not closed":          {inRoot("<a>&amp</a>"), syntax},
	"reference to nothing":          {inRoot("<a>&;</a>"), syntax},
	"reference unknown":             {inRoot("<a>&nbsp;</a>"), syntax},
	"reference by another case":     {inRoot("<a>&AMP;</a>"), syntax},
	"reference to NUL":              {inRoot("<a>&#0;</a>"), syntax},
	"reference to a control":        {inRoot("<a>&#x1F;</a>"), syntax},
	"reference to a surrogate":      {inRoot("<a>&#xD800;</a>"), syntax},
	"reference to U+FFFE":           {inRoot("<a>&#xFFFE;</a>"), syntax},
	"reference too high":            {inRoot("<a>&#x110000;</a>"), syntax},
	"reference that overflows":      {inRoot("<a>&#x100000041;</a>"), syntax},
	"reference without digits":      {inRoot("<a>&#;</a>"), syntax},
	"reference without hex digits":  {inRoot("<a>&#x;</a>"), syntax},
	"reference with capital X":      {inRoot("<a>&#X41;</a>"), syntax},
	"reference with a sign":         {inRoot("<a>&#+65;</a>"), syntax},
	"reference with a hex digit":    {inRoot("<a>&#6A;</a>"), syntax},
	"end of CDATA in text":          {inRoot("<a>]]></a>"), syntax},
	"CDATA not closed":              {inRoot("<a><![CDATA[ </a>"), syntax},
	"CDATA in lower case":           {inRoot("<a><![cdata[ ]]></a>"), syntax},
	"CDATA in the prolog":           {"<![CDATA[]]>" + inRoot(""), syntax},
	"comment not closed":            {inRoot("<!-- "), syntax},
	"comment with two hyphens":      {inRoot("<!-- -- -->"), syntax},
	"comment with three hyphens":    {inRoot("<!-- --->"), syntax},
	"comment of five characters":    {inRoot("<!-->"), syntax},
	"comment half begun":            {inRoot("<!- a -->"), syntax},
	"instruction not closed":        {inRoot("<?a "), syntax},
	"instruction without name":      {inRoot("<? a?>"), syntax},
	"instruction xml inside":        {inRoot("<?xml version='1.0'?>"), syntax},
	"instruction XML":               {"<?XML version='1.0'?>" + inRoot(""), syntax},
	"instruction without a blank":   {inRoot("<?a+b?>"), syntax},
	"declaration behind a blank":    {" " + xmlDecl + inRoot(""), syntax},
	"declaration without version":   {"<?xml encoding='UTF-8'?>" + inRoot(""), syntax},
	"declaration in another order":  {"<?xml version='1.0' standalone='yes' encoding='UTF-8'?>" + inRoot(""), syntax},
	"declaration, bad standalone":   {"<?xml version='1.0' standalone='maybe'?>" + inRoot(""), syntax},
	"declaration with more":         {"<?xml version='1.0' a='b'?>" + inRoot(""), syntax},
	"declaration empty":             {"<?xml?>" + inRoot(""), syntax},
	"declaration of a lie":          {`<?xml version="1.0" encoding="UTF-16"?>` + inRoot(""), policy},
	"declaration of the unknown":    {`<?xml version="1.0" encoding="x-none"?>` + inRoot(""), syntax},
	"prefix not declared":           {inRoot("<p:a/>"), namespaces},
	"attribute prefix not declared": {inRoot("<a p:b=''/>"), namespaces},
	"prefix out of scope":           {inRoot("<a xmlns:p='u:1'/><p:b/>"), namespaces},
	"prefix for no namespace":       {inRoot("<a xmlns:p=''/>"), namespaces},
	"prefix xmlns declared":         {inRoot("<a xmlns:xmlns='u:1'/>"), namespaces},
	"prefix xml for another":        {inRoot("<a xmlns:xml='u:1'/>"), namespaces},
	"namespace of xml taken":        {inRoot("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>"), namespaces},
	"namespace of xmlns taken":      {inRoot("<a xmlns:p='http://www.w3.org/2000/xmlns/'/>"), namespaces},
	"prefix xmlns on an element":    {inRoot("<xmlns:a/>"), namespaces},
	"two colons":                    {inRoot("<a:b:c xmlns:a='u:1'/>"), namespaces},
	"colon first":                   {inRoot("<:a/>"), namespaces},
	"colon last":                    {inRoot("<a: xmlns:a='u:1'/>"), namespaces},
	"colon in front of a digit":     {inRoot("<a:1 xmlns:a='u:1'/>"), namespaces},
	"colon in an instruction":       {inRoot("<?a:b c?>"), namespaces},
	"document type with entities":   {`<!DOCTYPE urlset [<!ENTITY a "b">]>` + inRoot("&a;"), policy},
	"document type, empty subset":   {`<!DOCTYPE urlset []>` + inRoot(""), policy},
	"document type behind the root": {inRoot("") + "<!DOCTYPE urlset>", syntax},
	"document type twice":           {"<!DOCTYPE urlset><!DOCTYPE urlset>" + inRoot(""), syntax},
	"document type in lower case":   {"<!doctype urlset>" + inRoot(""), syntax},
	"document type without name":    {"<!DOCTYPE >" + inRoot(""), syntax},
	"document type, no literal":     {"<!DOCTYPE urlset SYSTEM>" + inRoot(""), syntax},
	"document type, one literal":    {"<!DOCTYPE urlset PUBLIC 'a'>" + inRoot(""), syntax},
	"entity outside a type":         {`<!ENTITY a "b">` + inRoot(""), syntax},
	"NUL":                           {inRoot("<a>\x00</a>"), syntax},
	"a control character":           {inRoot("<a>\x0b</a>"), syntax},
	"a control in an attribute":     {inRoot("<a b='\x1f'/>"), syntax},
	"a control in a comment":        {inRoot("<!-- \x01 -->"), syntax},
	"U+FFFE":                        {inRoot("<a>\ufffe</a>"), syntax},
	"U+FFFF in a comment":           {inRoot("<!-- \uffff -->"), syntax},
	"not UTF-8":                     {inRoot("<a>\xe9</a>"), syntax},
	"overlong UTF-8":                {inRoot("<a>\xc0\xaf</a>"), syntax},
	"a surrogate in UTF-8":          {inRoot("<a>\xed\xa0\x80</a>"), syntax},
	"UTF-8 cut off":                 {inRoot("") + "<!-- --> \xe2\x82", syntax},
	"beyond ASCII in a tag":         {inRoot("<a\u00a0b='1'/>"), syntax},
	"nested too deep":               {inRoot(strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100)), policy},
}

func TestNotWellFormed(t *testing.T) {
	t.Parallel()
	for name, tt := range notWellFormed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var syn *resourcesync.SyntaxError
			if _, err := readAll(tt.doc, resourcesync.ReaderOptions{}); !errors.As(err, &syn) {
				t.Errorf("Reader: error %v, want a SyntaxError", err)
			} else if syn.Line < 1 || syn.Column < 1 {
				t.Errorf("Reader: error at line %d, column %d", syn.Line, syn.Column)
			}
			if tt.kind != syntax {
				return
			}
			if ok, _ := xmllint(t, tt.doc); ok {
				t.Error("xmllint accepts this")
			}
		})
	}
}

// standardLibrary reads doc with encoding/xml.
func standardLibrary(doc string) error {
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(doc, "\ufeff")))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// xmllint checks with libxml2, if it is installed, whether doc is well formed.
func xmllint(t *testing.T, doc string) (ok bool, output string) {
	t.Helper()
	path, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	c := exec.Command(path, "--noout", "--nonet", "-")
	c.Stdin = strings.NewReader(doc)
	out, err := c.CombinedOutput()
	return err == nil, string(out)
}

// A document is everything that was read of one.
type document struct {
	header   resourcesync.Header
	entries  []resourcesync.Entry
	warnings []resourcesync.Warning
	stats    resourcesync.Stats
}

// readAll reads doc to its end or first error.
func readAll(doc string, o resourcesync.ReaderOptions) (document, error) {
	return readFrom(strings.NewReader(doc), o)
}

func readFrom(in io.Reader, o resourcesync.ReaderOptions) (d document, err error) {
	report := o.OnWarning
	o.OnWarning = func(w resourcesync.Warning) {
		d.warnings = append(d.warnings, w)
		if report != nil {
			report(w)
		}
	}
	r := resourcesync.NewReader(in, o)
	for e, err := range r.Entries() {
		if err != nil {
			d.stats = r.Stats()
			return d, err
		}
		d.entries = append(d.entries, e)
	}
	d.stats = r.Stats()
	d.header, err = r.Header()
	return d, err
}
