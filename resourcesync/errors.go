package resourcesync

import (
	"errors"
	"fmt"

	"lockstep/internal/xmlscan"
)

var (
	// ErrHTML reports that a page for people stands where a document was
	// expected: a login form, an error page, a start page.
	ErrHTML = errors.New("this is an HTML page, not a ResourceSync document or Sitemap")

	// ErrNotDocument reports something else that is no document of the
	// standard: no XML at all, or XML with another root.
	ErrNotDocument = errors.New("this is not a ResourceSync document or Sitemap")
)

// A SyntaxError says where and why a Reader could not go on with a document:
// it is not well formed, it is cut off (Err is io.ErrUnexpectedEOF), it is no
// document of the standard (ErrHTML, ErrNotDocument), it goes beyond a limit
// (ErrLimit), or it breaks a rule and the Reader is strict (*RuleError).
type SyntaxError = xmlscan.SyntaxError

// A RuleError says which requirement a document, or what is to be written into
// one, does not meet.
type RuleError struct {
	Rule    string // such as RS-CHL-04
	Message string
}

// Error returns the message and the rule.
func (e *RuleError) Error() string { return e.Message + " (" + e.Rule + ")" }

// broken returns a RuleError.
func broken(rule, format string, args ...any) error {
	return &RuleError{rule, fmt.Sprintf(format, args...)}
}

// A Warning is a liberty a lenient Reader took: a requirement the document
// does not meet and what was made of it.
type Warning struct {
	Rule         string // such as RS-XML-05
	Line, Column int    // where the element in question ends, roughly
	Message      string
}

// String returns the warning in one line.
func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s (%s)", w.Line, w.Column, w.Message, w.Rule)
}
