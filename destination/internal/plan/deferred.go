package plan

import (
	"time"

	"lockstep/internal/fetch"
)

// A DeferredError reports a resource that is not requested yet: the server that
// failed to deliver it in an earlier run asked for more patience than a run has.
type DeferredError struct {
	Cause     string // as recorded by that run; it contains the time
	NotBefore time.Time
}

func (e *DeferredError) Error() string { return e.Cause }

// NotBefore returns when what failed with err may be requested again; zero if
// at any time.
func NotBefore(err error) time.Time {
	if d, ok := err.(*DeferredError); ok { // never wrapped
		return d.NotBefore
	}
	return fetch.NotBefore(err)
}
