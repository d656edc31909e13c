package memento

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A Doer sends requests, as an http.Client does. Guards against addresses that
// strangers name, and timeouts, are its business. It need not follow redirects;
// an *http.Client is told not to.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// ErrNoMemento reports that there is no version of a resource for the wanted
// instant: it is not known, or was deleted then.
var ErrNoMemento = errors.New("there is no version for that instant")

// A Found is a version a TimeGate, a TimeMap or the resource itself named.
type Found struct {
	URI string    // where its bytes are: its URI-M or, where it has none of its own, the TimeGate's
	At  time.Time // its Memento-Datetime; zero if that is not stated

	// Accept is the Accept-Datetime with which URI must be asked for, where the
	// version has no URI of its own (patterns 1.3 and 2.3); else it is empty.
	Accept string
}

// A TimeMap is what is known of the versions of a resource.
type TimeMap struct {
	Original string
	Versions []Found // by datetime, oldest first
}

// Negotiate asks a TimeGate for the version of a resource that was current at
// an instant, which is rounded up to a full second (ME-HD-03). The resource
// itself will do for a TimeGate, if it names one or is one (ME-GEN-03). What is
// found is to be checked by its hash: which version a TimeGate of strangers
// chooses is its business (ME-TG-05).
func Negotiate(ctx context.Context, client Doer, timegate string, at time.Time) (Found, error) {
	return Found{}, errors.New("not there yet")
}

// ReadTimeMap reads the TimeMap at address and those it refers to, at most so
// many versions.
func ReadTimeMap(ctx context.Context, client Doer, address string, most int) (*TimeMap, error) {
	return nil, errors.New("not there yet")
}
