package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

// maxFailures is how many failed verifications the hub remembers: a stranger can
// cause very many.
const maxFailures = 100

// A FailedVerification describes a request that its callback has not confirmed. It
// shows only the scheme and host of the callback (WS-SEC-07) and at most the
// status of its answer: the rest is for the callback's operator.
type FailedVerification struct {
	Key      hubstore.Key `json:"key"`
	Mode     string       `json:"mode"`
	Topic    string       `json:"topic"`
	Callback string       `json:"callback"` // scheme and host
	At       time.Time    `json:"at"`       // of the last attempt
	Attempts int          `json:"attempts"`
	Reason   string       `json:"reason"`
	Next     time.Time    `json:"next_try,omitzero"` // zero: given up
}

// failures remembers the newest failed verifications, one for each key.
type failures struct {
	mu  sync.Mutex // guards all
	all []FailedVerification
}

// record stores f in place of an earlier failure of the same key.
func (l *failures) record(f FailedVerification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o FailedVerification) bool { return o.Key == f.Key })
	if len(l.all) >= maxFailures {
		l.all = slices.Delete(l.all, 0, 1+len(l.all)-maxFailures)
	}
	l.all = append(l.all, f)
}

// forget removes the failure of a key: its request has been confirmed.
func (l *failures) forget(key hubstore.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o FailedVerification) bool { return o.Key == key })
}

// newest returns the failures, the newest first.
func (l *failures) newest() []FailedVerification {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.all)
	slices.Reverse(all)
	return all
}

// apiVerifications answers with the failed verifications.
func (h *Hub) apiVerifications(*http.Request) (any, error) {
	return map[string]any{"failed": notNil(h.intents.failed.newest())}, nil
}

// fail records and logs that p was not confirmed.
func (v *intents) fail(p *pending, err error, attempts int, next time.Time) {
	reason := v.reason(err)
	v.failed.record(FailedVerification{
		Key: p.Key, Mode: p.Mode, Topic: fetch.Printable(p.Topic), Callback: origin(p.Callback),
		At: v.h.now(), Attempts: attempts, Reason: reason, Next: next,
	})
	v.logFailure(p, reason, attempts, next)
}

// reason describes the cause of a failed verification without any data that the
// callback sent, except its status.
func (v *intents) reason(err error) string {
	var (
		status  *statusError
		address *fetch.AddressError
		topic   *topicError
		dial    *dialError
		dns     *net.DNSError
	)
	switch {
	case errors.As(err, &topic):
		return topic.Error()
	case errors.As(err, &status) && status.status/100 == 3:
		return fmt.Sprintf("the callback answered with status %d: redirects are not followed", status.status)
	case errors.As(err, &status):
		return fmt.Sprintf("the callback answered with status %d", status.status)
	case errors.Is(err, errWrongChallenge):
		return errWrongChallenge.Error()
	case errors.As(err, &address):
		return fetch.Printable(address.Error())
	case isCertificateError(err):
		return fetch.Printable(err.Error()) + " (--ca-file trusts further certificates)"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return fmt.Sprintf("the callback did not answer within %v", min(verifyTime, v.h.opts.Timeout))
	case errors.As(err, &dns):
		return "the host of the callback has no address: " + fetch.Printable(dns.Err)
	case errors.As(err, &dial):
		return "no connection to the callback: " + fetch.Printable(cause(dial).Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the callback closed the connection without an answer"
	}
	return "the answer of the callback is not valid HTTP"
}

// cause returns the innermost error.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// isCertificateError reports whether a certificate was rejected, or the server
// does not speak TLS.
func isCertificateError(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		unknown      x509.UnknownAuthorityError
		name         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid)
}

// errWrongChallenge reports an answer that does not confirm the request
// (WS-I-04).
var errWrongChallenge = errors.New("the callback did not answer with the challenge")

// A topicError reports a topic that the hub accepts no subscriptions to.
type topicError struct {
	text  string
	again bool // a later attempt may succeed
}

func (e *topicError) Error() string { return e.text }

// checkTopic asks the topic whether it names this hub (WS-SEC-05).
func (v *intents) checkTopic(ctx context.Context, topic string) *topicError {
	named, err := v.h.pingFetcher.names(ctx, topic)
	var status *websub.StatusError
	switch {
	case errors.Is(err, websub.ErrNoHub), err == nil && !named:
		return &topicError{text: "the topic does not name this hub"}
	case errors.As(err, &status):
		return &topicError{
			text:  fmt.Sprintf("the topic could not be read: status %d", status.Status),
			again: status.Status >= 500 || slices.Contains(passing(), status.Status),
		}
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return &topicError{text: "the topic could not be read: no answer in time", again: true}
	case err != nil:
		return &topicError{text: "the topic could not be read: " + fetch.Printable(cause(err).Error()), again: true}
	}
	return nil
}

// passing returns the statuses below 500 after which a request may succeed
// later.
func passing() []int {
	return []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
}
