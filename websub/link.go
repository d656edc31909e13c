package websub

import (
	"net/url"

	"lockstep/internal/weblink"
)

// maxLinks caps the links read from one page: each may cost requests.
const maxLinks = 100

// A Link is a typed link to another resource, as in a Link header (RFC 8288).
type Link = weblink.Link

// ParseLinks parses the values of Link headers of the resource at base, at most
// 100 links. It resolves targets against base and omits links whose anchor
// makes another resource their context (RS-DISC-05). Without a base it returns
// targets and anchors unchanged. A syntax error ends the parsing of its value,
// not of the others.
func ParseLinks(values []string, base *url.URL) []Link { return weblink.Parse(values, base) }

// LinkHeader returns the value of a Link header that names the topic self and
// its hubs, in one field (WS-C-03). It escapes characters that are invalid in a
// URI, so that no address can end its link.
func LinkHeader(self string, hubs []string) string {
	var b []byte
	for _, h := range hubs {
		b = weblink.Append(b, h, "rel", "hub")
	}
	if self != "" {
		b = weblink.Append(b, self, "rel", "self")
	}
	return string(b)
}

// Resolve returns ref resolved against base. A result that cannot be parsed
// again ("//::" would become "http://::") is an error.
func Resolve(base *url.URL, ref string) (*url.URL, error) { return weblink.Resolve(base, ref) }
