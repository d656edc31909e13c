package xmlscan

import "bytes"

// A Space identifies the namespace of a name: one of those of Options, from 1
// on, or one of the following.
type Space uint8

const (
	None    Space = 0   // no namespace
	XMLNS   Space = 252 // that of namespace declarations
	XML     Space = 253 // that of xml:lang and xml:base
	Other   Space = 254 // one that is not in Options
	Unbound Space = 255 // the prefix is not declared: internal only
)

const (
	nsXML   = "http://www.w3.org/XML/1998/namespace"
	nsXMLNS = "http://www.w3.org/2000/xmlns/"
)

// A binding is an active namespace declaration.
type binding struct {
	space       Space
	prefix, uri int32 // positions in nsText
	end         int32
}

// known returns the namespace named uri.
func (s *Scanner) known(uri []byte) Space {
	if len(uri) == 0 {
		return None
	}
	for i, name := range s.namespaces {
		if string(uri) == name {
			return Space(i + 1)
		}
	}
	switch string(uri) {
	case nsXML:
		return XML
	case nsXMLNS:
		return XMLNS
	}
	return Other
}

// uri returns the namespace b declares.
func (s *Scanner) uri(b *binding) string { return s.named(b.space, s.nsText[b.uri:b.end]) }

// named returns the name of a namespace, which is other for Other.
func (s *Scanner) named(space Space, other []byte) string {
	switch space {
	case None:
		return ""
	case XML:
		return nsXML
	case Other:
		return string(other)
	}
	return s.namespaces[space-1]
}

// shadowed reports whether one of the bindings before end redeclares the prefix
// of the i-th.
func (s *Scanner) shadowed(i, end int) bool {
	b := &s.bindings[i]
	prefix := s.nsText[b.prefix:b.uri]
	for _, o := range s.bindings[i+1 : end] {
		if bytes.Equal(s.nsText[o.prefix:o.uri], prefix) {
			return true
		}
	}
	return false
}

// bind declares a namespace; the default one has the prefix "".
func (s *Scanner) bind(prefix, uri []byte) error {
	space := s.known(uri)
	switch {
	case string(prefix) == "xmlns":
		return s.Errorf("prefix xmlns is declared")
	case string(prefix) == "xml" && space != XML, string(prefix) != "xml" && space == XML, space == XMLNS:
		return s.Errorf("prefix %q cannot be bound to namespace %q", Clip(string(prefix)), Clip(string(uri)))
	case len(prefix) > 0 && len(uri) == 0:
		return s.Errorf("prefix %q is bound to no namespace", Clip(string(prefix)))
	case len(s.bindings) == maxBindings:
		return s.Errorf("%w: more than %d namespace declarations", ErrLimit, maxBindings)
	}
	for _, o := range s.bindings[s.own:] {
		if bytes.Equal(s.nsText[o.prefix:o.uri], prefix) {
			return s.Errorf("prefix %q is declared twice", Clip(string(prefix)))
		}
	}
	b := binding{space: space, prefix: int32(len(s.nsText))}
	s.nsText = append(s.nsText, prefix...)
	b.uri = int32(len(s.nsText))
	if space == Other {
		s.nsText = append(s.nsText, uri...)
	}
	b.end = int32(len(s.nsText))
	s.bindings = append(s.bindings, b)
	return nil
}

// lookup returns the namespace of prefix, and its URI if it is not a known one.
func (s *Scanner) lookup(prefix []byte) (Space, []byte) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		b := &s.bindings[i]
		if bytes.Equal(s.nsText[b.prefix:b.uri], prefix) {
			return b.space, s.nsText[b.uri:b.end]
		}
	}
	switch string(prefix) {
	case "":
		return None, nil
	case "xml":
		return XML, nil
	}
	return s.assume(prefix)
}
