package intake

import (
	"strings"

	"lockstep/intake/internal/filestat"
)

// stateDir is the name of the directories in which lockstep keeps its own state:
// the journal and the earlier versions of a mirror, unfinished documents of a
// Source. They are never published, at any depth, nor is a file that a symbolic
// link inside one leads to.
const stateDir = ".lockstep"

// maxLinks is how many symbolic links are followed on the way to a file; the
// system follows no more either.
const maxLinks = 40

// inStateDir reports whether a directory on the way to the file at rel is a state
// directory.
func inStateDir(rel string) bool { return strings.Contains("/"+rel, "/"+stateDir+"/") }

// leadsToState reports whether the symbolic link at rel leads into a state
// directory, perhaps by way of other links. Of a link that leads nowhere, or out
// of the root, it reports false: opening it says what is wrong.
func leadsToState(t tree, rel string) bool {
	var at string // resolved so far
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
		case st.Kind == filestat.Dir && name == stateDir:
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
