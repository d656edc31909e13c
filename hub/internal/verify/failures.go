package verify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/client"
	"lockstep/hub/status"
	"lockstep/internal/fetch"
)

// maxFailures is how many failed verifications the hub remembers: a stranger can
// cause very many.
const maxFailures = 100

// failures remembers the newest failed verifications, one for each key.
type failures struct {
	mu  sync.Mutex // guards all
	all []status.FailedVerification
}

// record stores f in place of an earlier failure of the same key.
func (l *failures) record(f status.FailedVerification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o status.FailedVerification) bool { return o.Key == f.Key })
	if len(l.all) >= maxFailures {
		l.all = slices.Delete(l.all, 0, 1+len(l.all)-maxFailures)
	}
	l.all = append(l.all, f)
}

// forget removes the failure of a key: its request has been confirmed.
func (l *failures) forget(key hubstore.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o status.FailedVerification) bool { return o.Key == key })
}

// newest returns the failures, the newest first.
func (l *failures) newest() []status.FailedVerification {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.all)
	slices.Reverse(all)
	return all
}

// A reporter records and logs failed verifications.
type reporter struct {
	failures failures
	log      *slog.Logger
	timeout  time.Duration // of a callback
	now      func() time.Time
}

// fail records and logs that p was not confirmed.
func (r *reporter) fail(p *pending, err error, attempts int, next time.Time) {
	reason := r.reason(err)
	r.failures.record(status.FailedVerification{
		Key: p.Key, Mode: p.Mode, Topic: fetch.Printable(p.Topic), Callback: status.Origin(p.Callback),
		At: r.now(), Attempts: attempts, Reason: reason, Next: next,
	})
	r.logFailure(p, reason, attempts, next)
}

// reason describes the cause of a failed verification without any data that the
// callback sent, except its status.
func (r *reporter) reason(err error) string {
	var (
		status  *statusError
		address *fetch.AddressError
		topic   *topicError
		dial    *client.DialError
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
		return fmt.Sprintf("the callback did not answer within %v", r.timeout)
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

// logFailure logs a failed verification, as a warning once it is given up: from
// then on a party that requested messages gets none.
func (r *reporter) logFailure(p *pending, reason string, attempts int, next time.Time) {
	level, more := slog.LevelWarn, []slog.Attr{slog.String("mode", p.Mode), slog.Int("attempt", attempts), slog.String("err", reason)}
	if !next.IsZero() {
		level, more = slog.LevelInfo, append(more, slog.Time("next", next))
	}
	r.write(level, "subscription request not verified", p.Topic, p.Callback, more...)
}

// write logs a message that names a callback by its host alone (WS-SEC-07).
func (r *reporter) write(level slog.Level, message, topic, callback string, more ...slog.Attr) {
	if !r.log.Enabled(context.Background(), level) {
		return
	}
	host := ""
	if u, err := url.Parse(callback); err == nil {
		host = u.Host
	}
	more = append(more, slog.String("topic", fetch.Printable(topic)), slog.String("callback", fetch.Printable(host)))
	r.log.LogAttrs(context.Background(), level, message, more...)
}
