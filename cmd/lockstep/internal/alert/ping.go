package alert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/release"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/certerror"
	"lockstep/internal/fetch"
)

// A pinger reports to a monitor by HTTP, in the way that Healthchecks and services
// like it have made common: the URL is the success, URL/start and URL/fail the others.
type pinger struct {
	url    *url.URL
	client *http.Client
	pause  time.Duration // after the first try
}

const (
	pingTimeout = 10 * time.Second // of a request: a monitor answers at once, or not at all
	pingLimit   = 15 * time.Second // of all tries: a monitor that is down must not hold up the next run
	pingTries   = 3
	pingPause   = time.Second // before the second try; twice as long before the third
	maxAnswer   = 1_000       // bytes of an answer that are read, so that the connection can be used again
)

// newPinger returns a pinger for the value of --ping-url, or nil for none. roots returns the
// certificates to trust; nil: those of the system.
func newPinger(text string, roots func() (*x509.CertPool, error)) (*pinger, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || !term.IsURL(text) {
		return nil, term.Usage(errors.New("--ping-url: want an http or https URL"), "as --ping-url https://monitor.example.org/ping/0f3c") // its text may be a secret
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if roots != nil {
		trusted, err := roots()
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	return &pinger{pause: pingPause, url: u, client: &http.Client{
		Transport:     certerror.Transport(t),
		Timeout:       pingTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would lose the body
	}}, nil
}

// errTemporary marks failures after which another try may succeed.
var errTemporary = errors.New("temporary")

// send sends a summary, in so many tries at most: it tries again after failures that
// may be temporary.
func (p *pinger) send(ctx context.Context, suffix, text string, tries int) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	u := p.url
	if suffix != "" {
		u = u.JoinPath(suffix)
	}
	for try := 1; ; try++ {
		err := p.post(ctx, u.String(), text)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errTemporary) || try == tries || ctx.Err() != nil {
			return fmt.Errorf("--ping-url: POST to %s://%s/…%s: %w", p.url.Scheme, p.url.Host, suffix, cause(err)) // the path is a secret
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try) * p.pause):
		}
	}
}

// post sends one request.
func (p *pinger) post(ctx context.Context, address, text string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	r.Header.Set("User-Agent", "lockstep/"+release.Version())
	answer, err := p.client.Do(r)
	if err != nil {
		return &temporaryError{err}
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer) // what it says is of no use
	_ = answer.Body.Close()                             // nothing is read from it
	switch {
	case answer.StatusCode < 300:
		return nil
	case answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests:
		return &temporaryError{errors.New(answer.Status)}
	}
	if to, err := answer.Location(); err == nil {
		return fmt.Errorf("%s: it redirects to %s://%s/…, which is not followed: give the address there", answer.Status, to.Scheme, to.Host) // the path is a secret
	}
	return errors.New(answer.Status)
}

// A temporaryError is one after which another try may succeed.
type temporaryError struct{ error }

func (e *temporaryError) Unwrap() []error { return []error{e.error, errTemporary} }

// cause returns an error of the HTTP client without the URL, which is a secret.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		if of.Timeout() {
			return errors.New("no answer in time")
		}
		if certificate, ok := errors.AsType[*certerror.Error](of.Err); ok {
			return certificate
		}
		return errors.New(fetch.Printable(of.Err.Error()))
	}
	return errors.New(fetch.Printable(err.Error()))
}
