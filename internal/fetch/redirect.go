package fetch

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lockstep/internal/fetch/escape"
)

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// next returns the target of a redirect from u, if it may be followed. chain
// contains the preceding redirects.
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
	ref, err := url.Parse(escape.Address(location))
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
	if r.Tentative && (to.Scheme != u.Scheme || to.Host != u.Host) {
		return refuse("it leads to another host")
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
