package validate

import (
	"slices"
	"strings"

	"lockstep/resourcesync"
)

// An unusable lists the attributes whose values the Reader could not use, of the
// root or of one entry. The Reader then goes on as if they were missing; that is
// a consequence of what was found already, and no finding of its own.
type unusable struct {
	entry int // the number of entries in front
	names []string
}

// note takes up a warning about the element behind n entries.
func (u *unusable) note(n int, w resourcesync.Warning) {
	if n != u.entry {
		u.entry, u.names = n, u.names[:0]
	}
	if name, rest, _ := strings.Cut(w.Message, ` "`); strings.Contains(rest, `" is no `) && strings.HasSuffix(rest, ", ignored") {
		u.names = append(u.names, name)
	}
}

// has reports whether an attribute of the element behind n entries is there, but
// cannot be used.
func (u *unusable) has(n int, name string) bool {
	return n == u.entry && slices.Contains(u.names, name)
}

// missing names the attribute that a warning of a Reader calls missing, or "".
func missing(w resourcesync.Warning) string {
	switch w.Rule {
	case "RS-MD-13":
		return "at"
	case "RS-MD-14":
		return "from"
	case "RS-RDM-03":
		return "path"
	}
	return ""
}
