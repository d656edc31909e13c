package discover

import (
	"net/url"
	"strings"
)

// Link is a link as a test sees it.
type Link struct{ Rels, Target string }

func ParseLinks(values []string, base *url.URL) []Link {
	var out []Link
	for _, l := range parseLinks(values, base) {
		out = append(out, Link{strings.Join(l.rels, " "), l.target})
	}
	return out
}

var (
	ParseRobots = parseRobots
	ParseHTML   = parseHTML
)
