package discover

import (
	"net/url"
	"strings"
)

// maxLinks caps the links taken from one header or page: each may cost requests.
const maxLinks = 100

// A link is a typed link to another document, its target resolved.
type link struct {
	rels   []string // in lower case
	target string
}

// has reports whether one of l's relations is rel.
func (l link) has(rel string) bool {
	for _, r := range l.rels {
		if r == rel {
			return true
		}
	}
	return false
}

// parseLinks reads the values of Link headers (RFC 8288) of the resource at
// base. Links whose anchor makes them speak of another resource are left out
// (RS-DISC-05). What is malformed ends the reading of its value, not of the
// others.
func parseLinks(values []string, base *url.URL) []link {
	var links []link
	for _, v := range values {
		p := linkParser{s: v}
		for len(links) < maxLinks {
			raw, ok := p.next()
			if !ok {
				break
			}
			target, err := resolve(base, strings.TrimSpace(raw.target))
			if err != nil || raw.anchored && !sameResource(base, raw.anchor) {
				continue
			}
			links = append(links, link{strings.Fields(strings.ToLower(raw.rel)), target.String()})
		}
	}
	return links
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

// A rawLink is one link-value as it stands.
type rawLink struct {
	target, rel, anchor string
	anchored            bool
}

// A linkParser walks over one header value, after RFC 8288, appendix B.2.
type linkParser struct {
	s string
	i int
}

func (p *linkParser) blanks() {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\t') {
		p.i++
	}
}

// take moves over c, if it is next after blanks.
func (p *linkParser) take(c byte) bool {
	p.blanks()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// until moves to the first of the bytes in stop, or the end, over what it returns.
func (p *linkParser) until(stop string) string {
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(stop, p.s[p.i]) < 0 {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *linkParser) next() (rawLink, bool) {
	for p.take(',') {
	}
	if !p.take('<') {
		return rawLink{}, false
	}
	l := rawLink{target: p.until(">")}
	if !p.take('>') {
		return rawLink{}, false
	}
	related := false
	for p.take(';') {
		name, value := p.parameter()
		switch name {
		case "rel": // the first counts
			if !related {
				l.rel, related = value, true
			}
		case "anchor":
			if !l.anchored {
				l.anchor, l.anchored = value, true
			}
		}
	}
	p.until(",") // nothing, if the value is well formed
	return l, true
}

func (p *linkParser) parameter() (name, value string) {
	p.blanks()
	name = strings.ToLower(strings.TrimRight(p.until("=;, \t"), " \t"))
	if !p.take('=') {
		return name, ""
	}
	p.blanks()
	if p.i < len(p.s) && p.s[p.i] == '"' {
		return name, p.quoted()
	}
	return name, strings.TrimRight(p.until(";,"), " \t")
}

func (p *linkParser) quoted() string {
	var b strings.Builder
	for p.i++; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == '\\' && p.i+1 < len(p.s):
			p.i++
			b.WriteByte(p.s[p.i])
		case c == '"':
			p.i++
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// resolve returns ref as it is seen from base. What can be read once but not
// again ("//::" would become "http://::") is no URI.
func resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(ref)
	if err != nil {
		return nil, err
	}
	return url.Parse(u.String())
}
