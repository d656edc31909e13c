package feed

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"lockstep/internal/xmlscan"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
)

// A link is a link of Atom.
type link struct{ rel, href, media, lang string }

// ianaRelation is how a registered relation may be written in full (RFC 4287,
// 4.2.7.2).
const ianaRelation = "http://www.iana.org/assignments/relation/"

var mediaType = regexp.MustCompile(`^[\w!#$&^.+-]+/[\w!#$&^.+-]+\s*(;.*)?$`)

// link reads the current link; its href is resolved (AP-DOC-12).
func (r *reader) link(base, at string) (link, error) {
	r.rebase(&base)
	l := link{rel: "alternate"}
	for _, a := range []struct {
		name string
		to   *string
	}{{"rel", &l.rel}, {"href", &l.href}, {"type", &l.media}, {"hreflang", &l.lang}} {
		if v, ok := r.Attr(a.name); ok {
			*a.to = string(v)
		}
	}
	l.rel = strings.TrimPrefix(l.rel, ianaRelation)
	if rel := strings.ToLower(l.rel); !strings.Contains(rel, ":") {
		l.rel = rel
	}
	if _, ok := r.Attr("href"); !ok {
		r.found.Errorf("AP-DOC-01", at, "link without href")
	} else if to := resolveFrom(base, l.href); to == "" || strings.ContainsAny(l.href, " \t\r\n") {
		r.found.Errorf("AP-DOC-01", at, "href %q is no IRI", finding.Printable(l.href))
	} else {
		l.href = to
	}
	if l.rel == "" {
		r.found.Errorf("AP-DOC-01", at, "rel is empty")
	}
	if l.media != "" && !mediaType.MatchString(l.media) {
		r.found.Errorf("AP-DOC-01", at, "type %q is no media type", finding.Printable(l.media))
	}
	return l, r.Skip()
}

// resolveFrom is resolve, but returns a reference unchanged if its base is
// unknown, as in a file.
func resolveFrom(base, ref string) string {
	if to := visit.Resolve(base, ref); to != "" {
		return to
	}
	if b, err := url.Parse(base); err == nil && b.IsAbs() {
		return ""
	}
	u, err := url.Parse(ref)
	switch {
	case err != nil:
		return ""
	case ref == "": // the document itself
		return base
	}
	u.User = nil // as in resolve
	return u.String()
}

// rebase applies xml:base of the current tag.
func (r *reader) rebase(base *string) {
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Space == xmlscan.XML && string(a.Local) == "base" {
			if to := resolveFrom(*base, string(a.Value)); to != "" {
				*base = to
			}
		}
	}
}

// person reads an author or contributor (RFC 4287, 3.2).
func (r *reader) person(name, at string) error {
	names := 0
	for {
		m, err := r.Next()
		switch {
		case err != nil:
			return err
		case m == xmlscan.End:
			if names != 1 {
				r.found.Errorf("AP-DOC-01", at, "%s has %s", name, finding.NotOne(names, "name"))
			}
			return nil
		}
		if r.Space == inAtom && string(r.Local) == "name" {
			names++
		}
		if err := r.Skip(); err != nil {
			return err
		}
	}
}

// text reads a text (RFC 4287, 3.1).
func (r *reader) text(name, at string) error {
	if t, ok := r.Attr("type"); ok {
		switch string(t) {
		case "text", "html", "xhtml":
		default:
			r.found.Errorf("AP-DOC-01", at, "type of %s is %q, not text, html or xhtml", name, finding.Printable(string(t)))
		}
	}
	return r.Skip()
}

// iri reads an id.
func (r *reader) iri(at string) (string, error) {
	text, raw, err := r.Text()
	if err != nil {
		return "", err
	}
	id := string(text)
	switch {
	case !visit.IsIRI(id):
		r.found.Errorf("AP-DOC-09", at, "id %q is no absolute IRI", finding.Printable(id))
	case len(raw) != len(text):
		r.found.Errorf("AP-DOC-09", at, "id %s has white space around it", finding.Printable(id))
	}
	return id, nil
}

// date reads a time; zero if it is invalid.
func (r *reader) date(at string) (time.Time, error) {
	text, raw, err := r.Text()
	if err != nil {
		return time.Time{}, err
	}
	t, ok := parseDate(string(text))
	switch {
	case !ok:
		r.found.Errorf("AP-DOC-08", at, "%q is no time by RFC 3339 with T, and Z or an offset", finding.Printable(string(text)))
	case len(raw) != len(text):
		r.found.Errorf("AP-DOC-08", at, "%s has white space around it", finding.Printable(string(text)))
	}
	return t, nil
}

var dateForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// parseDate parses a time in the form of Atom (AP-DOC-08).
func parseDate(s string) (time.Time, bool) {
	if !dateForm.MatchString(s) {
		return time.Time{}, false
	}
	if s[17:19] == "60" { // a leap second, which Go cannot represent
		s = s[:17] + "59" + s[19:]
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// elsewhere reports whether uri is a web address that differs from all others,
// regardless of spelling. It returns false if these are not web addresses.
func elsewhere(uri string, others ...string) bool {
	plain := plainAddress(uri)
	for _, other := range others {
		if other := plainAddress(other); plain == "" || other == "" || plain == other {
			return false
		}
	}
	return true
}

// plainAddress returns a web address in a canonical spelling; "" for other
// URIs.
func plainAddress(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	u.Host, u.Fragment = strings.ToLower(u.Host), ""
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Scheme + "://" + u.Host + path.Join("/", u.Path) + "?" + u.RawQuery
}
