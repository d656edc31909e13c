package validate

import (
	"slices"
	"strings"

	"lockstep/resourcesync"
)

// An unusable lists the attributes whose values the Reader could not use, of the
// root or of one entry. The Reader continues as if they were missing; that is a
// consequence of an earlier finding and no separate one.
type unusable struct {
	entry int // the number of preceding entries
	names []string
}

// note records a warning about the element after n entries.
func (u *unusable) note(n int, w resourcesync.Warning) {
	if n != u.entry {
		u.entry, u.names = n, u.names[:0]
	}
	if name, rest, _ := strings.Cut(w.Message, ` "`); strings.Contains(rest, `" is no `) && strings.HasSuffix(rest, ", ignored") {
		u.names = append(u.names, name)
	}
}

// has reports whether an attribute of the element after n entries is present but
// unusable.
func (u *unusable) has(n int, name string) bool {
	return n == u.entry && slices.Contains(u.names, name)
}

// missing returns the attribute that a Reader's warning reports as missing, or
// "".
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
