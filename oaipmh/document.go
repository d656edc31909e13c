package oaipmh

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"lockstep/internal/xmlscan"
)

// errNoNamespace reports a document whose root is in no namespace: OAI-PMH has
// no such format (OAI-PMH 2.0, 3.4).
var errNoNamespace = errors.New("the root of the document is in no namespace")

const (
	// documentDepth is the maximum nesting depth of elements of metadata: it
	// prevents memory filled by nesting.
	documentDepth = 256

	schemaInstance = "http://www.w3.org/2001/XMLSchema-instance"
)

// A Metadata is a document that can be the metadata of a record (OAI-PMH 2.0,
// 2.5).
type Metadata struct {
	Document  []byte // its root element, in UTF-8, with the same content as the document
	Namespace string // of the root
	Schema    string // location of the schema that the document states; "" if it states none

	located  bool   // it states locations of schemas
	instance string // the namespace that it binds to the prefix xsi
}

// Locate adds the address of the schema of the document's namespace, if the
// document states no schema location: each metadata part must have one (OAI-PMH
// 2.0, 2.5).
func (m *Metadata) Locate(schema string) {
	if m.located || schema == "" || m.instance != "" && m.instance != schemaInstance {
		return
	}
	root, name, _ := rootTag(m.Document)
	if root == nil {
		return // unreachable: it is a document
	}
	b := append(make([]byte, 0, len(root)+256), root[:name]...)
	if m.instance == "" {
		b = append(b, ` xmlns:xsi="`+schemaInstance+`"`...)
	}
	b = AppendText(append(b, ` xsi:schemaLocation="`...), m.Namespace+" "+schema)
	m.Document = append(append(b, '"'), root[name:]...)
	m.Schema, m.located, m.instance = schema, true, schemaInstance
}

// Document reads a well-formed XML document of up to limit bytes. It returns an
// error if the document declares entities, or its root is in no namespace.
func Document(r io.Reader, limit int64) (Metadata, error) {
	s := xmlscan.New(r, xmlscan.Options{Namespaces: []string{schemaInstance}, MaxBytes: limit, MaxToken: int(limit), MaxDepth: documentDepth})
	m, err := s.Next()
	if err != nil {
		return Metadata{}, err
	}
	if m != xmlscan.Start {
		return Metadata{}, io.ErrUnexpectedEOF // unreachable: the Scanner guarantees a root
	}
	var meta Metadata
	var located []string
	for _, a := range s.Attrs {
		if a.Space == 1 && string(a.Local) == "schemaLocation" {
			meta.located = true
			located = strings.Fields(string(a.Value))
		}
	}
	spaces := make(map[string]string)
	for prefix, uri := range s.InScope() {
		spaces[prefix] = uri
	}
	meta.instance = spaces["xsi"]
	if meta.Document, err = s.Capture(nil, int(limit)); err != nil {
		return Metadata{}, err
	}
	if _, err = s.Next(); err != nil { // what follows the root must be valid too
		return Metadata{}, err
	}
	if meta.Namespace = spaces[rootPrefix(meta.Document)]; meta.Namespace == "" {
		return Metadata{}, errNoNamespace
	}
	for i := 0; i+1 < len(located); i += 2 {
		if located[i] == meta.Namespace {
			meta.Schema = located[i+1]
		}
	}
	return meta, nil
}

// rootPrefix returns the prefix of the element that b begins with.
func rootPrefix(b []byte) string {
	name := b[1:]
	if i := bytes.IndexAny(name, " \t\r\n/>"); i >= 0 {
		name = name[:i]
	}
	prefix, _, found := bytes.Cut(name, []byte(":"))
	if !found {
		return ""
	}
	return string(prefix)
}

// rootTag returns a well-formed document from its root element on, the end of
// the element's name, and its start tag; nil if there is none.
func rootTag(doc []byte) (root []byte, name int, tag []byte) {
	doc = bytes.TrimPrefix(doc, []byte("\ufeff"))
	for {
		doc = bytes.TrimLeft(doc, " \t\r\n")
		end := ""
		switch {
		case bytes.HasPrefix(doc, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(doc, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(doc, []byte("<!")):
			end = ">"
		case len(doc) < 3 || doc[0] != '<':
			return nil, 0, nil
		}
		if end == "" {
			break
		}
		i := bytes.Index(doc, []byte(end))
		if i < 0 {
			return nil, 0, nil
		}
		doc = doc[i+len(end):]
	}
	if i := bytes.LastIndexByte(doc, '>'); i >= 0 {
		doc = trimBehind(doc[:i+1])
	}
	name = bytes.IndexAny(doc, " \t\r\n/>")
	if name < 0 {
		return nil, 0, nil
	}
	quote := byte(0)
	for i := name; i < len(doc); i++ {
		switch c := doc[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return doc, name, doc[:i]
		}
	}
	return nil, 0, nil
}

// trimBehind removes comments and instructions after the root's end tag.
func trimBehind(doc []byte) []byte {
	for {
		begin := -1
		switch {
		case bytes.HasSuffix(doc, []byte("-->")):
			begin = bytes.LastIndex(doc, []byte("<!--"))
		case bytes.HasSuffix(doc, []byte("?>")):
			begin = bytes.LastIndex(doc, []byte("<?"))
		}
		if begin <= 0 {
			return doc
		}
		doc = bytes.TrimRight(doc[:begin], " \t\r\n")
	}
}

// bareNames reports whether a document has a tag without a prefix; it may be
// wrong about text that looks like one.
func bareNames(doc []byte) bool {
	for {
		i := bytes.IndexByte(doc, '<')
		if i < 0 {
			return false
		}
		doc = doc[i+1:]
		end := bytes.IndexAny(doc, " \t\r\n/>")
		switch {
		case len(doc) == 0 || doc[0] == '/' || doc[0] == '?' || doc[0] == '!':
		case end < 0 || bytes.IndexByte(doc[:end], ':') < 0:
			return true
		}
	}
}

// declaresDefault reports whether a start tag declares a default namespace.
func declaresDefault(tag []byte) bool {
	quote := byte(0)
	for i := 1; i < len(tag); i++ {
		switch c := tag[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == 'x' && isSpace(tag[i-1]) && bytes.HasPrefix(tag[i:], []byte("xmlns")):
			if rest := bytes.TrimLeft(tag[i+5:], " \t\r\n"); len(rest) > 0 && rest[0] == '=' {
				return true
			}
		}
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
