package resourcesync

import "bytes"

// A namespace is one this package tells apart.
type namespace uint8

const (
	spaceNone namespace = iota
	spaceSitemap
	spaceRS
	spacePreBeta // http://www.openarchives.org/rs/ (RS-GEN-02)
	spaceDraft   // http://resourcesync.org/ns/ (RS-VER-21)
	spaceXHTML
	spaceXML
	spaceXMLNS
	spaceOther
	spaceUnbound // the prefix is not declared
)

const (
	nsPreBeta = "http://www.openarchives.org/rs/"
	nsDraft   = "http://resourcesync.org/ns/"
	nsXHTML   = "http://www.w3.org/1999/xhtml"
	nsXML     = "http://www.w3.org/XML/1998/namespace"
	nsXMLNS   = "http://www.w3.org/2000/xmlns/"
)

// A binding is a namespace declaration in force.
type binding struct {
	space       namespace
	prefix, uri int32 // where they begin in nsText
	end         int32
}

// knownNamespace returns the namespace named uri.
func knownNamespace(uri []byte) namespace {
	switch string(uri) {
	case "":
		return spaceNone
	case nsSitemap:
		return spaceSitemap
	case nsRS:
		return spaceRS
	case nsPreBeta:
		return spacePreBeta
	case nsDraft:
		return spaceDraft
	case nsXHTML:
		return spaceXHTML
	case nsXML:
		return spaceXML
	case nsXMLNS:
		return spaceXMLNS
	}
	return spaceOther
}

// bind declares a namespace; the default one has the prefix "".
func (s *scanner) bind(prefix, uri []byte) error {
	space := knownNamespace(uri)
	switch {
	case string(prefix) == "xmlns":
		return s.errorf("prefix xmlns is declared")
	case string(prefix) == "xml" && space != spaceXML, string(prefix) != "xml" && space == spaceXML, space == spaceXMLNS:
		return s.errorf("prefix %q cannot stand for namespace %q", clip(string(prefix)), clip(string(uri)))
	case len(prefix) > 0 && len(uri) == 0:
		return s.errorf("prefix %q stands for no namespace", clip(string(prefix)))
	case len(s.bindings) == maxBindings:
		return s.errorf("%w: more than %d namespace declarations", ErrLimit, maxBindings)
	}
	for _, o := range s.bindings[s.own:] {
		if bytes.Equal(s.nsText[o.prefix:o.uri], prefix) {
			return s.errorf("prefix %q is declared twice", clip(string(prefix)))
		}
	}
	b := binding{space: space, prefix: int32(len(s.nsText))}
	s.nsText = append(s.nsText, prefix...)
	b.uri = int32(len(s.nsText))
	if space == spaceOther {
		s.nsText = append(s.nsText, uri...)
	}
	b.end = int32(len(s.nsText))
	s.bindings = append(s.bindings, b)
	return nil
}

// lookup returns the namespace prefix stands for and the name of it, if it is
// none of those known.
func (s *scanner) lookup(prefix []byte) (namespace, []byte) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		b := &s.bindings[i]
		if bytes.Equal(s.nsText[b.prefix:b.uri], prefix) {
			return b.space, s.nsText[b.uri:b.end]
		}
	}
	switch string(prefix) {
	case "":
		return spaceNone, nil
	case "xml":
		return spaceXML, nil
	}
	return spaceUnbound, nil
}
