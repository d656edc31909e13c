// Package refusal has the error with which a hub refuses a request.
package refusal

import (
	"fmt"
	"net/http"
	"time"
)

// A Refusal reports a request that is not executed, with the HTTP status of the
// answer.
type Refusal struct {
	Status int
	Text   string
	After  time.Duration // Retry-After, if above zero
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
