package discover

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"lockstep/atompmh"
	"lockstep/websub"
)

const (
	maxHTML  = 2 << 20 // bytes read of a page: an endless one must not fill memory
	maxLinks = 100     // of one page: each may cost requests
)

// parseHTML returns the targets of a page's links with relation resourcesync,
// in order, each once (RS-DISC-06), and in the same way the Atom feeds it links
// to. It fails if r does: the unread part may contain a link. The error is a
// [*limitError] if there are more than maxLinks, or if the head of the page is not
// within the first maxHTML bytes; a body that is longer need not be read.
func parseHTML(r io.Reader, base *url.URL) (found, feeds []string, err error) {
	seen := map[string]bool{}
	based := false
	var place htmlPlace
	z := html.NewTokenizer(&limitedReader{r, maxHTML, maxHTML})
	for {
		token := z.Next()
		if token == html.ErrorToken {
			err := z.Err()
			var limit *limitError
			if errors.Is(err, io.EOF) || errors.As(err, &limit) && place.body {
				err = nil
			}
			return found, feeds, err
		}
		if token != html.StartTagToken && token != html.SelfClosingTagToken && token != html.EndTagToken || !bytes.HasSuffix(z.Raw(), []byte(">")) {
			continue // no tag, or only the beginning of one
		}
		name, more := z.TagName()
		tag := atom.Lookup(name)
		place.pass(tag, token == html.EndTagToken)
		if token == html.EndTagToken || tag != atom.Base && tag != atom.Link {
			continue
		}
		href, rel, media := "", "", ""
		for more {
			var k, v []byte
			k, v, more = z.TagAttr()
			switch string(k) {
			case "href":
				href = strings.TrimSpace(string(v))
			case "rel":
				rel = string(v)
			case "type":
				media = string(v)
			}
		}
		u, err := websub.Resolve(base, href)
		if href == "" || err != nil {
			continue
		}
		switch {
		case tag == atom.Base && !based: // the first counts
			base, based = u, true
		case tag == atom.Link && hasToken(rel, "resourcesync") && !seen[u.String()]:
			if len(found) == maxLinks {
				return found, feeds, &limitError{fmt.Sprintf("more than %d links to ResourceSync documents", maxLinks)}
			}
			seen[u.String()] = true
			found = append(found, u.String())
		case tag == atom.Link && hasToken(rel, atompmh.RelAlternate) && isAtom(media) && len(feeds) < maxFeeds && !seen[u.String()]:
			seen[u.String()] = true
			feeds = append(feeds, u.String())
		}
	}
}

// An htmlPlace is a position in a page.
type htmlPlace struct {
	body   bool      // the head has ended, as HTML defines it: at its end tag, or at an element that a head cannot have
	within atom.Atom // element of the head whose content does not end it; 0: none
}

// pass moves to the position after a tag.
func (p *htmlPlace) pass(tag atom.Atom, end bool) {
	switch {
	case p.within != 0:
		if end && tag == p.within {
			p.within = 0
		}
	case end:
		p.body = p.body || tag == atom.Head
	case tag == atom.Noscript, tag == atom.Template:
		p.within = tag
	default:
		p.body = p.body || !inHead(tag)
	}
}

// inHead reports whether an element may be in the head of a page.
func inHead(tag atom.Atom) bool {
	switch tag {
	case atom.Html, atom.Head, atom.Base, atom.Link, atom.Meta, atom.Script, atom.Style, atom.Title,
		atom.Basefont, atom.Bgsound, atom.Noframes:
		return true
	}
	return false
}

func hasToken(list, token string) bool {
	for t := range strings.FieldsSeq(list) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}
