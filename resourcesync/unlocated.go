package resourcesync

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

// An UnlocatedError reports entries of a document whose loc is missing, empty
// or not a URI: the document names resources, or documents, that cannot be
// identified. A reader must not conclude that what it does not name is
// gone.
type UnlocatedError struct {
	Count        int    // entries
	Line, Column int    // where the first one ends, roughly
	Cause        string // what is wrong with the first one
	Latest       Datetime
	Undated      bool // at least one has no datetime: Latest says nothing
}

// Error says what is wrong with the first entry, where it is, and how many
// others there are.
func (e *UnlocatedError) Error() string {
	more := ""
	switch {
	case e.Count == 2:
		more = ", and one more entry without a readable loc"
	case e.Count > 2:
		more = fmt.Sprintf(", and %d more entries without a readable loc", e.Count-1)
	}
	return fmt.Sprintf("line %d, column %d: %s%s", e.Line, e.Column, e.Cause, more)
}

// Before reports whether all these entries are changes that happened before t.
func (e *UnlocatedError) Before(t Datetime) bool {
	return !e.Undated && !t.IsZero() && e.Latest.Compare(t) < 0
}

// Unlocated returns nil, or an [*UnlocatedError] if entries read so far could
// not be used for want of a loc.
func (r *Reader) Unlocated() error {
	if r.unlocated.Count == 0 {
		return nil
	}
	e := r.unlocated
	return &e
}

// lost counts an entry without a usable loc; at is its datetime, if it has one.
func (r *Reader) lost(cause string, at Datetime) {
	u := &r.unlocated
	if u.Count++; u.Count == 1 {
		u.Line, u.Column = r.s.Position()
		u.Cause = cause
	}
	u.Undated = u.Undated || at.IsZero()
	if at.Compare(u.Latest) > 0 {
		u.Latest = at
	}
}

// foreignEntry reports whether the tag at hand is called like an entry, though
// not in the namespace of Sitemaps: a namespace that is misspelt, or was taken
// away by xmlns="".
func (r *Reader) foreignEntry() bool {
	return strings.EqualFold(string(r.s.Local), "url") || strings.EqualFold(string(r.s.Local), "sitemap")
}

// skip reads over the element at hand. Entries in it are out of place and
// cannot be used.
func (r *Reader) skip() error {
	for depth := 1; depth > 0; {
		m, err := r.s.Next()
		switch {
		case err != nil:
			return err
		case m != xmlscan.Start:
			depth--
			continue
		}
		depth++
		if r.inSitemap() && (string(r.s.Local) == "url" || string(r.s.Local) == "sitemap") {
			cause := "an element " + string(r.s.Local) + " within another element than the root"
			r.note("RS-XML-09", cause+", skipped")
			r.lost(cause, Datetime{})
		}
	}
	return nil
}

// readable reports whether s, of which every character may occur in a URI, is
// one that a client can send a request to, or has a scheme of which that is not
// known.
func readable[T string | []byte](s T) bool {
	if simple(s) {
		return true
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https") {
		return u.Hostname() != ""
	}
	return true
}

// simple reports whether s is a URI of the usual kind: http or https, a host of
// letters, digits, dots and hyphens, and escapes that are complete.
func simple[T string | []byte](s T) bool {
	var i int
	switch {
	case len(s) > 7 && string(s[:7]) == "http://":
		i = 7
	case len(s) > 8 && string(s[:8]) == "https://":
		i = 8
	default:
		return false
	}
	host := i
	for i < len(s) && hostByte(s[i]) {
		i++
	}
	if i == host || i < len(s) && s[i] != '/' {
		return false
	}
	for ; i < len(s); i++ {
		if s[i] == '%' && (len(s)-i < 3 || !iri.Escape(string(s[i:i+3]))) {
			return false
		}
	}
	return true
}

func hostByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-'
}

// relative reports whether text can be meant as a relative URI: words without
// a slash between them are not.
func relative(text []byte) bool {
	return bytes.IndexByte(text, '/') >= 0 || !bytes.ContainsAny(text, " \t\r\n<>\"{}|\\^`")
}
