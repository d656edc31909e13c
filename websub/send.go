package websub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	maxGetRedirects  = 10               // of one discovery
	maxPostRedirects = 5                // of one request to a hub (WS-S-09)
	exchangeTime     = 60 * time.Second // for one request and its answer
	maxRefusal       = 1 << 10          // bytes of a hub's answer kept for the log
	maxDrain         = 64 << 10         // bytes of an answer that are read so that the connection can be reused
	defaultUserAgent = "lockstep"
)

// An exchange is one request and the requests that follow from redirects.
type exchange struct {
	client    Doer
	method    string
	address   string
	header    http.Header
	body      []byte
	redirects int
	secret    *url.URL // URL below which Authorization may be sent; nil: scheme, host and port of address
}

// An answer is the last response of an exchange.
type answer struct {
	*http.Response
	url   *url.URL // the URL that answered
	moved string   // target of permanent redirects; "" if there was none (WS-S-09)
}

// doer returns client with redirects disabled, or a default.
func doer(client Doer) Doer {
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	switch c := client.(type) {
	case nil:
		return &http.Client{Timeout: exchangeTime, CheckRedirect: stop}
	case *http.Client:
		own := *c
		own.CheckRedirect = stop
		return &own
	}
	return client
}

// do sends the request and follows redirects itself. The caller closes the
// body.
func (x *exchange) do(ctx context.Context) (*answer, error) {
	at, err := parseHTTP(x.address)
	if err != nil {
		return nil, err
	}
	a := &answer{url: at}
	header, lasting := x.header.Clone(), true
	if header == nil {
		header = http.Header{}
	}
	for n := 0; ; n++ {
		resp, err := x.once(ctx, a.url, header)
		if err != nil {
			return nil, err
		}
		if resp.Request != nil && resp.Request.URL != nil {
			a.url = resp.Request.URL // of a Doer that followed redirects by itself
		}
		if !x.follows(resp.StatusCode) {
			a.Response = resp
			return a, nil
		}
		drain(resp)
		if n >= x.redirects {
			return nil, fmt.Errorf("more than %d redirects", x.redirects)
		}
		to, err := target(a.url, resp)
		if err != nil {
			return nil, err
		}
		if authority(to) != authority(a.url) || x.secret != nil && !below(x.secret, to) {
			header.Del("Authorization") // they belong to that server only
			header.Del("Cookie")
		}
		if lasting = lasting && resp.StatusCode == http.StatusPermanentRedirect; lasting {
			a.moved = to.String()
		}
		a.url = to
	}
}

func (x *exchange) once(ctx context.Context, at *url.URL, header http.Header) (*http.Response, error) {
	var body io.Reader
	if x.body != nil {
		body = bytes.NewReader(x.body)
	}
	req, err := http.NewRequestWithContext(ctx, x.method, at.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	resp, err := x.client.Do(req)
	if err != nil {
		var ue *url.Error // its text repeats the address, which callers add too
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, err
	}
	return resp, nil
}

// follows reports whether an answer with that status is a redirect to follow: a
// client that follows 303 would turn a POST into a GET (WS-S-09).
func (x *exchange) follows(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusSeeOther:
		return x.method != http.MethodPost
	}
	return false
}

// target returns the target of a redirect from u.
func target(u *url.URL, resp *http.Response) (*url.URL, error) {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, fmt.Errorf("status %d without a Location", resp.StatusCode)
	}
	ref, err := Resolve(u, location)
	if err != nil {
		return nil, fmt.Errorf("redirect to %s: not a URI", printable(location))
	}
	to, err := parseHTTP(ref.String())
	if err != nil {
		return nil, fmt.Errorf("redirect to %s: %w", printable(location), err)
	}
	if u.Scheme == "https" && to.Scheme == "http" {
		return nil, fmt.Errorf("redirect to %s: from https down to http", printable(location))
	}
	return to, nil
}

// drain reads the rest of a small answer, so that the connection can be reused.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only to reuse the connection
	_ = resp.Body.Close()                            // nothing was kept of it
}

// refusal converts an answer other than 2xx to an error, and closes it.
func refusal(hub string, a *answer, now time.Time) *RefusedError {
	b, _ := io.ReadAll(io.LimitReader(a.Body, maxRefusal)) // a part suffices
	drain(a.Response)
	return &RefusedError{
		Hub:        plain(hub),
		Status:     a.StatusCode,
		Text:       strings.TrimSpace(printable(string(b))),
		RetryAfter: retryAfter(a.Header.Get("Retry-After"), now),
	}
}

// retryAfter parses a Retry-After header: seconds or a date; 0 if invalid.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// parseHTTP parses the URL of a request and removes its fragment.
func parseHTTP(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("not an http or https URL")
	case u.Hostname() == "":
		return nil, errors.New("no host in the URL")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// plain returns address without user and password, printable.
func plain(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		u.User = nil
		address = u.String()
	}
	return printable(address)
}

// printable returns text of a stranger on one line, shortened and without
// terminal control characters.
func printable(s string) string {
	cut := len(s) > maxRefusal
	if cut {
		s = s[:maxRefusal]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
	if cut {
		s += "…"
	}
	return s
}
