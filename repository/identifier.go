package repository

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/catalog"
	"lockstep/internal/iri"
	"lockstep/resourcesync"
)

// identifierOf returns the identifier of an item, given what its row says.
func identifierOf(uri, own string) string {
	if own != "" {
		return own
	}
	return uri
}

// recordID returns the id of the record a resource is, or "" if there is none
// to be used. What is one more representation of a record is not the record.
func recordID(r *catalog.Record) string {
	other := slices.ContainsFunc(r.Links, func(l resourcesync.Link) bool { return l.Rel == "canonical" && l.Href != r.URI })
	if id := catalog.RecordID(r.Links); id != r.URI && !other && sayable(id) {
		return id
	}
	return ""
}

// escapedURI returns a URI that XML has no way to say as one it can; "" if uri
// needs none.
func escapedURI(uri string) string {
	if sayable(uri) {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(uri); {
		_, n := utf8.DecodeRuneInString(uri[i:])
		switch part := uri[i : i+n]; {
		case part == "%" && iri.Escape(uri[i:]), part != "%" && sayable(part):
			b.WriteString(part)
		default:
			for j := range n {
				fmt.Fprintf(&b, "%%%02X", part[j])
			}
		}
		i += n
	}
	return b.String()
}

// sayable reports whether s can be an identifier: XML can say it, whoever reads it
// back has s, and it is what schemas take for a URI (OAI-PMH 2.0, 2.4).
func sayable(s string) bool {
	for i := range len(s) {
		if s[i] == '%' && !iri.Escape(s[i:]) {
			return false
		}
	}
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7F || r == 0xFFFE || r == 0xFFFF || unicode.IsSpace(r)
	})
}
