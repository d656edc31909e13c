package mirror

import (
	"strings"

	"lockstep/discover"
)

// ParseForeign returns what an address says by its prefix that it is, without asking
// anybody; ok is false for one without a prefix.
func ParseForeign(address string) (f discover.Foreign, ok bool) {
	kind, uri := discover.Prefix(address)
	if kind == "" || uri == "" {
		return f, false
	}
	if !strings.Contains(uri, "://") {
		uri = "https://" + uri // as people write addresses
	}
	return discover.Foreign{Kind: kind, URI: uri}, true
}
