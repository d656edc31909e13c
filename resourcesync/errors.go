package resourcesync

import (
	"errors"
	"fmt"

	"lockstep/internal/xmlscan"
)

var (
	// ErrHTML reports an HTML page where a document was expected: a login form, an
	// error page, a start page.
	ErrHTML = errors.New("this is an HTML page, not a ResourceSync document or Sitemap")

	// ErrNotDocument reports other data that is not a document of the standard: not
	// XML at all, or XML with another root.
	ErrNotDocument = errors.New("this is not a ResourceSync document or Sitemap")
)

// A SyntaxError reports where and why a Reader cannot continue reading a
// document: it is not well formed, it is truncated (Err is
// io.ErrUnexpectedEOF), it is not a document of the standard (ErrHTML,
// ErrNotDocument), it exceeds a limit (ErrLimit), or it breaks a rule and the
// Reader is strict (*RuleError).
type SyntaxError = xmlscan.SyntaxError

// A RuleError reports a requirement that a document, or a value to be written,
// violates.
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

// A Warning reports a deviation that a lenient Reader accepted: the violated
// requirement, and how the Reader interpreted the document.
type Warning struct {
	Rule         string // such as RS-XML-05
	Line, Column int    // approximate end of the element in question
	Message      string
}

// String returns the warning in one line.
func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s (%s)", w.Line, w.Column, w.Message, w.Rule)
}
