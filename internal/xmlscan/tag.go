package xmlscan

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// errMore is returned by the parsers of one token if the window ends inside it.
var errMore = errors.New("the window ends here")

// An Attr is an attribute of the current tag, except namespace declarations.
// Its bytes are valid until the next call of the Scanner.
type Attr struct {
	Prefix, Local []byte // Prefix is nil if there is none
	Value         []byte // references resolved, white space replaced by blanks
	Space         Space  // None without a prefix
	URI           []byte // of the namespace, if Space is Other
}

// startTag reads the start tag at pos.
func (s *Scanner) startTag() error {
	b, at := s.buf[:s.end], s.pos
	name, colon, p, err := s.name(b, at+1)
	if err != nil {
		return err
	}
	s.tag = at
	s.Attrs, s.abuf = s.Attrs[:0], s.abuf[:0]
	bindings, nsText, prefixed := len(s.bindings), len(s.nsText), false
	s.own = bindings
	if s.assuming && !s.taken.on {
		s.forget()
	}
	undo := func() { s.bindings, s.nsText = s.bindings[:bindings], s.nsText[:nsText] }
	for {
		q := skipSpace(b, p)
		if q >= len(b) {
			undo()
			return errMore
		}
		if b[q] == '>' {
			s.empty, p = false, q+1
			break
		}
		if b[q] == '/' {
			if q+1 >= len(b) {
				undo()
				return errMore
			}
			if b[q+1] != '>' {
				return s.errorAt(q, "a slash inside a tag")
			}
			s.empty, p = true, q+2
			break
		}
		if q == p {
			return s.errorAt(q, "no white space in front of an attribute")
		}
		var declares bool
		if p, declares, err = s.attribute(b, q); err != nil {
			undo()
			return err
		}
		prefixed = prefixed || !declares && s.Attrs[len(s.Attrs)-1].Prefix != nil
	}
	s.pos = p
	if err := s.resolve(name, colon, prefixed); err != nil {
		return err
	}
	return s.push(name, bindings, nsText)
}

// push opens an element.
func (s *Scanner) push(name []byte, bindings, nsText int) error {
	if len(s.stack) == s.maxDepth {
		return s.Errorf("%w: elements nested more than %d deep", ErrLimit, s.maxDepth)
	}
	if len(s.names)+len(name)+len(s.nsText) > maxNames {
		return s.Errorf("%w: open elements and namespaces with names of more than %d bytes", ErrLimit, maxNames)
	}
	s.stack = append(s.stack, frame{int32(len(s.names)), int32(bindings), int32(nsText)})
	s.names = append(s.names, name...)
	return nil
}

// pop closes the innermost element.
func (s *Scanner) pop() {
	f := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	s.names = s.names[:f.name]
	s.bindings, s.nsText = s.bindings[:f.bindings], s.nsText[:f.nsText]
}

// attribute parses the attribute at b[p] and returns its end. A namespace
// declaration takes effect and is not added to attrs.
func (s *Scanner) attribute(b []byte, p int) (end int, declares bool, err error) {
	start := p
	name, colon, p, err := s.name(b, p)
	if err != nil {
		return 0, false, err
	}
	p = skipSpace(b, p)
	if p < len(b) && b[p] != '=' {
		return 0, false, s.errorAt(p, "attribute %s has no value", Clip(string(name)))
	}
	p = skipSpace(b, p+1)
	if p >= len(b) {
		return 0, false, errMore
	}
	quote := b[p]
	if quote != '"' && quote != '\'' {
		return 0, false, s.errorAt(p, "the value of attribute %s is not in quotes", Clip(string(name)))
	}
	p++
	n, plain := valueEnd(b[p:], quote)
	if n < 0 {
		return 0, false, errMore
	}
	value := b[p : p+n]
	if !plain {
		if i := bytes.IndexByte(value, '<'); i >= 0 {
			return 0, false, s.errorAt(p+i, "a < in the value of attribute %s", Clip(string(name)))
		}
		from := len(s.abuf)
		if s.abuf, err = appendDecoded(s.abuf, value, true); err != nil {
			return 0, false, s.errorAt(p, "attribute %s: %w", Clip(string(name)), err)
		}
		value = s.abuf[from:len(s.abuf):len(s.abuf)]
	}
	p += n + 1
	var prefix []byte
	if colon > 0 {
		prefix, name = name[:colon], name[colon+1:]
	}
	switch {
	case prefix == nil && string(name) == "xmlns":
		return p, true, s.bind(nil, value)
	case string(prefix) == "xmlns":
		return p, true, s.bind(name, value)
	}
	return p, false, s.keep(prefix, name, value, start)
}

// keep stores an attribute, which begins at p.
func (s *Scanner) keep(prefix, local, value []byte, p int) error {
	if len(s.Attrs) == maxAttributes {
		return s.errorAt(p, "%w: a tag with more than %d attributes", ErrLimit, maxAttributes)
	}
	for i := range s.Attrs {
		o := &s.Attrs[i]
		if len(o.Local) == len(local) && bytes.Equal(o.Local, local) && bytes.Equal(o.Prefix, prefix) {
			return s.errorAt(p, "a second attribute %s", Clip(string(local)))
		}
	}
	s.Attrs = append(s.Attrs, Attr{})
	a := &s.Attrs[len(s.Attrs)-1] // filled in place: it is large
	a.Prefix, a.Local, a.Value = prefix, local, value
	return nil
}

// resolve determines the namespaces of the current tag and of its attributes.
func (s *Scanner) resolve(name []byte, colon int, prefixed bool) error {
	var prefix []byte
	s.Local = name
	if colon > 0 {
		prefix, s.Local = name[:colon], name[colon+1:]
	}
	if s.Space, _ = s.lookup(prefix); s.Space == Unbound || string(prefix) == "xmlns" {
		return s.Errorf("prefix %q is not declared", Clip(string(prefix)))
	}
	if !prefixed {
		return nil
	}
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if a.Prefix == nil {
			continue
		}
		if a.Space, a.URI = s.lookup(a.Prefix); a.Space == Unbound {
			return s.Errorf("prefix %q is not declared", Clip(string(a.Prefix)))
		}
		for j := range s.Attrs[:i] {
			o := &s.Attrs[j]
			if o.Prefix != nil && o.Space == a.Space && bytes.Equal(o.Local, a.Local) && bytes.Equal(o.URI, a.URI) {
				return s.Errorf("a second attribute %s", Clip(string(a.Local)))
			}
		}
	}
	return nil
}

// endTag reads the end tag at pos.
func (s *Scanner) endTag() error {
	b := s.buf[:s.end]
	if len(s.stack) == 0 {
		return s.Errorf("an end tag without a start tag")
	}
	open := s.names[s.stack[len(s.stack)-1].name:]
	p := s.pos + 2
	q := p + len(open)
	if q >= len(b) {
		if n := min(len(b)-p, len(open)); n >= 0 && !bytes.Equal(b[p:p+n], open[:n]) {
			return s.Errorf("the end tag does not match <%s>", Clip(string(open)))
		}
		return errMore
	}
	if !bytes.Equal(b[p:q], open) {
		return s.Errorf("the end tag does not match <%s>", Clip(string(open)))
	}
	if b[q] != '>' {
		if q = skipSpace(b, q); q >= len(b) {
			return errMore
		}
		if b[q] != '>' {
			return s.Errorf("the end tag does not match <%s>", Clip(string(open)))
		}
	}
	s.pos = q + 1
	s.pop()
	return nil
}

// name parses a qualified name at b[p] and returns the positions of its colon,
// if it has one, and of its end.
func (s *Scanner) name(b []byte, p int) (name []byte, colon, end int, err error) {
	start := p
	for p < len(b) && classes[b[p]]&className != 0 {
		if b[p] == ':' {
			if colon > 0 || p == start {
				return nil, 0, 0, s.errorAt(p, "a name with a colon out of place")
			}
			colon = p - start
		}
		p++
	}
	if p < len(b) && b[p] >= utf8.RuneSelf {
		return s.wideName(b, start)
	}
	switch {
	case p >= len(b):
		return nil, 0, 0, errMore
	case p == start, classes[b[start]]&classNameStart == 0:
		return nil, 0, 0, s.errorAt(start, "%q where a name should begin", rune(b[start]))
	case colon > 0 && (start+colon+1 == p || classes[b[start+colon+1]]&classNameStart == 0):
		return nil, 0, 0, s.errorAt(p, "a name with a colon out of place")
	}
	return b[start:p], colon, p, nil
}

// wideName is name for those with characters beyond ASCII.
func (s *Scanner) wideName(b []byte, start int) (name []byte, colon, end int, err error) {
	p, first := start, true
	for p < len(b) {
		r, n := utf8.DecodeRune(b[p:])
		if r == ':' {
			if colon > 0 || first {
				return nil, 0, 0, s.errorAt(p, "a name with a colon out of place")
			}
			colon, first = p-start, true
			p++
			continue
		}
		if !nameRune(r, first) {
			break
		}
		p, first = p+n, false
	}
	switch {
	case p >= len(b):
		return nil, 0, 0, errMore
	case first:
		r, _ := utf8.DecodeRune(b[p:])
		return nil, 0, 0, s.errorAt(p, "%q where a name should begin", r)
	}
	return b[start:p], colon, p, nil
}

// nameRune reports whether r is valid in a name, or at its beginning (XML 1.0,
// fifth edition, productions 4 and 4a).
func nameRune(r rune, first bool) bool {
	if r < utf8.RuneSelf {
		want := className
		if first {
			want = classNameStart
		}
		return classes[r]&want != 0
	}
	if !first && (r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040) {
		return true
	}
	for _, span := range nameRunes {
		if r >= span[0] && r <= span[1] {
			return true
		}
	}
	return false
}

// nameRunes are the characters beyond ASCII that may begin a name.
var nameRunes = [...][2]rune{{0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x2FF}, {0x370, 0x37D}, {0x37F, 0x1FFF},
	{0x200C, 0x200D}, {0x2070, 0x218F}, {0x2C00, 0x2FEF}, {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}}

// skipSpace returns the end of white space at b[p], if there is any.
func skipSpace(b []byte, p int) int {
	for p < len(b) && classes[b[p]]&classSpace != 0 {
		p++
	}
	return p
}
