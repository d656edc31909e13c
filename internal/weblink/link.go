// Package weblink reads and writes typed links (RFC 8288): the values of Link
// headers, and documents in link format (RFC 6690), which have the same syntax.
package weblink

import (
	"net/url"
	"slices"
	"strings"
)

// maxLinks caps the links read from one header: each may cost requests.
const maxLinks = 100

// A Link is a typed link to another resource.
type Link struct {
	Rels   []string // relations, in lower case
	Target string   // resolved, if there was a base
	Anchor string   // the context of the link, if it is another resource than the one that sent it
	Raw    string   // the whole link as written, including parameters

	params []param // all except rel and anchor
}

// A param is a parameter of a link. Its name is in lower case.
type param struct{ name, value string }

// Has reports whether one of l's relations is rel, which is in lower case. It
// returns false for a link whose context is another resource.
func (l Link) Has(rel string) bool {
	return l.Anchor == "" && slices.Contains(l.Rels, rel)
}

// Param returns the value of the first parameter called name, in lower case;
// "" if there is none.
func (l Link) Param(name string) string {
	for _, p := range l.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// Parse parses the values of Link headers of the resource at base, at most 100
// links. It resolves targets against base and omits links whose anchor makes
// another resource their context (RS-DISC-05). Without a base it returns
// targets and anchors unchanged. A syntax error ends the parsing of its value,
// not of the others.
func Parse(values []string, base *url.URL) []Link {
	var links []Link
	for _, v := range values {
		p := parser{s: v}
		for len(links) < maxLinks {
			raw, ok := p.next()
			if !ok {
				break
			}
			if l, ok := raw.seenFrom(base); ok {
				links = append(links, l)
			}
		}
	}
	return links
}

// seenFrom returns the link relative to the resource at base; not ok if its
// context is another resource, or its target is not a URI.
func (raw *rawLink) seenFrom(base *url.URL) (Link, bool) {
	l := Link{
		Rels: strings.Fields(strings.ToLower(raw.rel)), Target: strings.TrimSpace(raw.target), Anchor: raw.anchor,
		Raw: raw.text, params: raw.params,
	}
	if base == nil {
		return l, true
	}
	target, err := Resolve(base, l.Target)
	if err != nil || raw.anchored && !sameResource(base, raw.anchor) {
		return l, false
	}
	l.Target, l.Anchor = target.String(), ""
	return l, true
}

func sameResource(base *url.URL, anchor string) bool {
	u, err := base.Parse(anchor)
	if err != nil {
		return false
	}
	b := *base
	b.Fragment, b.RawFragment = "", ""
	return u.String() == b.String()
}

// Resolve returns ref resolved against base. A result that cannot be parsed again
// ("//::" would become "http://::") is an error. It removes user name and
// password, which must not be displayed.
func Resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(ref)
	if err != nil {
		return nil, err
	}
	u.User = nil
	return url.Parse(u.String())
}
