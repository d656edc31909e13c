// Package pathname decides by name alone which files below a root are published, and
// converts between paths and URIs.
package pathname

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lockstep/intake/internal/filestat"
)

// Reasons why a name is not published.
var (
	ErrReserved = errors.New("hidden by our own documents")
	ErrState    = errors.New("lockstep keeps its state there and never publishes it")
)

// A glob is one include or exclude pattern.
type glob struct {
	pattern string
	path    bool // matched against the whole relative path, otherwise against the last element
	dirOnly bool // written with a slash at the end
	plain   bool // without any metacharacter
}

// A Filter decides by name alone which files are published.
type Filter struct {
	include, exclude []glob
	Sidecar          string // suffix of the names of sidecars; empty: there are none
	SkipHidden       bool   // names that begin with a dot are not published, except wellKnown
}

// wellKnown is the only name that begins with a dot and is meant for the public: that of
// a directory at the root of a site (RFC 8615).
const wellKnown = ".well-known"

// Hides reports whether the file or directory with a name in the directory at dir, which is
// empty or ends with a slash, is hidden.
func (f *Filter) Hides(dir string, name []byte) bool {
	return f.SkipHidden && name[0] == '.' && (dir != "" || string(name) != wellKnown)
}

// hidesPath reports whether a name on the path is hidden.
func (f *Filter) hidesPath(rel string) bool {
	return f.SkipHidden && (strings.Contains(rel, "/.") || rel[0] == '.' && rel != wellKnown && !strings.HasPrefix(rel, wellKnown+"/"))
}

// NewFilter returns a Filter with these patterns; Sidecar is empty.
func NewFilter(include, exclude []string) (*Filter, error) {
	var f Filter
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

// Idle reports whether the Filter passes all names that are not reserved.
func (f *Filter) Idle() bool { return len(f.include) == 0 && len(f.exclude) == 0 }

// File reports whether the patterns select the file at rel.
func (f *Filter) File(rel string) bool {
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
// includes all files below it.
func (f *Filter) below(g *glob, rel string) bool {
	for i := strings.LastIndexByte(rel, '/'); i > 0; i = strings.LastIndexByte(rel[:i], '/') {
		if g.match(rel[:i]) {
			return true
		}
	}
	return false
}

// Dir reports whether the directory at rel is entered. Include patterns do not matter:
// they may match deeper.
func (f *Filter) Dir(rel string) bool {
	for i := range f.exclude {
		if f.exclude[i].match(rel) {
			return false
		}
	}
	return true
}

// Passes reports whether a walk would reach the file at rel.
func (f *Filter) Passes(rel string) bool {
	if Reserved(rel, filestat.File) || f.hidesPath(rel) || !f.File(rel) {
		return false
	}
	if _, ok := f.SidecarOf(rel); ok {
		return false
	}
	i := strings.LastIndexByte(rel, '/')
	return i < 0 || f.PassesDir(rel[:i])
}

// PassesDir reports whether a walk would enter the directory at rel.
func (f *Filter) PassesDir(rel string) bool {
	if f.hidesPath(rel) {
		return false
	}
	for i := range len(rel) + 1 {
		if i == len(rel) || rel[i] == '/' {
			if Reserved(rel[:i], filestat.Dir) || !f.Dir(rel[:i]) {
				return false
			}
		}
	}
	return true
}

// Reserved reports whether the file or directory at rel is hidden: by a Source's
// own documents at the root, or because it is a state directory, at any depth.
func Reserved(rel string, k filestat.Kind) bool {
	switch rel {
	case "robots.txt", ".well-known/resourcesync":
		return true
	case "resourcesync", "-":
		return k == filestat.Dir
	}
	return k == filestat.Dir && (rel == StateDir || strings.HasSuffix(rel, "/"+StateDir))
}

// SidecarOf returns the path of the file that the file at rel describes, if its name
// is that of a sidecar.
func (f *Filter) SidecarOf(rel string) (of string, ok bool) {
	if f.Sidecar == "" {
		return "", false
	}
	of, ok = strings.CutSuffix(rel, f.Sidecar)
	return of, ok && of != "" && of[len(of)-1] != '/'
}

// StateDir is the name of the directories in which lockstep keeps its own state:
// the journal and the earlier versions of a mirror, unfinished documents of a
// Source. They are never published, at any depth, nor is a file that a symbolic
// link inside one leads to.
const StateDir = ".lockstep"

// InStateDir reports whether a directory on the way to the file at rel is a state
// directory.
func InStateDir(rel string) bool { return strings.Contains("/"+rel, "/"+StateDir+"/") }

// Topmost sorts paths and drops those below another.
func Topmost(paths []string) []string {
	elements := func(rel string) []string { return strings.Split(rel, "/") }
	// By elements: paths below a path follow it directly.
	slices.SortFunc(paths, func(a, b string) int { return slices.Compare(elements(a), elements(b)) })
	out := paths[:0:0]
	for _, p := range paths {
		if len(out) == 0 || !Within(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

// Within reports whether rel is dir or is below it.
func Within(rel, dir string) bool {
	return strings.HasPrefix(rel, dir) && (len(rel) == len(dir) || rel[len(dir)] == '/')
}
