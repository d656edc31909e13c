package dir

import (
	"strings"

	"lockstep/intake/internal/filestat"
	"lockstep/intake/internal/pathname"
)

// maxLinks is how many symbolic links are followed on the way to a file; the
// system does not follow more either.
const maxLinks = 40

// leadsToState reports whether the symbolic link at rel leads into a state
// directory, possibly through other links. For a link that leads nowhere, or out of
// the root, it reports false: opening it reports the error.
func leadsToState(t tree, rel string) bool {
	var at string // the part that is already resolved
	links := 0
	for rest := strings.Split(rel, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return false
			}
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
			continue
		}
		path := name
		if at != "" {
			path = at + "/" + name
		}
		st, err := t.lstat(path)
		switch {
		case err != nil:
			return false
		case st.Kind == filestat.Dir && name == pathname.StateDir:
			return true
		case st.Kind != filestat.Link:
			at = path
			continue
		}
		target, err := t.readlink(path)
		if links++; err != nil || links > maxLinks || strings.HasPrefix(target, "/") {
			return false
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return false
}
