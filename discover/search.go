package discover

import (
	"cmp"
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

// maxTold caps the steps in the sentence about an address that led nowhere.
const maxTold = 12

// search looks where documents are by custom, for a site of which u is a page.
// A place counts as empty only if the Source says so: a document that may be
// there but cannot be read ends the search with its error, and what one place
// announces is not looked for in another.
func (f *finder) search(u *url.URL) error {
	var forbidden error
	for _, uri := range WellKnowns(u) {
		if f.seen[uri] {
			continue
		}
		err := f.wellKnown(uri)
		if isForbidden(err) { // a bucket may say so of what is not there; the next place may have a document
			forbidden = cmp.Or(forbidden, fmt.Errorf("%w; if there is no Source Description, give the address of a document of the Source", err))
			f.failed(uri, err)
			continue
		}
		if err != nil || f.announced() {
			return err
		}
	}
	if forbidden != nil {
		return forbidden
	}
	root, here := rootOf(u), directory(u)
	if err := f.robots(root.JoinPath("robots.txt")); err != nil || f.announced() {
		return err
	}
	for _, dir := range []*url.URL{here, root} {
		for _, name := range []string{"resourcelist.xml", "sitemap.xml"} {
			uri := dir.JoinPath(name).String()
			if f.seen[uri] {
				continue
			}
			if err := f.guess(uri); err != nil || f.announced() {
				return err
			}
		}
	}
	return f.nothing()
}

// WellKnowns returns where the Source Description of a site may be of which u is
// a page, likely places first: at the root of the host (RS-DISC-02), and below
// u, where those put it who have no say in the root.
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

// directory returns the directory u is in, or is.
func directory(u *url.URL) *url.URL {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).ResolveReference(&url.URL{Path: "./"})
}

// nothing is the sentence for an address that leads nowhere.
func (f *finder) nothing() error {
	tried := make([]string, 0, maxTold+1)
	for i, s := range f.found.Way {
		if i == maxTold {
			tried = append(tried, "…")
			break
		}
		tried = append(tried, s.String())
	}
	return fmt.Errorf("%s: %w (%s)", fetch.Printable(f.found.Address), ErrNoSource, strings.Join(tried, "; "))
}

// wellKnown visits the Source Description at uri, a well-known URI, if there is
// one.
func (f *finder) wellKnown(uri string) error {
	d, err := f.openDocument(uri)
	switch {
	case isAbsent(err):
		f.failed(uri, err)
		return nil
	case errors.Is(err, resourcesync.ErrHTML):
		return f.page404(uri, err, "a Source Description")
	case err != nil:
		return err
	}
	defer d.Close() // read as far as it was of use
	switch d.Header.Capability {
	case resourcesync.Description, resourcesync.CapabilityList:
		return f.visit(d, true)
	}
	return fmt.Errorf("read %s: %s, where a Source Description was expected", fetch.Printable(uri), kind(&d.Header))
}

// guess visits uri, which nothing announces, if a document is there.
func (f *finder) guess(uri string) error {
	d, err := f.openDocument(uri)
	if isAbsent(err) || errors.Is(err, resourcesync.ErrHTML) || errors.Is(err, resourcesync.ErrNotDocument) {
		f.failed(uri, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close() // read as far as it was of use
	return f.visit(d, true)
}

// nowhere is an address that no site has: those that answer it with a page have
// pages in the place of "not found"
// (https://www.w3.org/TR/change-password-url/).
const nowhere = "resource-that-should-not-exist-whose-status-code-should-not-be-200"

// page404 decides what an HTML page at uri means, where there would be a document
// if the site had one. On a site that answers everything with pages it means
// that there is none; on any other it is in the place of the document.
func (f *finder) page404(uri string, err error, expected string) error {
	if f.vague == nil {
		u, perr := url.Parse(uri)
		if perr != nil {
			return err // unreachable: it was fetched
		}
		p, oerr := f.open(u.ResolveReference(&url.URL{Path: nowhere}).String())
		if oerr == nil {
			_ = p.close() // that it is there was to be known
		} else if !isAbsent(oerr) {
			return err
		}
		answered := oerr == nil
		f.vague = &answered
	}
	if *f.vague {
		f.step(uri, "an HTML page, as at any address of this site")
		return nil
	}
	return fmt.Errorf("%w; %s was expected there: if the site has none, give the address of a document of the Source", err, expected)
}

// isAbsent reports whether err is the word of the server that nothing is there.
// One that asks for credentials, refuses, or is out of order does not say that.
func isAbsent(err error) bool {
	var status *fetch.StatusError
	if !errors.As(err, &status) || status.Status < 400 || status.Status > 499 || retryable(status.Status) {
		return false
	}
	return !isForbidden(err)
}

// isForbidden reports whether the server refuses to say what is there.
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

// retryable reports whether an answer of this status may be another one later.
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// robots follows the Sitemap lines of robots.txt: first to Resource Lists
// (RS-DISC-09); plain Sitemaps serve where there is none. A line whose document
// cannot be read may be that of a Resource List: then no plain Sitemap takes its
// place.
func (f *finder) robots(at *url.URL) error {
	p, err := f.open(at.String())
	if isAbsent(err) {
		f.failed(at.String(), err)
		return nil
	}
	if err != nil {
		return err
	}
	html := p.looksLikeHTML()
	sitemaps, err := parseRobots(p.text, at)
	_ = p.close() // read as far as it was of use
	switch {
	case err != nil:
		return readError(at.String(), err)
	case html:
		return f.page404(at.String(), fmt.Errorf("read %s: an HTML page", fetch.Printable(at.String())), "robots.txt")
	case len(sitemaps) == 0:
		f.step(at.String(), "names no Sitemap")
		return nil
	}
	var plain []*Document
	defer func() {
		for _, d := range plain {
			_ = d.Close() // only its header was of use
		}
	}()
	broken := map[string]error{}
	for _, uri := range sitemaps {
		if f.seen[uri] {
			continue // its Source was reached from another one
		}
		f.step(at.String(), "names %s", uri)
		d, err := f.openDocument(uri)
		switch {
		case errors.Is(err, resourcesync.ErrNotDocument):
			f.failed(uri, err) // a feed, which robots.txt may name, too
		case err == nil && d.Header.Capability == "":
			plain = append(plain, d)
		case err == nil:
			err = f.visit(d, true)
			_ = d.Close() // read as far as it was of use
			fallthrough
		default:
			if err != nil {
				broken[uri] = err
			}
		}
	}
	if f.found.All && f.usable() { // a Source Description says which sets there are
		return nil
	}
	for _, uri := range sitemaps {
		if err := broken[uri]; err != nil {
			f.unread(uri, err)
		}
	}
	if !f.announced() {
		for _, d := range plain {
			f.alone(d)
		}
	}
	return nil
}

func isRoot(p string) bool { return p == "" || p == "/" }

// siteLike reports whether p looks like a part of a site rather than a
// document that should be there.
func siteLike(p string) bool {
	return isRoot(p) || strings.HasSuffix(p, "/") || path.Ext(p) == "" && !strings.HasPrefix(p, "/.well-known/")
}
