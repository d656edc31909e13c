package atompmh

import (
	"errors"
	"fmt"

	"lockstep/internal/xmlscan"
)

var (
	// ErrNotFeed reports something that is no Atom feed: no XML at all, or XML
	// with another root.
	ErrNotFeed = errors.New("this is no Atom feed")

	// ErrHTML reports a page for people where a feed was expected. It comes
	// with ErrNotFeed.
	ErrHTML = errors.New("an HTML page")

	// ErrEntryDocument reports an Atom document of a single entry: often a
	// record itself (AP-AMB-15). It comes with ErrNotFeed.
	ErrEntryDocument = errors.New("an Atom entry document")

	// ErrLimit reports a document that goes beyond what a Reader accepts.
	ErrLimit = xmlscan.ErrLimit
)

var errHTML = fmt.Errorf("%w, but %w", ErrNotFeed, ErrHTML)

// A SyntaxError says where and why a Reader could not go on with a document:
// it is not well formed, it is cut off (Err is io.ErrUnexpectedEOF), it is no
// feed (ErrNotFeed), it goes beyond a limit (ErrLimit), or it breaks a rule and
// the Reader is strict (*RuleError).
type SyntaxError = xmlscan.SyntaxError

// A RuleError says which requirement a document, or what is to be written into
// one, does not meet.
type RuleError struct {
	Rule    string // such as AP-DOC-08
	Message string
}

// Error returns the message and the rule.
func (e *RuleError) Error() string { return e.Message + " (" + e.Rule + ")" }

// broken returns a RuleError.
func broken(rule, format string, args ...any) error {
	return &RuleError{rule, fmt.Sprintf(format, args...)}
}

// A Warning is a liberty a lenient Reader took: a requirement the document
// does not meet, and what was made of it.
type Warning struct {
	Rule, Message string
	Line, Column  int // where the element in question ends, roughly
}

// String returns the warning in one line.
func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s (%s)", w.Line, w.Column, w.Message, w.Rule)
}
