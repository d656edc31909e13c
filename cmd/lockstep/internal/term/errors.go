package term

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/destination"
)

// ErrInterrupted is the cause of a context that a signal ended.
var ErrInterrupted = errors.New("interrupted")

// A UsageError is a mistake in flags, arguments or configuration.
type UsageError struct {
	err  error
	hint string // the way out; may be empty
}

func (e UsageError) Error() string { return e.err.Error() }
func (e UsageError) Unwrap() error { return e.err }
func (e UsageError) Hint() string  { return e.hint }

// Usage returns err as a UsageError with a hint that says what to do instead.
func Usage(err error, hint string) error { return UsageError{err, hint} }

// Usagef returns a UsageError without a hint.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...), "")
}

// A hintedError adds a hint to an error.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }

// WithHint adds a hint to err, unless it is nil or has one.
func WithHint(err error, hint string) error {
	if err == nil || HintOf(err) != "" {
		return err
	}
	return hintedError{err, hint}
}

// ReplaceHint gives err this hint instead of its own.
func ReplaceHint(err error, hint string) error { return hintedError{err, hint} }

// HintOf returns the hint of the first error in the tree that has one.
func HintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	if r, ok := errors.AsType[*destination.RefusedError](err); ok {
		return r.Hint
	}
	return ""
}

// ReportError says on stderr what went wrong and, where there is one, the way
// out. Later lines of an error are indented, so that each "error:" is one.
func ReportError(io IO, err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, ErrInterrupted):
		io.Errorf("%s\n", err)
	default:
		io.Errorf("error: %s\n", indented(err.Error()))
	}
	reportHint(io, err)
}

// ReportWarning says on stderr what went wrong although the command continues.
func ReportWarning(io IO, err error) {
	io.Errorf("warning: %s\n", indented(err.Error()))
	reportHint(io, err)
}

// indented returns text with later lines indented.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// reportHint says what to do about an error, where that is known.
func reportHint(io IO, err error) {
	if hint := HintOf(err); hint != "" {
		io.Errorf("hint: %s\n", indented(hint))
	}
}
