package fetch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxRetryAfter caps how long a Source may put us off.
	MaxRetryAfter = 5 * time.Minute

	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// backoff returns how long to wait after try number n: doubling, capped, and
// less by up to half at random, so that many do not come back at once.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n-1, 16), maxBackoff)
	return d - rand.N(d/2)
}

// retryAfter reads a Retry-After header, seconds or a date; zero if absent.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(n, uint64(24*time.Hour/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return 24 * time.Hour
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// next returns where a redirect from u leads, if it may be followed. chain
// holds the redirects followed before it.
func next(r *Request, u *url.URL, chain []string, status int, location string) (*url.URL, error) {
	if location == "" {
		return nil, &RedirectError{Reason: fmt.Sprintf("status %d without a Location", status)}
	}
	refuse := func(reason string) (*url.URL, error) {
		return nil, &RedirectError{To: location, Reason: reason}
	}
	if r.Post != nil && status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		return refuse("it would make another request of a POST") // RFC 9110, 15.4
	}
	ref, err := url.Parse(escape(location))
	if err != nil {
		return refuse("not a URI")
	}
	to := u.ResolveReference(ref)
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if reason := unfetchable(to); reason != "" {
		return refuse(reason)
	}
	if u.Scheme == "https" && to.Scheme == "http" {
		return refuse("from https down to http")
	}
	text := to.String()
	if slices.Contains(chain, text) || (len(chain) == 0 && text == u.String()) || text == withoutFragment(r.URI) {
		return refuse("it leads in a circle")
	}
	if len(chain) >= MaxRedirects {
		return refuse(fmt.Sprintf("more than %d redirects", MaxRedirects))
	}
	if r.Redirect != nil {
		if err := r.Redirect(u, to); err != nil {
			return refuse(err.Error())
		}
	}
	return to, nil
}

func withoutFragment(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri
}
