package xmlscan

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var (
	// ErrLimit reports a document that exceeds a limit.
	ErrLimit = errors.New("limit exceeded")

	// ErrHTML reports an HTML page, unless Options say otherwise.
	ErrHTML = errors.New("this is an HTML page")

	// ErrNotDocument reports data that is not XML, unless Options say otherwise.
	ErrNotDocument = errors.New("this is not an XML document")
)

// A SyntaxError reports where and why a document cannot be read further: it is
// not well formed, it is truncated (Err is io.ErrUnexpectedEOF), it is of
// another kind than expected, it exceeds a limit (ErrLimit), or its reader
// found another error.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes of the text in UTF-8
	Err          error
}

// Error describes the position and the cause.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Clip converts untrusted text for use in a message: shortened, and without
// terminal control characters.
func Clip(s string) string {
	const most = 60
	n := 0
	for i, r := range s {
		if n++; n > most {
			s = s[:i] + "…"
			break
		}
		if !unicode.IsPrint(r) {
			return Clip(strings.Map(printed, s))
		}
	}
	return s
}

// printed returns r, or a replacement for an invisible character.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
