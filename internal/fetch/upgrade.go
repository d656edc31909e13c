package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"lockstep/internal/fetch/escape"
)

// An upgrade records whether the Source, which was named by an http address and
// gets credentials, redirects to https: then credentials are only sent there.
//
// A request without credentials determines that, before any request with them:
// after a single plain http request with a password, any listener knows it. Only
// a redirect within the same host counts, from port 80 to port 443: another port
// is another server, possibly with another operator.
type upgrade struct {
	mu      sync.Mutex // guards what follows; held while that is determined
	known   bool
	host    string // host of https requests, with a port if that is not 443; "": the Source has only http
	refused error  // credentials can be sent neither over http nor to the target of its redirect
	saved   func(host string)
}

// A ForeignUpgradeError reports that credentials belong to an http address that
// redirects to https at another host or port. They are sent to neither.
type ForeignUpgradeError struct{ From, To string }

func (e *ForeignUpgradeError) Error() string {
	return fmt.Sprintf("credentials are for %s, which redirects to %s: that is another host or port, so they are sent to neither; if both belong to the Source, give %s as its address", e.From, e.To, e.To)
}

// HTTPS returns the host to which requests to the Source are sent over https
// although it was named by http; "" if there is none.
func (c *Client) HTTPS() string {
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	return c.up.host
}

// UseHTTPS makes requests to the Source use https at a host that an earlier
// Client has determined; "" means none. The host that this Client determines is
// passed to save. Call UseHTTPS before the first request.
func (c *Client) UseHTTPS(host string, save func(host string)) {
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	c.up.saved = save
	if host == "" || c.opts.Home == nil || !SameHost(&url.URL{Scheme: "https", Host: host}, c.opts.Home) {
		return // of another Source, or none
	}
	c.up.host, c.up.known = host, true
}

// guarded reports whether a request to u would send credentials over http.
func (c *Client) guarded(u *url.URL) bool {
	return c.secret && u.Scheme == "http" && c.home.host != "" && c.home.trusts(originOf(u))
}

// secured returns the address to use instead of u, so that credentials are not
// sent over http if the Source has https.
func (c *Client) secured(ctx context.Context, u *url.URL) (*url.URL, error) {
	if !c.guarded(u) {
		return u, nil
	}
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	if !c.up.known {
		if err := c.learn(ctx, u); err != nil {
			return nil, err
		}
	}
	if c.up.refused != nil {
		return nil, c.up.refused
	}
	if c.up.host == "" {
		return u, nil
	}
	to := *u
	to.Scheme, to.Host = "https", c.up.host
	return &to, nil
}

// learn sends a request to u without credentials. A response that says only that the
// server is temporarily unavailable determines nothing. The caller holds c.up.mu.
func (c *Client) learn(ctx context.Context, u *url.URL) error {
	a, err := c.send(ctx, &Request{URI: u.String(), Document: true, anonymous: true}, u, 1)
	if err != nil {
		return err
	}
	location := a.Header.Get("Location")
	status := a.Status
	a.discard()
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return a.statusError()
	}
	c.up.known = true
	if !redirects(status) {
		return nil
	}
	to, err := u.Parse(escape.Address(location))
	if err != nil || to.Scheme != "https" {
		return nil
	}
	if !SameHost(to, u) {
		c.up.refused = &ForeignUpgradeError{From: u.Scheme + "://" + u.Host, To: "https://" + to.Host}
		return nil
	}
	c.up.settle(ctx, c.opts.Logger, u, to)
	return nil
}

// noticeUpgrade makes credentials use https from now on, if a request that sent
// them over http was redirected there: some addresses of a Source may not
// redirect.
func noticeUpgrade(ctx context.Context, c *Client, u, to *url.URL) {
	if to.Scheme != "https" || !c.guarded(u) || !SameHost(to, u) {
		return
	}
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	if c.up.host == "" {
		c.up.settle(ctx, c.opts.Logger, u, to)
	}
}

// settle makes requests to u use the host of to from now on, and reports it.
// The caller holds up.mu.
func (up *upgrade) settle(ctx context.Context, log *slog.Logger, u, to *url.URL) {
	up.host = to.Host
	log.WarnContext(ctx, "credentials are for an http address that redirects to https: they are sent to the https address only; use that from now on",
		slog.String("from", u.Scheme+"://"+u.Host), slog.String("to", "https://"+to.Host))
	if up.saved != nil {
		up.saved(up.host)
	}
}

// trusted reports whether u may receive credentials.
func (c *Client) trusted(u *url.URL) bool {
	if c.home.host == "" {
		return false
	}
	if c.home.trusts(originOf(u)) {
		return true
	}
	if !c.secret || u.Scheme != "https" {
		return false
	}
	// The Source itself has named this address, and its certificate proves the name.
	return strings.EqualFold(u.Host, c.HTTPS())
}

// hasSecret reports whether the header for the Source contains anything that
// others must not see.
func hasSecret(home, plain http.Header) bool {
	for name := range home {
		if _, both := plain[name]; !both {
			return true
		}
	}
	return false
}
