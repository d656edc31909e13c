package xmlscan

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var (
	// ErrLimit reports a document that goes beyond what is accepted.
	ErrLimit = errors.New("limit exceeded")

	// ErrHTML reports a page for people, unless Options say otherwise.
	ErrHTML = errors.New("this is an HTML page")

	// ErrNotDocument reports what is no XML at all, unless Options say
	// otherwise.
	ErrNotDocument = errors.New("this is not an XML document")
)

// A SyntaxError says where and why one could not go on with a document: it is
// not well formed, it is cut off (Err is io.ErrUnexpectedEOF), it is something
// else than what was expected, it goes beyond a limit (ErrLimit), or what its
// reader found at fault with it.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes of the text in UTF-8
	Err          error
}

// Error names the place and the cause.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Clip makes what a stranger wrote fit for a message: short, and without
// characters that would do something to a terminal.
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

// printed returns r, or what stands for a character that cannot be seen.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
