package report

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
)

// Causes that callers branch on.
var (
	// ErrRefused reports that a run stopped for safety: it would delete too
	// much, or the Source went back in time. Nothing was deleted or replaced.
	ErrRefused = errors.New("refused")

	// ErrIncomplete reports a run after which the mirror is not in step:
	// resources failed, were refused, or a document could not be read.
	// Everything else was done. The Report has the details.
	ErrIncomplete = errors.New("not in step")

	// ErrGone is what an Origin returns for a resource that no longer exists.
	ErrGone = errors.New("it is not there any more")

	// ErrEnded is what an Origin returns for a Source that will never
	// change again.
	ErrEnded = errors.New("it has ended")
)

// A RefusedError says what was refused and how to allow it.
type RefusedError struct {
	Reason  string
	Hint    string
	Consent string // flags with which the same command does it; empty: none
}

func (e *RefusedError) Error() string { return e.Reason }

// Is makes a RefusedError an [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// HintOf returns what to do about an error, if it says that; else "".
func HintOf(err error) string {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r.Hint
	}
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// A SetError reports a selected set that the Source does not offer.
type SetError struct {
	Name    string
	Offered []string
}

func (e *SetError) Error() string {
	return fmt.Sprintf("set %q: 0 of %d selected: the Source offers %s", e.Name, len(e.Offered), strings.Join(e.Offered, ", "))
}

// A SelectionError reports a selection that matches none of the resources that the
// Source lists. It is an [ErrIncomplete]: nothing was deleted for it.
type SelectionError struct {
	Listed int64 // resources that the Source lists
}

func (e *SelectionError) Error() string {
	return fmt.Sprintf("0 of %s selected: the flags that select resources, such as --include, --exclude, --type or --filter-from, match none of those that the Source lists; patterns match whole URIs, as */pdf/* does", wording.Grouped(e.Listed))
}

// Is makes a SelectionError an [ErrIncomplete].
func (e *SelectionError) Is(target error) bool { return target == ErrIncomplete }

// A NoPastError reports an instant at which the state of a set is unknown.
type NoPastError struct {
	Set      string
	At       time.Time
	Earliest time.Time // earliest instant with a known state; zero: there is none
	Err      error     // why the listed states cannot be used; may be nil
}

func (e *NoPastError) Error() string {
	text := fmt.Sprintf("set %s: its state at %s is not known: ", fetch.Printable(e.Set), wording.Time(e.At))
	switch {
	case e.Err != nil:
		return text + e.Err.Error()
	case e.Earliest.IsZero():
		return text + "no list of an earlier time was kept"
	}
	return text + "the earliest known state is of " + wording.Time(e.Earliest)
}

// Unwrap returns why the listed states cannot be used, if that is the reason.
func (e *NoPastError) Unwrap() error { return e.Err }

// Is makes a NoPastError an [ErrIncomplete].
func (e *NoPastError) Is(target error) bool { return target == ErrIncomplete }

// A PastError reports a mirror that does not have all of the requested past
// state: it is as of another instant, contents of that time were unavailable,
// or the state of some sets is unknown. The Report names them.
type PastError struct {
	At, AsOf time.Time // requested, and reached
	Missing  int64     // resources
	Untold   int       // sets
}

func (e *PastError) Error() string {
	text := "not all of what was at " + wording.Time(e.At) + " was available"
	sep := ": "
	add := func(part string) { text, sep = text+sep+part, ", " }
	if e.Missing > 0 {
		add(wording.Plural(e.Missing, "resource") + " missing")
	}
	if e.Untold > 0 {
		add("the state of " + wording.Plural(int64(e.Untold), "set") + " is not known")
	}
	if !e.AsOf.IsZero() && !e.AsOf.Equal(e.At) {
		add("it is as of " + wording.Time(e.AsOf))
	}
	return text
}

// Is makes a PastError an [ErrIncomplete].
func (e *PastError) Is(target error) bool { return target == ErrIncomplete }

// A SinkError reports that a Sink did not accept a batch.
type SinkError struct{ Err error }

func (e *SinkError) Error() string { return fmt.Sprintf("sink: %v", e.Err) }

// Unwrap returns the error of the Sink.
func (e *SinkError) Unwrap() error { return e.Err }

// A DeliveryError reports that the consumer of changes did not accept a batch.
// The run stopped; the next run delivers the changes again.
type DeliveryError struct{ Err error }

func (e *DeliveryError) Error() string { return fmt.Sprintf("hand over changes: %v", e.Err) }

// Unwrap returns the error of the consumer.
func (e *DeliveryError) Unwrap() error { return e.Err }
