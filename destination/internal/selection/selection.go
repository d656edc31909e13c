// Package selection decides which resources of a Source a mirror has, in which
// representation, and from which hosts they may be fetched.
package selection

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Selection determines which of the Source's resources are mirrored, and which of
// those may be fetched.
type Selection struct {
	include, exclude, types []string
	filters                 []Filter
	sizes                   sizes
	ages                    ages
	since                   time.Time
	hosts                   []string
	prefer                  []string // in order
	with                    []string // relations
	Key                     string   // differs between selections that may select differently
}

// Rules are the settings of a user.
type Rules struct {
	Include, Exclude, Types []string // globs
	Filters                 []Filter // the first that matches decides
	MinSize, MaxSize        int64    // stated lengths; MaxSize 0: any
	MinAge, MaxAge          time.Duration
	Since                   time.Time
	Hosts                   []string // allowed in addition to that of the Source
	Prefer                  []string // globs of media types, the first ones before others
	With                    []string // relations of links to resources that are selected with the one that has them
}

// New returns the selection that has these rules. It returns an error for
// a glob or a host that is not valid.
func New(o Rules) (*Selection, error) {
	s := &Selection{include: o.Include, exclude: o.Exclude, types: o.Types, since: o.Since, hosts: o.Hosts, prefer: o.Prefer, with: o.With,
		filters: flatten(o.Filters), sizes: sizes{o.MinSize, o.MaxSize}, ages: ages{o.MinAge, o.MaxAge}}
	if err := errors.Join(checkFilters(o.Filters), s.sizes.check(), s.ages.check()); err != nil {
		return nil, err
	}
	for _, list := range [][]string{s.include, s.exclude, s.types, s.prefer} {
		for _, glob := range list {
			if !doublestar.ValidatePattern(glob) {
				return nil, fmt.Errorf("pattern %q: not a valid glob", glob)
			}
		}
	}
	for _, rel := range s.with {
		if rel != resourcesync.RelDescribedBy {
			return nil, fmt.Errorf("with %q: want %s", rel, resourcesync.RelDescribedBy)
		}
	}
	for _, host := range s.hosts {
		if err := checkHost(host); err != nil {
			return nil, err
		}
	}
	h := sha256.New()
	for _, list := range [][]string{s.include, s.exclude, s.types, s.hosts} {
		list = slices.Clone(list)
		slices.Sort(list)
		fmt.Fprintf(h, "%q;", list)
	}
	if !s.since.IsZero() {
		fmt.Fprintf(h, "since %d;", s.since.UnixNano())
	}
	for _, f := range o.Filters { // in this order
		fmt.Fprintf(h, "filter %t %q;", f.Include, f.Glob)
	}
	if s.sizes != (sizes{}) {
		fmt.Fprintf(h, "sizes %d to %d;", s.sizes.min, s.sizes.max)
	}
	if s.ages != (ages{}) {
		fmt.Fprintf(h, "ages %s to %s;", s.ages.min, s.ages.max)
	}
	if len(s.with) > 0 {
		fmt.Fprint(h, "with describedby;")
	}
	s.Key = hex.EncodeToString(h.Sum(nil)[:8])
	if len(s.prefer) > 0 { // in this order
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", s.prefer))
		s.Key += "+" + hex.EncodeToString(sum[:8])
	}
	return s, nil
}

// checkHost returns an error for an allowed host that no address can have.
func checkHost(host string) error {
	if host == "*" || net.ParseIP(host) != nil {
		return nil
	}
	u, err := url.Parse("http://" + host)
	if err == nil && u.Hostname() != "" && u.Host == host && !strings.ContainsAny(host, "*, ") && !strings.HasSuffix(host, ":") {
		return nil
	}
	return fmt.Errorf("allow-host %q: want a host, as example.org or example.org:8080, or * for any", fetch.WithoutUser(host))
}

// Selects reports whether the resource w is selected. One that was selected by
// this selection before, and of which the Source now states no type, stays.
func (s *Selection) Selects(w *desired.Resource, before bool) bool {
	if !s.wantsURI(w.URI) || s.isOld(w.Lastmod) || !w.Gone && !s.sizes.contain(w.Length) {
		return false
	}
	if len(s.types) == 0 || w.Gone || w.Type == "" && before {
		return true
	}
	t := mediaType(w)
	return t != "" && matchAny(s.types, t)
}

// SelectsWith reports whether the resource w, which another resource names as its
// description, is selected with that one (RS-REL-40). Exclude prevails.
func (s *Selection) SelectsWith(w *desired.Resource) bool {
	return len(s.with) > 0 && !matchAny(s.exclude, w.URI)
}

// IsIndependent reports whether each resource is selected on its own, and mirrored in its
// own representation.
func (s *Selection) IsIndependent() bool { return len(s.prefer) == 0 && len(s.with) == 0 }

// Companions returns the URIs of the resources that are selected with w, if w is
// selected.
func (s *Selection) Companions(w *desired.Resource) (uris []string) {
	if len(s.with) == 0 || w.Gone || !s.Selects(w, false) {
		return nil
	}
	for i := range w.Links {
		if l := &w.Links[i]; slices.Contains(s.with, l.Rel) && l.Href != w.URI {
			uris = append(uris, l.Href)
		}
	}
	return uris
}

// Restricts reports whether what is selected should be something: nothing may have
// changed since a time.
func (s *Selection) Restricts() bool {
	return (len(s.include)+len(s.exclude)+len(s.types)+len(s.filters) > 0 || s.sizes != sizes{}) && s.since.IsZero() && s.ages == ages{}
}

// IsAll reports whether everything is selected, and nothing preferred.
func (s *Selection) IsAll() bool {
	return len(s.include)+len(s.exclude)+len(s.types)+len(s.filters)+len(s.prefer) == 0
}

// MaySelect reports whether a held resource of which the Source says nothing may
// be selected, as far as we know.
func (s *Selection) MaySelect(h *journal.Held) bool {
	if len(s.with) > 0 && !matchAny(s.exclude, h.URI) && slices.ContainsFunc(h.Links, func(l resourcesync.Link) bool { return l.Rel == "describes" }) {
		return true
	}
	return s.wantsURI(h.URI) && !s.isOld(resourcesync.NewDatetime(h.Lastmod))
}

func (s *Selection) wantsURI(uri string) bool {
	return (len(s.include) == 0 || matchAny(s.include, uri)) && !matchAny(s.exclude, uri) && s.passes(uri)
}

// isOld reports whether all of the time a lastmod denotes, which may be a day
// or a year, is too long ago. The age of a resource without one is unknown.
func (s *Selection) isOld(lastmod resourcesync.Datetime) bool {
	if s.since.IsZero() || lastmod.IsZero() {
		return false
	}
	if lastmod.Granularity() == resourcesync.Nanosecond {
		return lastmod.Time().Before(s.since)
	}
	return !endOf(lastmod).After(s.since)
}

// endOf returns the end of the time that a lastmod denotes, which may be a day or a year.
func endOf(lastmod resourcesync.Datetime) time.Time {
	t := lastmod.Time()
	switch lastmod.Granularity() {
	case resourcesync.Second:
		t = t.Add(time.Second)
	case resourcesync.Minute:
		t = t.Add(time.Minute)
	case resourcesync.Day:
		t = t.AddDate(0, 0, 1)
	case resourcesync.Month:
		t = t.AddDate(0, 1, 0)
	case resourcesync.Year:
		t = t.AddDate(1, 0, 0)
	}
	return t
}

// mediaType is the type the Source states, else the one the URI looks like.
func mediaType(w *desired.Resource) string {
	t := w.Type
	if t == "" {
		p := w.URI
		if u, err := url.Parse(w.URI); err == nil {
			p = u.Path
		}
		t = mime.TypeByExtension(path.Ext(p))
	}
	return content.TypeOnly(t)
}

// matchAny matches globs in which * and ** cross slashes alike: what people
// write for a URI does not count its segments.
func matchAny(globs []string, s string) bool {
	for _, g := range globs {
		if ok, _ := doublestar.Match(flat.Replace(g), flat.Replace(s)); ok { // patterns were validated
			return true
		}
	}
	return false
}

// flat takes the slashes out of sight of the globs.
var flat = strings.NewReplacer("/", "\x01")

// Refuse says why the resource at uri must not be fetched on the word of the
// document at doc, or returns "" (RS-SEC-01).
func (s *Selection) Refuse(uri string, doc *url.URL) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return "not an absolute http or https URI"
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme != "http" && scheme != "https":
		return "scheme " + fetch.Printable(u.Scheme) + " is neither http nor https"
	case scheme == "http" && doc.Scheme == "https":
		return "http, although the list came by https"
	}
	if fetch.WithinHost(u, doc) {
		return ""
	}
	if doc.Scheme == "file" {
		return "" // the user's own file names whom the user likes
	}
	for _, h := range s.hosts {
		if fetch.Allows(h, u) {
			return ""
		}
	}
	return fmt.Sprintf("outside the Source's host %s; allow it with --allow-host %s", fetch.Printable(fetch.HostPort(doc)), fetch.Printable(fetch.HostPort(u)))
}
