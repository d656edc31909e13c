package certerror_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/internal/certerror"
)

// TestExplain: the errors of connections to servers with certificates that are not accepted
// name the server, the cause and the remedy.
func TestExplain(t *testing.T) {
	t.Parallel()
	authority := newCertificate(t, nil, func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = "Our Own CA", true, true, x509.KeyUsageCertSign
	})
	for name, tt := range map[string]struct {
		change     func(*x509.Certificate)
		by         *certificate // nil: itself
		trusted    bool
		text, hint string
	}{
		"self-signed": {nil, nil, false, "the certificate of localhost is not trusted: it is self-signed", "--ca-file FILE"},
		"unknown":     {nil, authority, false, `the certificate of localhost is not trusted: its authority is unknown ("CN=Our Own CA")`, "--ca-file FILE"},
		"other name": {func(c *x509.Certificate) { c.DNSNames = []string{"a.example.org", "b.example.org"} }, authority, true,
			"the certificate of localhost is for a.example.org, b.example.org, not for localhost", "--ca-file does not help"},
		"expired": {func(c *x509.Certificate) { c.NotAfter = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) }, authority, true,
			"the certificate of localhost has expired on 2020-01-02T03:04:05Z", "its operator has to renew it; --ca-file does not help"},
		"future": {func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Date(2120, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2121, 1, 2, 3, 4, 5, 0, time.UTC)
		}, authority, true, "the certificate of localhost is not valid before 2120-01-02T03:04:05Z", "see the clock of this machine"},
		"other use": {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, authority, true,
			"the certificate of localhost is not valid: ", "its operator has to replace it; --ca-file does not help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := newCertificate(t, tt.by, tt.change)
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = nil
			s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own.Raw}, PrivateKey: own.key}}}
			s.StartTLS()
			t.Cleanup(s.Close)
			roots := x509.NewCertPool()
			if tt.trusted {
				roots.AddCert(authority.Certificate)
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
			}}}
			resp, err := client.Get("https://localhost:4433/")
			if err == nil {
				_ = resp.Body.Close()
				t.Fatal("the certificate is accepted")
			}
			got := certerror.Explain(err, "localhost:4433")
			hint := ""
			if e, ok := errors.AsType[*certerror.Error](got); ok {
				hint = e.Hint()
			}
			if !strings.HasPrefix(got.Error(), tt.text) || !strings.Contains(hint, tt.hint) || strings.Contains(got.Error(), "\n") {
				t.Errorf("%q, hint %q, want %q, hint %q", got, hint, tt.text, tt.hint)
			}
			if again := certerror.Explain(got, "other"); !errors.Is(got, err) || !same(again, got) {
				t.Errorf("explained again: %v", again)
			}
		})
	}
	if other := errors.New("x"); !same(certerror.Explain(other, "localhost"), other) || certerror.Explain(nil, "localhost") != nil {
		t.Error("another error is explained")
	}
}

type certificate struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// newCertificate returns a certificate for localhost that is signed by another, nil: by
// itself.
func newCertificate(t *testing.T, by *certificate, change func(*x509.Certificate)) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2119, 1, 1, 0, 0, 0, 0, time.UTC),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	if by == nil {
		by = &certificate{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.Certificate, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &certificate{parsed, key}
}

// same reports whether two errors are one, and not only equal.
func same(a, b error) bool { return any(a) == any(b) }
