// Package certerror describes errors about the certificates of servers: in one sentence that names
// the server and the cause, with the remedy.
package certerror

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// An Error reports that the certificate of a server is not accepted.
type Error struct {
	Host string // as in the address, without a port
	text string
	hint string
	err  error
}

func (e *Error) Error() string { return "the certificate of " + e.Host + " " + e.text }

// Unwrap returns the error that the verification returned.
func (e *Error) Unwrap() error { return e.err }

// Hint says what to do.
func (e *Error) Hint() string { return e.hint }

const (
	giveAuthority = "if this is the right server, give the certificate of its authority (PEM): --ca-file FILE"
	giveItself    = "if this is the right server, give this certificate (PEM): --ca-file FILE"
	useless       = "; --ca-file does not help"
	maxNames      = 5   // of a certificate that are listed
	maxName       = 100 // bytes
)

// Explain returns an [*Error] that wraps err if err is about the certificate of host, which
// may have a port; else err.
func Explain(err error, host string) error {
	if name, _, serr := net.SplitHostPort(host); serr == nil {
		host = name
	}
	e := &Error{Host: host, err: err}
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		roots   x509.SystemRootsError
	)
	switch {
	case err == nil, errors.As(err, new(*Error)):
		return err
	case errors.As(err, &unknown) && isSelfSigned(unknown.Cert):
		e.text, e.hint = "is not trusted: it is self-signed", giveItself
	case errors.As(err, &unknown):
		e.text, e.hint = "is not trusted: its authority is unknown"+issuerOf(unknown.Cert), giveAuthority
	case errors.As(err, &name):
		e.text = "is for " + namesOf(name.Certificate) + ", not for " + name.Host
		e.hint = "give an address with one of these names, or have its operator add this one" + useless
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.text, e.hint = expiry(invalid.Cert, time.Now())
	case errors.As(err, &invalid):
		e.text = "is not valid: " + strings.TrimPrefix(invalid.Error(), "x509: ")
		e.hint = "its operator has to replace it" + useless
	case errors.As(err, &roots):
		e.text = "cannot be verified: " + strings.TrimPrefix(roots.Error(), "x509: ")
		e.hint = "install the certificates of public authorities (ca-certificates), or give that of its authority (PEM): --ca-file FILE"
	default:
		return err
	}
	return e
}

// Transport returns a RoundTripper whose errors about certificates are explained.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, Explain(err, r.URL.Host)
	}
	return resp, nil
}

// CloseIdleConnections closes those of the transport; see [http.Client.CloseIdleConnections].
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// isSelfSigned reports whether a certificate has signed itself.
func isSelfSigned(c *x509.Certificate) bool {
	return c != nil && bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// issuerOf names the issuer of a certificate, in parentheses; "" if it has no name.
func issuerOf(c *x509.Certificate) string {
	if c == nil || c.Issuer.String() == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", c.Issuer.String())
}

// namesOf lists the names that a certificate is for.
func namesOf(c *x509.Certificate) string {
	if c == nil {
		return "other names"
	}
	var names []string
	for _, name := range c.DNSNames {
		names = append(names, name[:min(len(name), maxName)])
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	if n := len(names) - maxNames; n > 0 {
		names = append(names[:maxNames], fmt.Sprintf("%d others", n))
	}
	return strings.Join(names, ", ")
}

// expiry says why a certificate is not valid now.
func expiry(c *x509.Certificate, now time.Time) (text, hint string) {
	switch {
	case c == nil:
		return "has expired, or is not valid yet", "see the clock of this machine; otherwise its operator has to replace it" + useless
	case now.Before(c.NotBefore):
		return "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339),
			"here it is " + now.UTC().Format(time.RFC3339) + ": see the clock of this machine; if it is right, the server's operator has to replace the certificate" + useless
	}
	return "has expired on " + c.NotAfter.UTC().Format(time.RFC3339), "its operator has to renew it" + useless
}
