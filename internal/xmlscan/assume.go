package xmlscan

// A Declaration declares the namespace of a prefix.
type Declaration struct{ Prefix, URI string }

// An assumption is a Declaration used if the document has none.
type assumption struct {
	Declaration
	space Space
	used  bool // by the current tag, or since the capture began
}

// assume looks up a prefix that is not declared.
func (s *Scanner) assume(prefix []byte) (Space, []byte) {
	for i := range s.assumed {
		a := &s.assumed[i]
		if string(prefix) != a.Prefix {
			continue
		}
		if a.used, s.assuming = true, true; a.space == Other {
			return Other, []byte(a.URI)
		}
		return a.space, nil
	}
	return Unbound, nil
}

// forget clears which assumptions were used.
func (s *Scanner) forget() {
	for i := range s.assumed {
		s.assumed[i].used = false
	}
	s.assuming = false
}
