package report

import (
	"time"

	"lockstep/internal/fetch"
	"lockstep/internal/fetch/shown"
)

// A Failure is one resource or document that could not be processed.
type Failure struct {
	URI   string `json:"uri"`   // with its query: it identifies the resource
	Cause string `json:"cause"` // a sentence with the address in it, without secrets in its query

	NotBefore time.Time `json:"not_before,omitzero"` // when it is requested again, as its server asked

	resource bool // it is pending; else it is a document, or a place in the mirror
	retried  bool // it is tried again at the end of the run
}

// NewFailure returns a failure of a document, or of a place in the mirror.
func NewFailure(uri, cause string) Failure {
	return Failure{URI: shown.Whole(uri), Cause: fetch.Printable(shown.RedactedIn(cause, uri))}
}

// NewResourceFailure returns a failure of a resource. A retried one is tried again at
// the end of the run.
func NewResourceFailure(uri, cause string, retried bool) Failure {
	return Failure{URI: shown.Whole(uri), Cause: fetch.Printable(shown.RedactedIn(cause, uri)), resource: true, retried: retried}
}

// IsResource reports whether the failure is of a resource, which stays pending, and
// not of a document.
func (f *Failure) IsResource() bool { return f.resource }

// IsRetried reports whether the resource is tried again at the end of the run.
func (f *Failure) IsRetried() bool { return f.retried }

// Defer records when a request may be repeated, unless t is zero.
func (f *Failure) Defer(t time.Time) {
	if !t.IsZero() {
		f.NotBefore = t.UTC().Truncate(time.Second)
	}
}
