package statedir

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lockstep/blob"
)

// Default returns the default directory for the state of what is published from
// a place: one per place, below the user's state directory. A place is a path, or
// an address of another kind.
func Default(place string, isPath bool, lookup func(string) (string, bool)) (string, error) {
	name := strings.Trim(notInNames.ReplaceAllString(place, "-"), "-")
	name = name[:min(len(name), maxName)]
	if isPath {
		var err error
		if place, err = RealPath(place); err != nil {
			return "", err
		}
		name = filepath.Base(place)
	}
	root, ok := lookup("XDG_STATE_HOME")
	if !ok || !filepath.IsAbs(root) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for the state: %w", err)
		}
		root = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(root, "lockstep", fmt.Sprintf("%s-%x", name, sum[:4])), nil
}

// maxName bounds the readable part of a state directory's name.
const maxName = 60

// notInNames are characters that make a name hard to handle.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Documents opens the directory for the documents that are published from a state
// directory, which must be locked.
//
// A directory within the state is only ours. Any other may be shared with
// publications from another state, or with a mirror that continues unfinished
// downloads. There unfinished documents get a directory named after our state, so
// that a sweep removes only our own.
func Documents(dir, state string) (*blob.Dir, error) {
	var o blob.DirOptions
	if _, ours := Inside(state, dir); !ours {
		own, err := RealPath(state)
		if err != nil {
			return nil, fmt.Errorf("find the state directory: %w", err)
		}
		sum := sha256.Sum256([]byte(own))
		o.Tmp = fmt.Sprintf(".lockstep/tmp-%x", sum[:4])
	}
	return blob.NewDir(dir, o)
}

// Inside reports whether path is dir or below it, and where.
func Inside(dir, path string) (rel string, ok bool) {
	d, err1 := RealPath(dir)
	p, err2 := RealPath(path)
	if err1 != nil || err2 != nil {
		return "", false
	}
	rel, err := filepath.Rel(d, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// Same reports whether both paths lead to one directory.
func Same(dir, path string) bool {
	rel, ok := Inside(dir, path)
	return ok && rel == "."
}

// RealPath resolves symbolic links in as much of path as exists.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for p := abs; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest), nil
		}
		if p == filepath.Dir(p) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}
