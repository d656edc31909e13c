package discover

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fetch"
)

// maxTold caps the steps in the sentence about an address that led nowhere.
const maxTold = 12

// search looks where documents are by custom, for a site of which u is a page.
func (f *finder) search(u *url.URL) error {
	for _, uri := range WellKnowns(u) {
		if f.seen[uri] {
			continue
		}
		if err := f.try(uri); err != nil || f.usable() {
			return err
		}
	}
	root, here := rootOf(u), directory(u)
	if err := f.robots(root.JoinPath("robots.txt")); err != nil || f.usable() {
		return err
	}
	for _, dir := range []*url.URL{here, root} {
		for _, name := range []string{"resourcelist.xml", "sitemap.xml"} {
			guess := dir.JoinPath(name).String()
			if f.seen[guess] {
				continue
			}
			if err := f.try(guess); err != nil || f.usable() {
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

// try visits uri, if there is a document. It fails only if nobody answers.
func (f *finder) try(uri string) error {
	d, err := f.openDocument(uri)
	if err != nil {
		return f.unanswered(uri, err)
	}
	err = f.visit(d, true)
	_ = d.Close() // read as far as it was of use
	if err != nil {
		return f.unanswered(uri, err)
	}
	return nil
}

// unanswered returns err if there is no sense in asking that host for more,
// and notes it otherwise.
func (f *finder) unanswered(uri string, err error) error {
	var (
		failed *fetch.Error
		status *fetch.StatusError
	)
	answered := errors.As(err, &status) || errors.Is(err, fetch.ErrTooLarge)
	if f.ctx.Err() != nil || errors.As(err, &failed) && (!answered || failed.Tries >= fetch.MaxTries) {
		return err
	}
	if status != nil {
		f.step(uri, "answered with %v", status)
	} else {
		f.failed(uri, err)
	}
	return nil
}

// robots follows the Sitemap lines of robots.txt: first to Resource Lists
// (RS-DISC-09); plain Sitemaps serve where there is none.
func (f *finder) robots(at *url.URL) error {
	p, err := f.open(at.String())
	if err != nil {
		return f.unanswered(at.String(), err)
	}
	sitemaps := parseRobots(p.text, at)
	_ = p.close() // read as far as it was of use
	if len(sitemaps) == 0 {
		f.step(at.String(), "names no Sitemap")
		return nil
	}
	var plain []*Document
	defer func() {
		for _, d := range plain {
			_ = d.Close() // only its header was of use
		}
	}()
	for _, uri := range sitemaps {
		if f.seen[uri] {
			continue // its Source was reached from another one
		}
		f.step(at.String(), "names %s", uri)
		d, err := f.openDocument(uri)
		switch {
		case err != nil:
			if err := f.unanswered(uri, err); err != nil {
				return err
			}
		case d.Header.Capability == "":
			plain = append(plain, d)
		default:
			err := f.visit(d, true)
			_ = d.Close() // read as far as it was of use
			if err != nil {
				f.failed(uri, err)
			}
		}
	}
	if !f.usable() {
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
