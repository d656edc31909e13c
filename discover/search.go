package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// search looks for documents at the conventional locations of a site; u is one
// of its pages. A location counts as empty only if the server says so: a
// document that may exist but cannot be read ends the search with its error,
// and what one location announces is not searched for elsewhere.
func (f *finder) search(ctx context.Context, u *url.URL) error {
	var forbidden error
	for _, uri := range WellKnowns(u) {
		if f.seen[uri] {
			continue
		}
		err := f.wellKnown(ctx, uri)
		if isForbidden(err) { // an object store may answer 403 for missing objects; the next location may have a document
			forbidden = cmp.Or(forbidden, fmt.Errorf("%w; if there is no Source Description, give the address of a document of the Source", err))
			f.found.failed(uri, err)
			continue
		}
		if err != nil || f.found.announced() {
			return err
		}
	}
	if forbidden != nil {
		return forbidden
	}
	root, here := rootOf(u), directory(u)
	if err := f.robots(ctx, root.JoinPath("robots.txt")); err != nil || f.found.announced() {
		return err
	}
	for _, dir := range []*url.URL{here, root} {
		for _, name := range []string{"resourcelist.xml", "sitemap.xml"} {
			uri := dir.JoinPath(name).String()
			if f.seen[uri] {
				continue
			}
			if err := f.guess(ctx, uri); err != nil || f.found.announced() {
				return err
			}
		}
	}
	return f.found.nothing()
}

// WellKnowns returns the possible addresses of the Source Description of the
// site that u belongs to, likely ones first: at the root of the host
// (RS-DISC-02), and below u, for publishers that do not control the root.
func WellKnowns(u *url.URL) []string {
	dirs := []*url.URL{rootOf(u), directory(u)}
	if !strings.HasSuffix(u.Path, "/") && siteLike(u.Path) {
		dirs = append(dirs, &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath})
	}
	var uris []string
	for _, dir := range dirs {
		if uri := dir.JoinPath(WellKnown).String(); !slices.Contains(uris, uri) {
			uris = append(uris, uri)
		}
	}
	return uris
}

func rootOf(u *url.URL) *url.URL { return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"} }

// directory returns the directory that contains u, or u if it is one.
func directory(u *url.URL) *url.URL {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).ResolveReference(&url.URL{Path: "./"})
}

// wellKnown visits the Source Description at uri, a well-known URI, if it
// exists.
func (f *finder) wellKnown(ctx context.Context, uri string) error {
	d, err := f.openDocument(ctx, uri)
	switch {
	case isAbsent(err):
		f.found.failed(uri, err)
		return nil
	case errors.Is(err, resourcesync.ErrHTML):
		return f.page404(ctx, uri, err, "a Source Description")
	case err != nil:
		return err
	}
	defer d.Close() // read as far as needed
	switch d.Header.Capability {
	case resourcesync.Description, resourcesync.CapabilityList:
		return f.visit(ctx, d, true)
	}
	return fmt.Errorf("read %s: %s, where a Source Description was expected", fetch.Printable(uri), kind(&d.Header))
}

// guess visits uri, which nothing announces, if it is a document.
func (f *finder) guess(ctx context.Context, uri string) error {
	d, err := f.openDocument(ctx, uri)
	if isAbsent(err) || errors.Is(err, resourcesync.ErrHTML) || errors.Is(err, resourcesync.ErrNotDocument) {
		f.found.failed(uri, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close() // read as far as needed
	return f.visit(ctx, d, true)
}

// nowhere is an address that no site has: servers that answer it with a page
// send pages instead of "not found"
// (https://www.w3.org/TR/change-password-url/).
const nowhere = "resource-that-should-not-exist-whose-status-code-should-not-be-200"

// page404 decides what an HTML page at uri means, where a site could have a
// document. If the site answers every request with pages, there is no document;
// otherwise the page has replaced it.
func (f *finder) page404(ctx context.Context, uri string, err error, expected string) error {
	if f.vague == nil {
		u, perr := url.Parse(uri)
		if perr != nil {
			return err // unreachable: it was fetched
		}
		p, oerr := f.open(ctx, u.ResolveReference(&url.URL{Path: nowhere}).String())
		if oerr == nil {
			_ = p.close() // only its existence mattered
		} else if !isAbsent(oerr) {
			return err
		}
		answered := oerr == nil
		f.vague = &answered
	}
	if *f.vague {
		f.found.step(uri, "an HTML page, as at any address of this site")
		return nil
	}
	return fmt.Errorf("%w; %s was expected there: if the site has none, give the address of a document of the Source", err, expected)
}

// isAbsent reports whether err means that the server has nothing there. A
// server that asks for credentials, refuses access, or is out of order does not
// say that.
func isAbsent(err error) bool {
	var status *fetch.StatusError
	if !errors.As(err, &status) || status.Status < 400 || status.Status > 499 || retryable(status.Status) {
		return false
	}
	return !isForbidden(err)
}

// isForbidden reports whether the server refuses to say whether something
// exists.
func isForbidden(err error) bool {
	var status *fetch.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusUnavailableForLegalReasons:
		return true
	}
	return false
}

// retryable reports whether a later request may get another answer than this
// status.
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// robots follows the Sitemap lines of robots.txt.
func (f *finder) robots(ctx context.Context, at *url.URL) error {
	p, err := f.open(ctx, at.String())
	if isAbsent(err) {
		f.found.failed(at.String(), err)
		return nil
	}
	if err != nil {
		return err
	}
	html := p.looksLikeHTML()
	robots, sitemaps, err := readRobots(p, at)
	var limit *limitError
	switch exceeded := errors.As(err, &limit); {
	case err != nil && !exceeded:
		return err
	case html:
		return f.page404(ctx, at.String(), fmt.Errorf("read %s: an HTML page", fetch.Printable(at.String())), "robots.txt")
	case len(sitemaps) == 0 && err == nil:
		f.found.step(at.String(), "names no Sitemap")
		return nil
	}
	f.sitemaps(ctx, robots, sitemaps, err)
	return nil
}

// readRobots returns the Sitemaps that p names, the robots.txt at at, and closes p. The
// error is that of parseRobots.
func readRobots(p *page, at *url.URL) (Robots, []string, error) {
	sitemaps, err := parseRobots(p.text, at)
	_ = p.close() // read as far as needed
	if err != nil {
		err = readError(at.String(), err)
	}
	r := Robots{URI: at.String(), Sitemaps: hashOf(sitemaps)}
	r.ETag, r.LastModified = fetch.Validators(p.header)
	return r, sitemaps, err
}

// sitemaps visits what robots.txt names: first Resource Lists (RS-DISC-09); without
// one, plain Sitemaps are used. An unreadable document may be a Resource List: then no
// plain Sitemap replaces it. That is also true of the rest of robots.txt, of which rest
// says why it was not read; nil: it was read to its end.
func (f *finder) sitemaps(ctx context.Context, robots Robots, uris []string, rest error) {
	var plain []*Document
	broken := map[string]error{}
	for _, uri := range uris {
		if f.seen[uri] {
			continue // another line has already led to its Source
		}
		f.found.step(robots.URI, "names %s", uri)
		d, err := f.openDocument(ctx, uri)
		switch {
		case errors.Is(err, resourcesync.ErrNotDocument) && !f.known[uri]:
			f.found.failed(uri, err) // robots.txt may also name a feed
		case err == nil && d.Header.Capability == "":
			plain = append(plain, d)
			_ = d.Close() // only its header is needed
		case err == nil:
			err = f.visit(ctx, d, true)
			_ = d.Close() // read as far as needed
			fallthrough
		default:
			if err != nil {
				broken[uri] = err
			}
		}
	}
	if f.found.All && f.found.usable() { // a Source Description lists all sets
		return
	}
	for _, uri := range uris {
		if err := broken[uri]; err != nil {
			f.found.unread(uri, err)
		}
	}
	if rest != nil {
		f.found.unread(robots.URI, rest)
	}
	if !f.found.announced() {
		for _, d := range plain {
			f.found.alone(d)
		}
	}
	if f.found.announced() {
		f.found.Robots = robots
	}
}

func isRoot(p string) bool { return p == "" || p == "/" }

// siteLike reports whether p looks like a page of a site rather than a missing
// document.
func siteLike(p string) bool {
	return isRoot(p) || strings.HasSuffix(p, "/") || path.Ext(p) == "" && !strings.HasPrefix(p, "/.well-known/")
}
