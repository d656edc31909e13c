package main

import (
	"errors"
	"fmt"
	"strings"

	"lockstep/destination"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// A usageError is a mistake in flags, arguments or configuration.
type usageError struct {
	err  error
	hint string // the way out; may be empty
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }
func (e usageError) Hint() string  { return e.hint }

// usage returns err as a usageError whose hint says what to do instead.
func usage(err error, hint string) error { return usageError{err, hint} }

// usagef returns a usageError without a hint.
func usagef(format string, args ...any) error {
	return usage(fmt.Errorf(format, args...), "")
}

// A hintedError adds the way out to an error.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }

// withHint adds a hint to err, unless it is nil or has one.
func withHint(err error, hint string) error {
	if err == nil || hintOf(err) != "" {
		return err
	}
	return hintedError{err, hint}
}

// replaceHint gives err this hint instead of its own.
func replaceHint(err error, hint string) error { return hintedError{err, hint} }

// hintOf returns the hint of the first error in the tree that has one.
func hintOf(err error) string {
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

// reportError says on stderr what went wrong and, where there is one, the way
// out. Later lines of an error are indented, so that each "error:" is one.
func reportError(io stdio, err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, errInterrupted):
		io.errorf("%s\n", err)
	default:
		io.errorf("error: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	if hint := hintOf(err); hint != "" {
		io.errorf("hint: %s\n", strings.ReplaceAll(hint, "\n", "\n  "))
	}
}
