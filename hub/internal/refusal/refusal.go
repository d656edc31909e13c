// Package refusal has the error with which a hub refuses a request.
package refusal

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Errors that several parts of a hub report.
var (
	ErrNotReady       = errors.New("hub is not running")
	ErrFull           = errors.New("too many messages of the topic wait for delivery")
	ErrNoSubscription = errors.New("there is no such subscription")
	// ErrElsewhere reports a subscription that belongs to another hub on the same
	// store, if it exists.
	ErrElsewhere = errors.New("another hub that shares the state sees to this subscription now: ask that one")
)

// A Refusal reports a request that is not executed, with the HTTP status of the
// answer.
type Refusal struct {
	Status int
	Text   string
	After  time.Duration // Retry-After, if above zero

	// Challenges are the values of WWW-Authenticate, with status 401; default: a token.
	Challenges []string
}

// Error implements error.
func (e *Refusal) Error() string { return e.Text }

// New returns a Refusal.
func New(status int, format string, args ...any) error {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// TooMany answers a request beyond a limit.
func TooMany(wait time.Duration, format string, args ...any) error {
	return Later(http.StatusTooManyRequests, wait, format, args...)
}

// Later answers that the client should retry later.
func Later(status int, wait time.Duration, format string, args ...any) error {
	e := New(status, format, args...).(*Refusal)
	e.After = max(wait, time.Second)
	return e
}

// Permanent reports whether the hub would refuse the same request again.
func (r *Refusal) Permanent() bool {
	return r.After == 0 && r.Status < 500 && r.Status != http.StatusTooManyRequests
}
