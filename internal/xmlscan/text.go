package xmlscan

import "iter"

// Skip reads up to the end of the element whose start tag is at hand.
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

// Text reads the text that stands directly in the element whose start tag is
// at hand, up to its end, without white space around it: raw is with it. Both
// are good until the next call. The text has at most as many bytes as a token.
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

// AllText is Text with that of the elements inside, in the order of the
// document.
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

// Blank is Skip that reports whether nothing but white space and comments stood
// in the element.
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

// PassedText reports whether something other than white space and comments stood
// between tags since the last call.
func (s *Scanner) PassedText() bool {
	passed := s.solid
	s.solid = false
	return passed
}

// Attr returns the value of the attribute of that name without a prefix at the
// tag at hand, and whether there is one.
func (s *Scanner) Attr(name string) ([]byte, bool) {
	for i := range s.Attrs {
		if a := &s.Attrs[i]; a.Prefix == nil && string(a.Local) == name {
			return a.Value, true
		}
	}
	return nil, false
}

// Depth returns how many elements are open, the one whose start tag is at hand
// among them, the one that just ended not.
func (s *Scanner) Depth() int { return len(s.stack) }

// Encoding returns the encoding the document was found to be in, such as
// "utf-8", in lower case, and whether it begins with an XML declaration.
func (s *Scanner) Encoding() (name string, declared bool) { return s.encoding, s.declared }

// InScope yields the namespace declarations in force at the start tag at hand,
// those of the tag itself included, each prefix once, the default one as "".
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

// Trim returns b without XML white space around it.
func Trim(b []byte) []byte {
	for len(b) > 0 && classes[b[0]]&classSpace != 0 {
		b = b[1:]
	}
	for len(b) > 0 && classes[b[len(b)-1]]&classSpace != 0 {
		b = b[:len(b)-1]
	}
	return b
}
