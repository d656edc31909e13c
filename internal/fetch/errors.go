package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"lockstep/internal/fetch/http1"
	"lockstep/internal/fetch/shown"
)

// Causes that callers distinguish.
var (
	// ErrTooLarge reports a body beyond [Request.MaxBytes].
	ErrTooLarge = errors.New("larger than the limit")
	// ErrTooSlow reports a body that trickles below the floor; see [FloorRate].
	ErrTooSlow = errors.New("slower than the floor")
	// ErrTimeout reports that nothing was received for [Options.Timeout].
	ErrTimeout = errors.New("no data")
	// ErrEncoding reports a content coding that was not requested.
	ErrEncoding = errors.New("content coding not asked for")
	// ErrNotSent reports a request that was not needed any more when it had its turn;
	// see [Request.Still].
	ErrNotSent = errors.New("the request is not needed any more")
)

// An Error describes a failed request.
type Error struct {
	URI   string   // as requested
	Chain []string // targets of redirects, in order
	Tries int
	Err   error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("get ")
	b.WriteString(shown.Redacted(e.URI))
	b.WriteString(": ")
	for i, uri := range e.Chain {
		if i == 0 {
			b.WriteString("redirected to ")
		} else {
			b.WriteString(", then ")
		}
		b.WriteString(shown.Redacted(uri))
		if i == len(e.Chain)-1 {
			b.WriteString(": ")
		}
	}
	b.WriteString(Printable(e.Err.Error()))
	if e.Tries > 1 {
		fmt.Fprintf(&b, " (%d tries)", e.Tries)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// A StatusError is a final answer with another status than requested.
type StatusError struct {
	URI        string // that sent it
	Status     int
	Want       string        // what was expected, unless that is obvious
	RetryAfter time.Duration // requested by the server; zero if not
	NotBefore  time.Time     // when the next request is allowed, if RetryAfter is longer than MaxRetryAfter
	Header     http.Header
	Body       []byte // the beginning of it, if [Request.ErrorBody] requested it
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("status %d", e.Status)
	if text := http.StatusText(e.Status); text != "" {
		s += " " + text
	}
	if e.Want != "" {
		s += ", " + e.Want
	}
	if !e.NotBefore.IsZero() {
		s += ", and asks not to be asked again before " + e.NotBefore.UTC().Format(time.RFC3339)
	}
	return s
}

// StatusOf returns the final status that err reports, if it reports one.
func StatusOf(err error) (int, bool) {
	var status *StatusError
	if !errors.As(err, &status) {
		return 0, false
	}
	return status.Status, true
}

// A RedirectError is a redirect that was not followed.
type RedirectError struct {
	To     string // value of the Location header
	Reason string
}

func (e *RedirectError) Error() string {
	if e.To == "" {
		return e.Reason
	}
	return "redirect to " + shown.Redacted(e.To) + " not followed: " + e.Reason
}

// A RangeError reports an answer to a range request that does not match it.
type RangeError struct {
	From         int64  // requested
	ContentRange string // received
	Reason       string
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("asked for bytes from %d, answered with range %q: %s", e.From, Printable(e.ContentRange), e.Reason)
}

// A BodyError reports a body that could not be read to its end.
type BodyError struct {
	URI  string // as requested
	Got  int64  // bytes of the body received, as sent
	Want int64  // bytes announced; -1 if unknown
	Err  error
}

func (e *BodyError) Error() string {
	cause := e.Err.Error()
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		cause = "body ended early"
	}
	of := ""
	if e.Want >= 0 {
		of = fmt.Sprintf(" of %d", e.Want)
	}
	return fmt.Sprintf("get %s: %s after %d%s bytes", shown.Redacted(e.URI), Printable(cause), e.Got, of)
}

func (e *BodyError) Unwrap() error { return e.Err }

// Retryable reports whether another attempt to read the body may succeed.
func (e *BodyError) Retryable() bool {
	return !errors.As(e.Err, new(*RangeError)) && !errors.Is(e.Err, ErrTooLarge) && !errors.Is(e.Err, ErrEncoding) && !errors.Is(e.Err, ErrChanged) && !errors.Is(e.Err, ErrTooSlow) &&
		!errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, context.DeadlineExceeded)
}

// retryable reports whether a request that failed with err may be sent again.
func retryable(err error) bool {
	var (
		status    *StatusError
		address   *AddressError
		redirect  *RedirectError
		rng       *RangeError
		dns       *net.DNSError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		malformed *uriError
		host      *HostError
		foreign   *ForeignUpgradeError
	)
	switch {
	case errors.As(err, &host), errors.As(err, &foreign), errors.Is(err, ErrTooSlow):
		return false
	case errors.As(err, &status):
		return status.Want == "" && status.NotBefore.IsZero() && retryStatus(status.Status)
	case errors.As(err, &address), errors.As(err, &redirect), errors.As(err, &rng), errors.As(err, &malformed),
		errors.As(err, &record), errors.As(err, &verify):
		return false
	case errors.As(err, &dns):
		return !dns.IsNotFound
	case errors.Is(err, ErrEncoding), errors.Is(err, errHeaderSize), errors.Is(err, errNotTLS):
		return false
	}
	return true
}

func retryStatus(status int) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500 && status <= 599
}

var (
	errHeaderSize = fmt.Errorf("header larger than %d bytes", MaxHeader)
	errNotTLS     = errors.New("the server does not speak HTTPS there")
	errClosed     = errors.New("connection closed without an answer")
)

// plain replaces the transport's errors by readable ones.
func plain(err error) error {
	var (
		record  tls.RecordHeaderError
		address *AddressError
	)
	switch {
	case errors.As(err, &address):
		return address // without the dialler's text, which repeats the address
	case errors.Is(err, http1.ErrHeaderSize), strings.Contains(err.Error(), "server response headers exceeded"), strings.Contains(err.Error(), "response header list larger than"):
		return errHeaderSize
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), errors.As(err, &record):
		return errNotTLS
	case errors.Is(err, io.EOF), strings.HasSuffix(err.Error(), "server closed idle connection"):
		return errClosed
	}
	return err
}

// IsRange reports whether err is that of an answer that does not fit the range
// asked for.
func IsRange(err error) bool {
	if err == nil {
		return false
	}
	var rng *RangeError
	var status *StatusError
	return errors.As(err, &rng) || errors.As(err, &status) && (status.Status == http.StatusRequestedRangeNotSatisfiable || status.Want != "")
}
