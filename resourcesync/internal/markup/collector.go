// Package markup collects the attributes and elements of an entry that belong to
// namespaces of a community (RS-XML-07), as XML in one canonical form: without
// comments and processing instructions, with declarations where a prefix is first
// needed, and with the prefixes of the document, except where one would have a
// second meaning. What is collected from canonical XML is the same XML.
package markup

import (
	"bytes"

	"lockstep/internal/xmlscan"
)

const (
	nsRS  = "http://www.openarchives.org/rs/terms/"
	nsXML = "http://www.w3.org/XML/1998/namespace"
	nsXSI = "http://www.w3.org/2001/XMLSchema-instance"
)

// The canonical form is an element around elements, and with attributes. It is in no
// namespace and never part of a document.
const (
	Root = "foreign"

	begin = "<" + Root
	end   = "</" + Root + ">"
)

// A Collector collects the markup of one entry or link. Its zero value collects
// nothing, for want of space: set Most.
type Collector struct {
	Most    int  // bytes of attributes and elements together
	Dropped bool // an attribute or element was dropped because of Most

	attributes []byte
	elements   []byte
	outer      scope // of the attributes
	inner      scope // of the current element
	seen       []name
	names      []byte // of the open elements
	open       []frame
}

// A name is that of an attribute.
type name struct{ uri, local string }

// A frame is an open element.
type frame struct{ name, bindings int }

// Reset empties the Collector for another entry.
func (c *Collector) Reset(most int) {
	c.Most, c.Dropped = most, false
	c.attributes, c.elements = c.attributes[:0], c.elements[:0]
	c.outer.reset()
	c.seen = c.seen[:0]
}

// Len returns the number of bytes of what was collected.
func (c *Collector) Len() int { return len(c.attributes) + len(c.elements) }

// Text returns the canonical form of what was collected, or "" for nothing.
func (c *Collector) Text() string {
	switch {
	case c.Len() == 0:
		return ""
	case len(c.elements) == 0:
		return begin + string(c.attributes) + "/>"
	}
	b := make([]byte, 0, len(begin)+c.Len()+len(">")+len(end))
	b = append(append(b, begin...), c.attributes...)
	b = append(append(b, '>'), c.elements...)
	return string(append(b, end...))
}

// Attributes returns the part of a canonical form that belongs into the tag of the
// entry's rs:md, or of a link.
func Attributes(text string) string {
	if text == "" {
		return ""
	}
	i := 0
	for text[i] != '>' { // there is none in a value
		i++
	}
	if text[i-1] == '/' {
		i--
	}
	return text[len(begin):i]
}

// Elements returns the part of a canonical form that belongs into the entry.
func Elements(text string) string {
	rest := len(begin) + len(Attributes(text)) + len(">")
	if len(text) < rest+len(end) {
		return ""
	}
	return text[rest : len(text)-len(end)]
}

// Attribute collects an attribute of the current tag of s.
func (c *Collector) Attribute(s *xmlscan.Scanner, a *xmlscan.Attr) {
	n := name{s.URI(a), string(a.Local)}
	for _, o := range c.seen {
		if o == n {
			return
		}
	}
	from, bindings, used := len(c.attributes), len(c.outer.bindings), len(c.outer.used)
	if !c.fits(len(a.Value)) {
		return
	}
	c.attributes = c.outer.appendAttribute(c.attributes, string(a.Prefix), n, a.Value)
	if !c.fits(0) {
		c.attributes, c.outer.bindings, c.outer.used = c.attributes[:from], c.outer.bindings[:bindings], c.outer.used[:used]
		return
	}
	c.seen = append(c.seen, n)
}

// fits reports whether n more bytes fit, and notes that something is dropped if not.
func (c *Collector) fits(n int) bool {
	if c.Len()+n <= c.Most {
		return true
	}
	c.Dropped = true
	return false
}

// Element collects the element whose start tag s has just read, and reads up to its
// end. It collects nothing if allowed is false for the tag of an element within.
func (c *Collector) Element(s *xmlscan.Scanner, allowed func() bool) error {
	from := len(c.elements)
	c.inner.reset()
	c.names, c.open = c.names[:0], c.open[:0]
	kept, tag := c.start(s), true // tag: a start tag lacks its end
	for depth := 1; depth > 0; {
		var m xmlscan.Mark
		var text []byte
		var err error
		if kept {
			m, text, err = s.NextText()
		} else {
			m, err = s.Next()
		}
		if err != nil {
			return err
		}
		if m == xmlscan.Start {
			depth++
			kept = allowed() && kept
		} else {
			depth--
		}
		if kept = kept && c.fits(len(text)); !kept {
			continue
		}
		if tag && (len(text) > 0 || m == xmlscan.Start) {
			c.elements, tag = append(c.elements, '>'), false
		}
		c.elements = appendText(c.elements, text)
		if m == xmlscan.Start {
			kept, tag = c.start(s), true
		} else {
			c.end(tag)
			kept, tag = c.fits(0), false
		}
	}
	if !kept {
		c.elements = c.elements[:from]
	}
	return nil
}

// start appends the current start tag of s, without its last character. It reports
// whether it fits.
func (c *Collector) start(s *xmlscan.Scanner) bool {
	size := len(s.Local)
	for i := range s.Attrs {
		size += len(s.Attrs[i].Value)
	}
	if !c.fits(size) {
		return false
	}
	c.open = append(c.open, frame{len(c.names), len(c.inner.bindings)})
	c.inner.used = c.inner.used[:0]
	prefix, uri := s.Name()
	from, declared := len(c.names), len(c.inner.bindings)
	p := c.inner.declare(string(prefix), uri)
	if p != "" {
		c.names = append(append(c.names, p...), ':')
	}
	c.names = append(c.names, s.Local...)
	c.elements = append(append(c.elements, '<'), c.names[from:]...)
	c.elements = c.inner.appendDeclarations(c.elements, declared)
	for i := range s.Attrs {
		a := &s.Attrs[i]
		n := name{s.URI(a), string(a.Local)}
		c.elements = c.inner.appendAttribute(c.elements, string(a.Prefix), n, a.Value)
		if n == (name{nsXSI, "type"}) {
			c.elements = c.inner.appendTypeDeclaration(c.elements, s, a.Value)
		}
	}
	return c.fits(0)
}

// end appends the end of the innermost element; tag is whether its start tag lacks its
// end.
func (c *Collector) end(tag bool) {
	f := c.open[len(c.open)-1]
	if tag {
		c.elements = append(c.elements, "/>"...)
	} else {
		c.elements = append(append(append(c.elements, "</"...), c.names[f.name:]...), '>')
	}
	c.names, c.open, c.inner.bindings = c.names[:f.name], c.open[:len(c.open)-1], c.inner.bindings[:f.bindings]
}

// appendText appends text, escaped.
func appendText(b, text []byte) []byte {
	for len(text) > 0 {
		n := bytes.IndexAny(text, "&<>\r")
		if n < 0 {
			return append(b, text...)
		}
		b = xmlscan.AppendEntity(append(b, text[:n]...), text[n])
		text = text[n+1:]
	}
	return b
}
