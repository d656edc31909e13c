package atompmh

import (
	"errors"
	"fmt"

	"lockstep/internal/xmlscan"
)

var (
	// ErrNotFeed reports data that is not an Atom feed: not XML at all, or XML with
	// another root.
	ErrNotFeed = errors.New("this is no Atom feed")

	// ErrHTML reports an HTML page where a feed was expected. It comes with
	// ErrNotFeed.
	ErrHTML = errors.New("an HTML page")

	// ErrEntryDocument reports an Atom document of a single entry: often a record
	// itself (AP-AMB-15). It comes with ErrNotFeed.
	ErrEntryDocument = errors.New("an Atom entry document")

	// ErrLimit reports a document that exceeds a limit of the Reader.
	ErrLimit = xmlscan.ErrLimit
)

var errHTML = fmt.Errorf("%w, but %w", ErrNotFeed, ErrHTML)

// A SyntaxError reports where and why a Reader cannot continue reading a
// document: it is not well formed, it is truncated (Err is
// io.ErrUnexpectedEOF), it is not a feed (ErrNotFeed), it exceeds a limit
// (ErrLimit), or it breaks a rule and the Reader is strict (*RuleError).
type SyntaxError = xmlscan.SyntaxError

// A RuleError reports a requirement that a document, or a value to be written,
// violates.
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

// A Warning reports a deviation that a lenient Reader accepted: the violated
// requirement, and how the Reader interpreted the document.
type Warning struct {
	Rule, Message string
	Line, Column  int // approximate end of the element in question
}

// String returns the warning in one line.
func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s (%s)", w.Line, w.Column, w.Message, w.Rule)
}
