// Package fault adapts errors of origins to reports, which name the address
// separately.
package fault

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"lockstep/internal/fetch"
)

// ErrNoClient reports that nothing can be fetched because the caller gave no client.
var ErrNoClient = errors.New("no HTTP client is configured")

// A StopError is a failure of this machine, not of the document that was read: other
// documents would fail as well.
type StopError struct{ Err error }

func (e *StopError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Err }

// Plain removes the address uri, which is reported separately, from err.
func Plain(uri string, err error) error {
	if e, ok := errors.AsType[*fetch.Error](err); ok && len(e.Chain) == 0 {
		return &Reworded{Text: strings.TrimPrefix(err.Error(), "get "+fetch.Printable(uri)+": "), Err: err}
	}
	if text, ok := strings.CutPrefix(err.Error(), "read "+fetch.Printable(uri)+": "); ok {
		return &Reworded{Text: text, Err: err}
	}
	return err
}

// A Reworded is the error Err with another text.
type Reworded struct {
	Text string
	Err  error
}

func (e *Reworded) Error() string { return e.Text }

// Unwrap returns the error that was reworded.
func (e *Reworded) Unwrap() error { return e.Err }

// NotThere makes the error of a server that has no such resource match [fs.ErrNotExist].
func NotThere(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok || status.Status != http.StatusNotFound && status.Status != http.StatusGone {
		return err
	}
	return &Missing{Err: err}
}

// A Missing is an error that matches [fs.ErrNotExist].
type Missing struct{ Err error }

func (e *Missing) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Missing) Unwrap() error { return e.Err }

// Is reports whether target is [fs.ErrNotExist].
func (e *Missing) Is(target error) bool { return target == fs.ErrNotExist }
