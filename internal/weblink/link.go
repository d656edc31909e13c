// Package weblink reads and writes typed links (RFC 8288): the values of Link
// headers, and documents in link format (RFC 6690), which have the same syntax.
package weblink

import (
	"net/url"
	"slices"
	"strings"
)

// maxLinks caps the links taken from one header: each may cost requests.
const maxLinks = 100

// A Link is a typed link to another resource.
type Link struct {
	Rels   []string // relations, in lower case
	Target string   // resolved, if there was a base
	Anchor string   // the resource the link speaks of, if that is another than the one it came with
	Raw    string   // the whole link as it stood, parameters and all

	params []param // all but rel and anchor
}

// A param is a parameter of a link. Its name is in lower case.
type param struct{ name, value string }

// Has reports whether one of l's relations is rel, which is in lower case. A
// link that speaks of another resource has none.
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

// Parse reads the values of Link headers of the resource at base, at most 100
// links. Targets are resolved against base, and links whose anchor makes them
// speak of another resource are left out (RS-DISC-05). Without a base targets
// and anchors stay as they are written. What is malformed ends the reading of
// its value, not of the others.
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

// seenFrom returns the link as it is seen from the resource at base; not ok if
// it speaks of another one, or its target is no URI.
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

// Resolve returns ref as it is seen from base. What can be read once but not
// again ("//::" would become "http://::") is no URI. User name and password in it
// are taken off: they are for nobody, and would be shown.
func Resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(ref)
	if err != nil {
		return nil, err
	}
	u.User = nil
	return url.Parse(u.String())
}
