package discover

import (
	"net/url"
	"strings"
)

// HeaderLink is a link as a test sees it.
type HeaderLink struct{ Rels, Target string }

func ParseLinks(values []string, base *url.URL) []HeaderLink {
	var out []HeaderLink
	for _, l := range parseLinks(values, base) {
		out = append(out, HeaderLink{strings.Join(l.rels, " "), l.target})
	}
	return out
}

var (
	ParseRobots = parseRobots
	ParseHTML   = parseHTML
)
