package fetch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"lockstep/internal/fetch/http1"
	"lockstep/internal/fetch/netrc"
)

// An origin is what credentials belong to.
type origin struct{ scheme, host, port string }

func originOf(u *url.URL) origin {
	if u == nil {
		return origin{}
	}
	o := origin{strings.ToLower(u.Scheme), strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()}
	if o.port == "" {
		o.port = defaultPort(o.scheme)
	}
	return o
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	case "socks5", "socks5h":
		return "1080"
	}
	return ""
}

// trusts reports whether t may receive credentials of o: if it is the same
// origin, or the same host over TLS if o has http and no port of its own. An o
// without a scheme, as users type it, trusts https; it trusts http only on the
// local machine, so that a failing https does not reveal a password.
func (o origin) trusts(t origin) bool {
	if o.host == "" || o.host != t.host {
		return false
	}
	switch o.scheme {
	case t.scheme:
		return o.port == t.port
	case "http":
		return t.scheme == "https" && o.port == "80" && t.port == "443"
	case "":
		port := o.port == t.port || o.port == "" && t.port == defaultPort(t.scheme)
		return port && (t.scheme == "https" || loopbackName(t.host))
	}
	return false
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// prepareHeaders builds the two headers that nearly all requests share.
// Precedence of credentials: Header, BearerToken, the address itself, Netrc.
func (c *Client) prepareHeaders() error {
	c.plainHead = http.Header{
		"User-Agent":      {c.opts.UserAgent},
		"Accept-Encoding": {"identity"}, // RS-HASH-07
	}
	c.homeHead = c.plainHead.Clone()
	auth, err := c.authorization()
	if err != nil {
		return err
	}
	if auth != "" {
		c.homeHead["Authorization"] = []string{auth}
	}
	for k, vs := range c.opts.Header {
		k = http.CanonicalHeaderKey(k)
		switch k {
		case "Accept-Encoding", "Range", "If-Range", "Connection", "Content-Length", "Transfer-Encoding", "Host":
			return fmt.Errorf("header %s cannot be set: it is Lockstep's own", k)
		}
		for _, v := range vs {
			if !http1.IsToken(k) || !http1.IsFieldValue(v) {
				return fmt.Errorf("header %s: not a valid HTTP header", Printable(k))
			}
		}
		c.homeHead[k] = append([]string(nil), vs...)
	}
	c.secret = hasSecret(c.homeHead, c.plainHead)
	if !http1.IsFieldValue(c.opts.UserAgent) || !http1.IsFieldValue(auth) {
		return errors.New("user agent or token: not valid in an HTTP header")
	}
	if c.home.host == "" && (c.opts.BearerToken != "" || len(c.opts.Header) > 0) {
		return errors.New("credentials are given, but the Source is not at an http address")
	}
	return nil
}

func (c *Client) authorization() (string, error) {
	if t := strings.TrimSpace(c.opts.BearerToken); t != "" {
		return "Bearer " + t, nil
	}
	if h := c.opts.Home; h != nil && h.User != nil {
		password, _ := h.User.Password()
		return basic(h.User.Username(), password), nil
	}
	if c.opts.Netrc == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.opts.Netrc)
	if err != nil {
		return "", fmt.Errorf("read netrc: %w", err)
	}
	if login, password, ok := netrc.Entry(string(data), c.home.host); ok {
		return basic(login, password), nil
	}
	return "", nil
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
