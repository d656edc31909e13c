package markup

import (
	"bytes"
	"strconv"

	"lockstep/internal/xmlscan"
)

// A binding is a namespace declaration.
type binding struct{ prefix, uri string }

// A scope is the namespace declarations that were written around the current tag, and
// in it. None of those around the entry counts.
type scope struct {
	bindings []binding
	used     []binding // by names in the current tag
}

func (s *scope) reset() { s.bindings, s.used = s.bindings[:0], s.used[:0] }

// declare returns the prefix for a name in the namespace uri, preferably the given one,
// and declares it if necessary. Only the first name of a tag may have no prefix.
func (s *scope) declare(prefix, uri string) string {
	if uri == nsXML {
		return prefix
	}
	if s.try(prefix, uri) {
		return prefix
	}
	for n := 1; ; n++ {
		other := "ns" + strconv.Itoa(n)
		bound, ok := s.lookup(other)
		if (!ok || bound == uri) && s.try(other, uri) {
			return other
		}
	}
}

// try binds prefix to uri in the current tag, unless it has another meaning there.
// The prefix rs never has one (RS-GEN-01): it is that of the element around.
func (s *scope) try(prefix, uri string) bool {
	if prefix == "rs" && uri != nsRS {
		return false
	}
	for _, b := range s.used {
		if b.prefix == prefix {
			return b.uri == uri
		}
	}
	b := binding{prefix, uri}
	if bound, ok := s.lookup(prefix); !ok || bound != uri {
		s.bindings = append(s.bindings, b)
	}
	s.used = append(s.used, b)
	return true
}

// lookup returns the namespace that prefix is bound to.
func (s *scope) lookup(prefix string) (uri string, ok bool) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		if b := &s.bindings[i]; b.prefix == prefix {
			return b.uri, true
		}
	}
	return "", false
}

// appendDeclarations appends the declarations from the given one on.
func (s *scope) appendDeclarations(b []byte, from int) []byte {
	for _, d := range s.bindings[from:] {
		b = append(b, " xmlns"...)
		if d.prefix != "" {
			b = append(append(b, ':'), d.prefix...)
		}
		b = appendValue(b, d.uri)
	}
	return b
}

// appendAttribute appends an attribute, and the declaration that it needs.
func (s *scope) appendAttribute(b []byte, prefix string, n name, value []byte) []byte {
	if prefix != "" {
		declared := len(s.bindings)
		prefix = s.declare(prefix, n.uri)
		b = s.appendDeclarations(b, declared)
		b = append(append(append(b, ' '), prefix...), ':')
	} else {
		b = append(b, ' ')
	}
	return appendValue(append(b, n.local...), string(value))
}

// appendTypeDeclaration appends the declaration that the value of an xsi:type needs.
func (s *scope) appendTypeDeclaration(b []byte, in *xmlscan.Scanner, value []byte) []byte {
	prefix, _, ok := bytes.Cut(xmlscan.Trim(value), []byte(":"))
	if !ok || string(prefix) == "rs" || string(prefix) == "xml" {
		return b
	}
	declared := len(s.bindings)
	for p, uri := range in.InScope() {
		if p == string(prefix) {
			s.try(p, uri)
			break
		}
	}
	return s.appendDeclarations(b, declared)
}

func appendValue(b []byte, value string) []byte {
	b = append(b, `="`...)
	b, _ = xmlscan.AppendEscaped(b, value) // read from a document, so XML can represent it
	return append(b, '"')
}
