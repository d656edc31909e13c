package weblink

import "strings"

// maxParams caps the parameters stored of one link. Real links have fewer.
const maxParams = 20

// A rawLink is one link-value as written.
type rawLink struct {
	text, target, rel, anchor string
	anchored                  bool
	params                    []param
}

// A parser parses one header value, following RFC 8288, appendix B.2.
type parser struct {
	s string
	i int
}

func (p *parser) blanks() {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\t') {
		p.i++
	}
}

// take skips blanks and c, if c is next.
func (p *parser) take(c byte) bool {
	p.blanks()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// until advances to the first of the bytes in stop, or the end, and returns what
// it skipped.
func (p *parser) until(stop string) string {
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(stop, p.s[p.i]) < 0 {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *parser) next() (rawLink, bool) {
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
		switch {
		case name == "rel": // the first counts
			if !related {
				l.rel, related = value, true
			}
		case name == "anchor":
			if !l.anchored {
				l.anchor, l.anchored = value, true
			}
		case name != "" && len(l.params) < maxParams:
			l.params = append(l.params, param{name, value})
		}
	}
	l.text = strings.TrimRight(p.s[start:p.i], " \t")
	p.until(",") // empty if the value is well formed
	return l, true
}

func (p *parser) parameter() (name, value string) {
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

func (p *parser) quoted() string {
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
