package resourcesync

import (
	"bytes"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
	"lockstep/resourcesync/internal/digest"
	"lockstep/resourcesync/internal/lexical"
)

// An exact Reader also warns of constructs that every reader understands but no
// writer should produce. They do not change the result.

const nsXSI = "http://www.w3.org/2001/XMLSchema-instance"

// exactRoot checks the beginning of the document and its root element.
func (r *Reader) exactRoot() {
	switch encoding, declared := r.s.Encoding(); {
	case encoding != "utf-8":
		r.warn("RS-XML-01", "the document is in "+encoding+", not in UTF-8")
	case !declared:
		r.warn("RS-XML-01", "the document does not begin with an XML declaration")
	}
	for i := range r.s.Attrs {
		if a := &r.s.Attrs[i]; string(a.URI) == nsXSI && (string(a.Local) == "schemaLocation" || string(a.Local) == "noNamespaceSchemaLocation") {
			r.warn("RS-XML-12", "the root element has xsi:"+string(a.Local)+"; published schemas lag behind the standard")
		}
	}
}

// exactText warns of text before a tag: the schema of Sitemaps allows only
// elements there.
func exactText(r *Reader) {
	if r.opts.Exact && r.s.PassedText() {
		r.warn("RS-XML-03", "text between elements, ignored")
	}
}

// exactElement warns of an element in the namespace of Sitemaps or ResourceSync
// that neither of them defines. Its name is probably misspelt.
func exactElement(r *Reader) {
	space := ""
	switch name := string(r.s.Local); {
	case !r.opts.Exact, name == "priority" && r.s.Space == spaceSitemap:
		return
	case r.s.Space == spaceSitemap:
		space = "Sitemaps"
	case r.s.Space == spaceRS:
		space = "ResourceSync"
	default:
		return
	}
	r.warn("RS-XML-07", "unknown element "+xmlscan.Clip(string(r.s.Local))+" of the namespace of "+space+", ignored")
}

// exactAttributes checks an element that should have no attributes.
func (r *Reader) exactAttributes() {
	if len(r.s.Attrs) > 0 {
		r.warn("RS-XML-08", "<"+xmlscan.Clip(string(r.s.Local))+"> with attributes, such as "+xmlscan.Clip(string(r.s.Attrs[0].Local)))
	}
}

// exactUnknown checks an unknown attribute without a prefix.
func (r *Reader) exactUnknown(element string, a *xmlscan.Attr) {
	if r.opts.Exact && a.Prefix == nil {
		r.warn("RS-XML-07", "unknown attribute "+xmlscan.Clip(string(a.Local))+" of "+element+"; a community's own needs a namespace and a prefix")
	}
}

// exactDatetime checks whether a valid datetime is written in full and in UTC.
func (r *Reader) exactDatetime(v []byte, name string) {
	v = xmlscan.Trim(v)
	if r.opts.Exact && (len(v) < len("2006-01-02T15:04:05Z") || v[len(v)-1] != 'Z') {
		r.warn("RS-DT-01", name+" \""+xmlscan.Clip(string(v))+"\" is not in full and in UTC")
	}
}

// exactHash checks a hash attribute whose values were all usable.
func (r *Reader) exactHash(v []byte) {
	if !r.opts.Exact {
		return
	}
	values := bytes.Fields(v)
	if len(values) == 0 {
		r.warn("RS-HASH-01", "an empty hash")
	}
	for _, value := range values {
		token, digits, found := bytes.Cut(value, []byte(":"))
		a, alias := digest.Lookup(string(token))
		switch {
		case !found: // the Reader has reported it
		case a == 0:
			r.warn("RS-HASH-02", "unknown hash algorithm \""+xmlscan.Clip(string(token))+"\"")
		case !alias && string(token) != a.String():
			r.warn("RS-HASH-02", "hash algorithm \""+xmlscan.Clip(string(token))+"\" in upper case")
		case len(digits) == 2*a.Size() && bytes.ContainsAny(digits, "ABCDEF"):
			r.warn("RS-HASH-02", a.String()+" digest in upper case")
		}
	}
}

// exactLoc checks an accepted loc without surrounding white space.
func (r *Reader) exactLoc(text []byte) {
	switch {
	case !r.opts.Exact:
	case r.blanks > 0:
		r.warn("RS-XML-09", "loc with white space around it")
	case iri.Plain(text) && !lexical.URI(string(text)):
		r.warn("RS-XML-09", "loc \""+xmlscan.Clip(string(text))+"\" is no valid URI")
	}
}

// exactLink checks a link that has rel and href.
func (r *Reader) exactLink(rel, href []byte) {
	if !r.opts.Exact {
		return
	}
	if iri.HasScheme(href) && !lexical.URI(string(href)) {
		r.warn("RS-LN-01", "the href \""+xmlscan.Clip(string(href))+"\" of a link is no valid URI")
	}
	for _, name := range bytes.Fields(rel) {
		if usual := bytes.ToLower(name); !validRel(string(name)) && (bytes.Equal(usual, name) || bytes.IndexByte(name, ':') >= 0) {
			r.warn("RS-LN-03", "relation \""+xmlscan.Clip(string(name))+"\" is neither a name nor a URI")
		}
	}
}

// exactEncoding checks a content coding.
func (r *Reader) exactEncoding(v []byte) {
	if r.opts.Exact && (len(v) == 0 || !lexical.Encoding(string(v))) {
		r.warn("RS-ENC-01", "encoding \""+xmlscan.Clip(string(v))+"\" is no list of content codings")
	}
}

// exactEmpty checks an empty child of an entry.
func (r *Reader) exactEmpty(rule, name string) {
	if r.opts.Exact {
		r.warn(rule, "an empty "+name)
	}
}

// Position returns the approximate end of the entry last read: line and column
// of the text in UTF-8, from 1.
func (r *Reader) Position() (line, column int) { return r.s.Position() }
