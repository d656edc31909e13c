package websub

import (
	"net/url"
	"slices"
	"strings"
)

// maxLinks caps the links taken from one header or page: each may cost requests.
const maxLinks = 100

// A Link is a typed link to another resource, as a Link header has it
// (RFC 8288).
type Link struct {
	Rels   []string // relations, in lower case
	Target string   // resolved, if there was a base
	Anchor string   // the resource the link speaks of, if that is another than the one it came with
	Raw    string   // the whole link as it stood, parameters and all
}

// Has reports whether one of l's relations is rel, which is in lower case. A
// link that speaks of another resource has none.
func (l Link) Has(rel string) bool {
	return l.Anchor == "" && slices.Contains(l.Rels, rel)
}

// ParseLinks reads the values of Link headers of the resource at base, at most
// 100 links. Targets are resolved against base, and links whose anchor makes
// them speak of another resource are left out (RS-DISC-05). Without a base
// targets and anchors stay as they are written. What is malformed ends the
// reading of its value, not of the others.
func ParseLinks(values []string, base *url.URL) []Link {
	var links []Link
	for _, v := range values {
		p := linkParser{s: v}
		for len(links) < maxLinks {
			raw, ok := p.next()
			if !ok {
				break
			}
			l := Link{Rels: strings.Fields(strings.ToLower(raw.rel)), Target: strings.TrimSpace(raw.target), Anchor: raw.anchor, Raw: raw.text}
			if base != nil {
				target, err := Resolve(base, l.Target)
				if err != nil || raw.anchored && !sameResource(base, raw.anchor) {
					continue
				}
				l.Target, l.Anchor = target.String(), ""
			}
			links = append(links, l)
		}
	}
	return links
}

// LinkHeader returns the value of a Link header that names the topic self and
// its hubs, in one field (WS-C-03). What has no place in a URI is escaped, so
// that no address can end its link.
func LinkHeader(self string, hubs []string) string {
	var b strings.Builder
	for _, h := range hubs {
		writeLink(&b, h, "hub")
	}
	if self != "" {
		writeLink(&b, self, "self")
	}
	return b.String()
}

func writeLink(b *strings.Builder, target, rel string) {
	const hex = "0123456789ABCDEF"
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteByte('<')
	for i := range len(target) {
		switch c := target[i]; {
		case c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '"':
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString(`>; rel="` + rel + `"`)
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
	text, target, rel, anchor string
	anchored                  bool
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
	start := p.i - 1
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
	l.text = strings.TrimRight(p.s[start:p.i], " \t")
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

// Resolve returns ref as it is seen from base. What can be read once but not
// again ("//::" would become "http://::") is no URI.
func Resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(ref)
	if err != nil {
		return nil, err
	}
	return url.Parse(u.String())
}
