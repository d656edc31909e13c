package resourcesync

import (
	"fmt"
	"strings"

	"lockstep/internal/xmlscan"
)

// An UnlocatedError reports entries of a document whose loc is missing, empty
// or not a URI: the document names resources, or documents, that cannot be
// identified. A reader must not conclude that a resource which the document
// does not name has been deleted.
type UnlocatedError struct {
	Count        int    // entries
	Line, Column int    // approximate end of the first one
	Cause        string // what is wrong with the first one
	Latest       Datetime
	Undated      bool // at least one has no datetime: Latest is meaningless
}

// Error describes the problem and position of the first entry, and the number
// of others.
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

// Unlocated returns an [*UnlocatedError] if entries read so far were unusable
// for lack of a loc, otherwise nil.
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

// foreignEntry reports whether the current tag has the name of an entry, but is
// not in the namespace of Sitemaps: the namespace is misspelt, or was removed
// by xmlns="".
func (r *Reader) foreignEntry() bool {
	return strings.EqualFold(string(r.s.Local), "url") || strings.EqualFold(string(r.s.Local), "sitemap")
}

// skip skips the current element. Entries in it are out of place and unusable.
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
		allowedInside(r)
	}
	return nil
}

// allowedInside reports whether the current tag may be within a foreign element. It
// counts an entry that is within another element than the root.
func allowedInside(r *Reader) bool {
	if r.inSitemap() && (string(r.s.Local) == "url" || string(r.s.Local) == "sitemap") {
		cause := "an element " + string(r.s.Local) + " within another element than the root"
		r.note("RS-XML-09", cause+", skipped")
		r.lost(cause, Datetime{})
	}
	return !isOurs(r.s.Space)
}
