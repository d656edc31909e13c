package xmlscan

import "iter"

// Skip reads up to the end of the current element.
func (s *Scanner) Skip() error {
	for depth := 1; depth > 0; {
		m, err := s.Next()
		if err != nil {
			return err
		}
		if m == Start {
			depth++
		} else {
			depth--
		}
	}
	return nil
}

// Text reads the text directly in the current element, up to its end, without
// surrounding white space: raw includes it. Both are valid until the next call.
// The text has at most as many bytes as a token.
func (s *Scanner) Text() (text, raw []byte, err error) {
	s.text, s.collect = s.text[:0], len(s.stack)
	depth := s.collect
	for {
		m, err := s.Next()
		if err != nil {
			return nil, nil, err
		}
		if m == End && len(s.stack) < depth {
			s.collect = 0
			return Trim(s.text), s.text, nil
		}
	}
}

// AllText is Text including that of the elements inside, in document order.
func (s *Scanner) AllText() ([]byte, error) {
	s.text = s.text[:0]
	for depth := len(s.stack); ; {
		s.collect = len(s.stack)
		m, err := s.Next()
		if err != nil {
			return nil, err
		}
		if m == End && len(s.stack) < depth {
			s.collect = 0
			return Trim(s.text), nil
		}
	}
}

// NextText is Next, and returns the text in front of the tag, without comments. It
// is valid until the next call. Of text longer than a token there is only so much
// that it is longer than one.
func (s *Scanner) NextText() (Mark, []byte, error) {
	s.text, s.collect, s.clips = s.text[:0], len(s.stack), true
	m, err := s.Next()
	s.collect, s.clips = 0, false
	return m, s.text, err
}

// Name returns the prefix of the current start tag, which may be empty, and the
// namespace of the tag. The prefix is valid until the next call.
func (s *Scanner) Name() (prefix []byte, uri string) {
	open := s.names[s.stack[len(s.stack)-1].name:]
	if n := len(open) - len(s.Local); n > 0 {
		prefix = open[:n-1]
	}
	space, other := s.lookup(prefix)
	return prefix, s.named(space, other)
}

// URI returns the namespace of an attribute of the current tag, or "".
func (s *Scanner) URI(a *Attr) string { return s.named(a.Space, a.URI) }

// Blank is Skip, and reports whether the element contained only white space and
// comments.
func (s *Scanner) Blank() (bool, error) {
	s.solid = false
	for depth, blank := len(s.stack), true; ; {
		m, err := s.Next()
		if err != nil {
			return false, err
		}
		if m == Start {
			blank = false
		} else if len(s.stack) < depth {
			return blank && !s.solid, nil
		}
	}
}

// PassedText reports whether anything but white space and comments came between
// tags since the last call.
func (s *Scanner) PassedText() bool {
	passed := s.solid
	s.solid = false
	return passed
}

// Attr returns the value of the current tag's attribute with that name and no
// prefix, and whether there is one.
func (s *Scanner) Attr(name string) ([]byte, bool) {
	for i := range s.Attrs {
		if a := &s.Attrs[i]; a.Prefix == nil && string(a.Local) == name {
			return a.Value, true
		}
	}
	return nil, false
}

// Depth returns the number of open elements, including the one whose start tag
// was just read, but not one that has just ended.
func (s *Scanner) Depth() int { return len(s.stack) }

// Encoding returns the detected encoding of the document, such as "utf-8", in
// lower case, and whether the document begins with an XML declaration.
func (s *Scanner) Encoding() (name string, declared bool) { return s.encoding, s.declared }

// InScope yields the namespace declarations in force at the current start tag,
// including its own, each prefix once, the default one as "".
func (s *Scanner) InScope() iter.Seq2[string, string] {
	return func(yield func(prefix, uri string) bool) {
		for i := len(s.bindings) - 1; i >= 0; i-- {
			if s.shadowed(i, len(s.bindings)) {
				continue
			}
			b := &s.bindings[i]
			if !yield(string(s.nsText[b.prefix:b.uri]), s.uri(b)) {
				return
			}
		}
	}
}

// Trim returns b without surrounding XML white space.
func Trim(b []byte) []byte {
	for len(b) > 0 && classes[b[0]]&classSpace != 0 {
		b = b[1:]
	}
	for len(b) > 0 && classes[b[len(b)-1]]&classSpace != 0 {
		b = b[:len(b)-1]
	}
	return b
}
