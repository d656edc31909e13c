package patch

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An xmlKind is the kind of a node, in terms of XPath.
type xmlKind uint8

const (
	xmlDocument xmlKind = iota
	xmlElement
	xmlText // including CDATA sections
	xmlComment
	xmlInstruction
	xmlProlog // the XML declaration, the document type
)

// An xmlNode is a part of a document, in its original spelling.
type xmlNode struct {
	kind   xmlKind
	parent *xmlNode
	kids   []*xmlNode
	open   []byte // the start tag; for other nodes than elements, everything
	end    []byte // the end tag; nil for an empty-element tag
	name   string // of an element, with its prefix; of an instruction, its target
	spaces []xmlSpace
}

// An xmlSpace is a declaration of a namespace.
type xmlSpace struct{ prefix, uri string }

// maxXMLDepth is the maximum nesting depth of elements.
const maxXMLDepth = 1000

// parseXML parses a document. It keeps every byte: the texts of the nodes, one
// after the other, are the document. There is no DTD processing, and no encoding
// but UTF-8.
func parseXML(doc []byte) (*xmlNode, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	root := &xmlNode{kind: xmlDocument}
	at, depth, begin, text := root, 0, int64(0), int64(0)
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		raw := doc[begin:d.InputOffset()]
		begin += int64(len(raw))
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxXMLDepth {
				return nil, fmt.Errorf("nested too deep: %w", ErrTooLarge)
			}
			e := &xmlNode{kind: xmlElement, open: raw, name: nameIn(raw[1:])}
			if err := e.readSpaces(); err != nil {
				return nil, err
			}
			at.push(e)
			at = e
		case xml.EndElement:
			if at.kind != xmlElement || len(raw) > 0 && nameIn(raw[2:]) != at.name {
				return nil, fmt.Errorf("%w: unexpected end of element %q", ErrInvalid, clip(t.Name.Local))
			}
			if len(raw) > 0 {
				at.end = raw
			}
			at, depth = at.parent, depth-1
		case xml.CharData:
			if at.endsInText() {
				at.kids[len(at.kids)-1].open = doc[text:begin]
				continue
			}
			text = begin - int64(len(raw))
			at.push(&xmlNode{kind: xmlText, open: raw})
		case xml.Comment:
			at.push(&xmlNode{kind: xmlComment, open: raw})
		case xml.ProcInst:
			kind := xmlInstruction
			if t.Target == "xml" {
				kind = xmlProlog
			}
			at.push(&xmlNode{kind: kind, open: raw, name: t.Target})
		default: // a Directive
			at.push(&xmlNode{kind: xmlProlog, open: raw})
		}
	}
	if at != root || root.element() == nil || begin != int64(len(doc)) {
		return nil, fmt.Errorf("%w: not one whole element", ErrInvalid)
	}
	return root, nil
}

// nameIn returns the name at the beginning of markup.
func nameIn(b []byte) string {
	if i := bytes.IndexAny(b, " \t\r\n/>"); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// element returns the only element among the kids of n, or nil.
func (n *xmlNode) element() *xmlNode {
	var e *xmlNode
	for _, kid := range n.kids {
		if kid.kind == xmlElement {
			if e != nil {
				return nil
			}
			e = kid
		}
	}
	return e
}

func (n *xmlNode) push(kid *xmlNode) {
	kid.parent = n
	n.kids = append(n.kids, kid)
}

func (n *xmlNode) endsInText() bool {
	k := len(n.kids)
	return k > 0 && n.kids[k-1].kind == xmlText
}

// write appends the document to dst, which must not exceed limit.
func (n *xmlNode) write(dst []byte, limit int64) ([]byte, error) {
	dst = append(dst, n.open...)
	for _, kid := range n.kids {
		var err error
		if dst, err = kid.write(dst, limit); err != nil {
			return nil, err
		}
	}
	if dst = append(dst, n.end...); int64(len(dst)) > limit {
		return nil, fmt.Errorf("result above %d bytes: %w", limit, ErrTooLarge)
	}
	return dst, nil
}

// unfold replaces an empty-element tag by a start tag and an end tag, so that
// content can be added.
func (n *xmlNode) unfold() {
	if n.kind != xmlElement || n.end != nil {
		return
	}
	tag := bytes.TrimRight(bytes.TrimSuffix(n.open, []byte("/>")), " \t\r\n")
	n.open = append(tag[:len(tag):len(tag)], '>')
	n.end = []byte("</" + n.name + ">")
}

// An xmlAttr is the position of an attribute in a start tag.
type xmlAttr struct {
	name       string
	begin, end int // from the blank before the name to the end of the closing quote
	value      int // start of the value
}

var errTag = fmt.Errorf("%w: a start tag that cannot be read", ErrInvalid)

// attrs finds the attributes in the start tag of an element.
func (n *xmlNode) attrs() ([]xmlAttr, error) {
	var as []xmlAttr
	b := n.open
	for i := 1 + len(n.name); ; {
		a := xmlAttr{begin: i}
		for i < len(b) && isBlank(b[i]) {
			i++
		}
		if i >= len(b) {
			return nil, errTag
		}
		if b[i] == '/' || b[i] == '>' {
			return as, nil
		}
		name := i
		for i < len(b) && b[i] != '=' && !isBlank(b[i]) {
			i++
		}
		a.name = string(b[name:i])
		for i < len(b) && (b[i] == '=' || isBlank(b[i])) {
			i++
		}
		if i >= len(b) || b[i] != '"' && b[i] != '\'' {
			return nil, errTag
		}
		a.value = i + 1
		n := bytes.IndexByte(b[a.value:], b[i])
		if n < 0 {
			return nil, errTag
		}
		i = a.value + n + 1
		a.end = i
		as = append(as, a)
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// attrs is [xmlNode.attrs] with its work counted.
func (p *xmlPatching) attrs(n *xmlNode) ([]xmlAttr, error) {
	if err := p.spend(2 * len(n.open)); err != nil { // including the work of the caller
		return nil, err
	}
	return n.attrs()
}

// valueOf returns the value of an attribute of n.
func (n *xmlNode) valueOf(a *xmlAttr) (string, error) { return decodeXML(n.open[a.value : a.end-1]) }

// splice replaces a part of the start tag.
func (n *xmlNode) splice(begin, end int, with string) error {
	n.open = append(n.open[:begin:begin], append([]byte(with), n.open[end:]...)...)
	return n.readSpaces()
}

// readSpaces records the namespaces that the start tag declares.
func (n *xmlNode) readSpaces() error {
	n.spaces = nil
	if !bytes.Contains(n.open, []byte("xmlns")) {
		return nil
	}
	as, err := n.attrs()
	if err != nil {
		return err
	}
	for i := range as {
		prefix, ok := strings.CutPrefix(as[i].name, "xmlns:")
		if !ok && as[i].name != "xmlns" {
			continue
		}
		if !ok {
			prefix = ""
		}
		uri, err := n.valueOf(&as[i])
		if err != nil {
			return err
		}
		n.spaces = append(n.spaces, xmlSpace{prefix, uri})
	}
	return nil
}

// decodeXML returns the characters of a text with references and CDATA
// sections.
func decodeXML(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '&') < 0 && bytes.IndexByte(raw, '<') < 0 {
		return string(raw), nil
	}
	d := xml.NewDecoder(bytes.NewReader(raw))
	var b strings.Builder
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		text, ok := token.(xml.CharData)
		if !ok {
			return "", fmt.Errorf("%w: markup where text is expected", ErrInvalid)
		}
		b.Write(text)
	}
}

// uri resolves a prefix at n.
func (p *xmlPatching) uri(n *xmlNode, prefix string) (string, bool, error) {
	if prefix == "xml" {
		return "http://www.w3.org/XML/1998/namespace", true, nil
	}
	for e := n; e != nil; e = e.parent {
		if err := p.spend(1 + len(e.spaces)); err != nil {
			return "", false, err
		}
		for _, s := range e.spaces {
			if s.prefix == prefix {
				return s.uri, true, nil
			}
		}
	}
	return "", prefix == "", nil
}

// splitName splits a name into prefix and local part.
func splitName(name string) (prefix, local string) {
	if prefix, local, ok := strings.Cut(name, ":"); ok {
		return prefix, local
	}
	return "", name
}
