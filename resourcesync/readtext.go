package resourcesync

// An interner keeps the few texts that nearly every entry repeats, so that they
// are allocated once.
type interner struct {
	last  string
	texts map[string]string
}

// get returns b as a string.
func (in *interner) get(b []byte) string {
	const maxTexts, maxLength = 256, 128
	if string(b) == in.last {
		return in.last
	}
	s, ok := in.texts[string(b)]
	if !ok {
		s = string(b)
		if in.texts == nil {
			in.texts = make(map[string]string)
		}
		if len(in.texts) < maxTexts && len(b) <= maxLength {
			in.texts[s] = s
		}
	}
	in.last = s
	return s
}

// textOf reads the text of the element whose start tag is at hand, up to its
// end, without white space around it. What it returns is good until the next
// one.
func (r *Reader) textOf() ([]byte, error) {
	s := &r.s
	s.text, s.collect = s.text[:0], len(s.stack)
	depth := s.collect
	for {
		m, err := s.next()
		if err != nil {
			return nil, err
		}
		if m == markEnd && len(s.stack) < depth {
			s.collect = 0
			return trim(s.text), nil
		}
	}
}

// trim returns b without XML white space around it.
func trim(b []byte) []byte {
	for len(b) > 0 && classes[b[0]]&classSpace != 0 {
		b = b[1:]
	}
	for len(b) > 0 && classes[b[len(b)-1]]&classSpace != 0 {
		b = b[:len(b)-1]
	}
	return b
}
