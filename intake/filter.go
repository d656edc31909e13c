package intake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lockstep/intake/internal/filestat"
)

// Why a name is passed over; the Err of a [Problem] among the skipped.
var (
	errReserved = errors.New("hidden by our own documents")
	errState    = errors.New("lockstep keeps its state there and never publishes it")
	errLinkOwn  = errors.New("symbolic link into a directory where lockstep keeps its state")
	errLinkDir  = errors.New("symbolic link to a directory")
	errLinkOut  = errors.New("symbolic link leads outside the directory")
	errLinkGone = errors.New("symbolic link to nothing")
	errSpecial  = errors.New("neither file nor directory")
)

// A glob is one include or exclude pattern.
type glob struct {
	pattern string
	path    bool // matched against the whole relative path, else the last element
	dirOnly bool // written with a slash at the end
	plain   bool // without any metacharacter
}

// filter decides by name alone what is looked at.
type filter struct {
	include, exclude []glob
	sidecar          string // what the names of sidecars end in; empty: there are none
}

func newFilter(include, exclude []string) (*filter, error) {
	var f filter
	var err error
	if f.include, err = parseGlobs("include", include); err != nil {
		return nil, err
	}
	if f.exclude, err = parseGlobs("exclude", exclude); err != nil {
		return nil, err
	}
	return &f, nil
}

func parseGlobs(what string, patterns []string) ([]glob, error) {
	var gs []glob
	for _, p := range patterns {
		if p == "" || !doublestar.ValidatePattern(p) {
			return nil, fmt.Errorf("%s pattern %q: malformed", what, p)
		}
		g := glob{pattern: strings.TrimSuffix(p, "/"), dirOnly: strings.HasSuffix(p, "/")}
		g.path = strings.Contains(g.pattern, "/")
		g.pattern = strings.TrimPrefix(g.pattern, "/")
		g.plain = !strings.ContainsAny(g.pattern, `*?[{\`)
		gs = append(gs, g)
	}
	return gs, nil
}

func (g *glob) match(rel string) bool {
	if !g.path {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	if g.plain {
		return rel == g.pattern
	}
	return doublestar.MatchUnvalidated(g.pattern, rel)
}

// idle reports whether every name passes that is not reserved.
func (f *filter) idle() bool { return len(f.include) == 0 && len(f.exclude) == 0 }

// file reports whether the patterns let the file at rel pass.
func (f *filter) file(rel string) bool {
	for i := range f.exclude {
		if g := &f.exclude[i]; !g.dirOnly && g.match(rel) {
			return false
		}
	}
	if len(f.include) == 0 {
		return true
	}
	for i := range f.include {
		g := &f.include[i]
		if g.dirOnly {
			if f.below(g, rel) {
				return true
			}
		} else if g.match(rel) || f.below(g, rel) {
			return true
		}
	}
	return false
}

// below reports whether a directory above rel matches g: including a directory
// includes what is in it.
func (f *filter) below(g *glob, rel string) bool {
	for i := strings.LastIndexByte(rel, '/'); i > 0; i = strings.LastIndexByte(rel[:i], '/') {
		if g.match(rel[:i]) {
			return true
		}
	}
	return false
}

// dir reports whether the directory at rel is entered. Include patterns have no
// say: they may match deeper.
func (f *filter) dir(rel string) bool {
	for i := range f.exclude {
		if f.exclude[i].match(rel) {
			return false
		}
	}
	return true
}

// passes reports whether a walk would come to the file at rel.
func (f *filter) passes(rel string) bool {
	if reserved(rel, filestat.File) || !f.file(rel) {
		return false
	}
	if _, ok := f.sidecarOf(rel); ok {
		return false
	}
	i := strings.LastIndexByte(rel, '/')
	return i < 0 || f.passesDir(rel[:i])
}

// passesDir reports whether a walk would enter the directory at rel.
func (f *filter) passesDir(rel string) bool {
	for i := range len(rel) + 1 {
		if i == len(rel) || rel[i] == '/' {
			if reserved(rel[:i], filestat.Dir) || !f.dir(rel[:i]) {
				return false
			}
		}
	}
	return true
}

// reserved reports whether the file or directory at rel is hidden: by a Source's
// own documents at the root, or because it is a state directory, at any depth.
func reserved(rel string, k filestat.Kind) bool {
	switch rel {
	case "robots.txt", ".well-known/resourcesync":
		return true
	case "resourcesync", "-":
		return k == filestat.Dir
	}
	return k == filestat.Dir && (rel == stateDir || strings.HasSuffix(rel, "/"+stateDir))
}
