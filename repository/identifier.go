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

// identifierOf returns the identifier of an item from the fields of its row.
func identifierOf(uri, own string) string {
	if own != "" {
		return own
	}
	return uri
}

// recordID returns the id of the record that a resource represents, or "" if
// there is no usable one. An alternate representation of a record is not the
// record.
func recordID(r *catalog.Record) string {
	other := slices.ContainsFunc(r.Links, func(l resourcesync.Link) bool { return l.Rel == "canonical" && l.Href != r.URI })
	if id := catalog.RecordID(r.Links); id != r.URI && !other && sayable(id) {
		return id
	}
	return ""
}

// escapedURI returns a URI that XML cannot represent in an escaped form; "" if
// uri needs no escaping.
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

// sayable reports whether s is a valid identifier: XML can represent it, parsing
// returns exactly s, and it conforms to the URI type of XML Schema (OAI-PMH 2.0,
// 2.4).
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
