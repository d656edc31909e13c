package websub

import (
	"net/url"

	"lockstep/internal/weblink"
)

// maxLinks caps the links taken from one page: each may cost requests.
const maxLinks = 100

// A Link is a typed link to another resource, as a Link header has it
// (RFC 8288).
type Link = weblink.Link

// ParseLinks reads the values of Link headers of the resource at base, at most
// 100 links. Targets are resolved against base, and links whose anchor makes
// them speak of another resource are left out (RS-DISC-05). Without a base
// targets and anchors stay as they are written. What is malformed ends the
// reading of its value, not of the others.
func ParseLinks(values []string, base *url.URL) []Link { return weblink.Parse(values, base) }

// LinkHeader returns the value of a Link header that names the topic self and
// its hubs, in one field (WS-C-03). What has no place in a URI is escaped, so
// that no address can end its link.
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

// Resolve returns ref as it is seen from base. What can be read once but not
// again ("//::" would become "http://::") is no URI.
func Resolve(base *url.URL, ref string) (*url.URL, error) { return weblink.Resolve(base, ref) }
