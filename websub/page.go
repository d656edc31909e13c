package websub

import (
	"bytes"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxPage = 2 << 20   // bytes examined of a page or feed
	maxTag  = 256 << 10 // bytes of one tag: an endless attribute must not fill memory
)

// links are the addresses found for the two relevant relations, resolved, in
// order, each once.
type links struct {
	hubs, selfs []string
}

// add adds a link as written in a document at base.
func (l *links) add(base *url.URL, rels, href string) {
	href = strings.TrimSpace(href)
	if href == "" || len(l.hubs)+len(l.selfs) >= maxLinks {
		return
	}
	for rel := range strings.FieldsSeq(strings.ToLower(rels)) {
		if rel != "hub" && rel != "self" {
			continue
		}
		u, err := Resolve(base, href)
		if err != nil {
			return
		}
		if u, err = parseHTTP(u.String()); err != nil {
			return
		}
		if rel == "hub" {
			l.hubs = appendNew(l.hubs, u.String())
		} else {
			l.selfs = appendNew(l.selfs, u.String())
		}
	}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// headerLinks returns the links of Link header fields.
func headerLinks(values []string, base *url.URL) links {
	var l links
	for _, link := range ParseLinks(values, base) {
		if link.Anchor == "" {
			l.add(base, strings.Join(link.Rels, " "), link.Target)
		}
	}
	return l
}

// bodyLinks returns the links of a feed or a page; its root element determines
// which it is, regardless of its Content-Type (WS-D-13).
func bodyLinks(r io.Reader, base *url.URL, inBody bool) (links, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPage))
	if err != nil {
		return links{}, err
	}
	if l, ok := feedLinks(text, base); ok {
		return l, nil
	}
	return htmlLinks(text, base, inBody), nil
}

// htmlLinks returns the links in the head of a page, or in all of it: its body
// may contain links by users (WS-D-12).
func htmlLinks(text []byte, base *url.URL, inBody bool) links {
	var l links
	p := &page{links: &l, base: base, inBody: inBody}
	z := html.NewTokenizer(bytes.NewReader(text))
	z.SetMaxBuf(maxTag)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return l
		case html.TextToken:
			if p.raw == 0 && p.inert == 0 && len(bytes.TrimSpace(z.Text())) > 0 && !inBody {
				return l // it is not allowed in the head: the body begins
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			if !p.start(z) {
				return l
			}
		case html.EndTagToken:
			if !p.end(z) {
				return l
			}
		}
	}
}

// A page is the state of parsing one.
type page struct {
	links  *links
	base   *url.URL
	based  bool // there was a base element: the first counts
	inBody bool
	raw    atom.Atom // the open element whose content is neither markup nor text of the page
	inert  int       // open template elements: their content is not part of the page
}

// start handles a start tag, and end an end tag. They report whether to
// continue.
func (p *page) start(z *html.Tokenizer) bool {
	name, more := z.TagName()
	tag := atom.Lookup(name)
	switch tag {
	case atom.Html, atom.Head, atom.Basefont, atom.Bgsound, atom.Meta:
	case atom.Script, atom.Style, atom.Title, atom.Noframes, atom.Noscript:
		p.raw = tag
	case atom.Template:
		p.inert++
	case atom.Base, atom.Link:
		if p.inert > 0 {
			break
		}
		rel, href := attributes(z, more)
		if tag == atom.Link {
			p.links.add(p.base, rel, href)
		} else if u, err := Resolve(p.base, href); href != "" && err == nil && !p.based {
			p.base, p.based = u, true
		}
	default: // the body begins
		return p.inBody || p.inert > 0
	}
	return true
}

func (p *page) end(z *html.Tokenizer) bool {
	name, _ := z.TagName()
	switch tag := atom.Lookup(name); tag {
	case p.raw:
		p.raw = 0
	case atom.Template:
		p.inert = max(p.inert-1, 0)
	case atom.Head:
		return p.inBody
	}
	return true
}

func attributes(z *html.Tokenizer, more bool) (rel, href string) {
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch string(k) {
		case "href":
			href = strings.TrimSpace(string(v))
		case "rel":
			rel = string(v)
		}
	}
	return rel, href
}
