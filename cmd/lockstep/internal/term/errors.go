package term

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"lockstep/destination"
)

var (
	// ErrInterrupted is the cause of a context that a signal ended.
	ErrInterrupted error = interruptedError{}

	// ErrTerminated is ErrInterrupted if the signal was SIGTERM, which is how the
	// managers of services end them.
	ErrTerminated error = terminatedError{}
)

type interruptedError struct{}

func (interruptedError) Error() string        { return "interrupted" }
func (interruptedError) Is(target error) bool { return target == context.Canceled }

type terminatedError struct{}

func (terminatedError) Error() string { return ErrInterrupted.Error() }
func (terminatedError) Is(target error) bool {
	return target == ErrInterrupted || target == context.Canceled
}

// EndOfService returns the error of a command that works until it is stopped: nil after
// SIGTERM, which has stopped it as intended. What broke off because of that is logged.
func EndOfService(ctx context.Context, err error, log *slog.Logger) error {
	if err == nil || !errors.Is(context.Cause(ctx), ErrTerminated) {
		return err
	}
	if !errors.Is(err, ErrInterrupted) && !errors.Is(err, context.Canceled) {
		log.Info("stopped", slog.String("err", err.Error()))
	}
	return nil
}

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
	case errors.Is(err, ErrInterrupted):
		reportWithHint(io, "", err)
	default:
		reportWithHint(io, "error: ", err)
	}
}

// ReportWarning says on stderr what went wrong although the command continues.
func ReportWarning(io IO, err error) { reportWithHint(io, "warning: ", err) }

// reportWithHint writes both at once: they are one message.
func reportWithHint(io IO, head string, err error) {
	text := head + indented(err.Error()) + "\n"
	if hint := HintOf(err); hint != "" {
		text += "hint: " + indented(hint) + "\n"
	}
	io.Errorf("%s", text)
}

// indented returns text with later lines indented.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }
