package discover

import (
	"errors"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"lockstep/atompmh"
	"lockstep/websub"
)

const (
	maxHTML    = 2 << 20   // bytes read of a page
	maxHTMLTag = 256 << 10 // bytes of one tag: an endless attribute must not fill memory
	maxLinks   = 100       // of one page: each may cost requests
)

// parseHTML returns the targets of a page's links with relation resourcesync,
// in order, each once (RS-DISC-06), and in the same way the Atom feeds it links
// to. It fails if r does: the unread part may contain a link.
func parseHTML(r io.Reader, base *url.URL) (found, feeds []string, err error) {
	seen := map[string]bool{}
	based := false
	z := html.NewTokenizer(io.LimitReader(r, maxHTML))
	z.SetMaxBuf(maxHTMLTag)
	for len(found) < maxLinks {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) && !errors.Is(err, html.ErrBufferExceeded) {
				return found, feeds, err
			}
			return found, feeds, nil
		case html.StartTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		name, more := z.TagName()
		tag := atom.Lookup(name)
		if tag != atom.Base && tag != atom.Link {
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
			seen[u.String()] = true
			found = append(found, u.String())
		case tag == atom.Link && hasToken(rel, atompmh.RelAlternate) && isAtom(media) && len(feeds) < maxFeeds && !seen[u.String()]:
			seen[u.String()] = true
			feeds = append(feeds, u.String())
		}
	}
	return found, feeds, nil
}

func hasToken(list, token string) bool {
	for t := range strings.FieldsSeq(list) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}
