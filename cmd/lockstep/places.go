package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
)

// checkPlaces refuses directories that would get into each other's way: what
// we write must not come out as a resource.
func checkPlaces(o siteOptions) error {
	for _, c := range o.sets {
		if from := c.Origin.String(); mirror.IsBucket(from) && bucketBelow(from, o.documents) {
			return term.Usage(fmt.Errorf("the documents in %s would lie inside %s and be published as resources", o.documents, from),
				"write them elsewhere, or to "+from+" itself")

		}
		if file := c.Origin.File(); file != "" && len(o.sets) == 1 {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s does not exist", file)
			}
		}
		dir := c.Origin.Dir()
		if dir == "" {
			continue
		}
		if real, err := realPath(dir); err == nil && slices.Contains(strings.Split(filepath.ToSlash(real), "/"), ".lockstep") {
			return term.Usage(fmt.Errorf("%s is inside a directory called .lockstep, where lockstep keeps its own state: it is never published", dir),
				"publish the directory that contains it, or copy the files elsewhere")

		}
		switch info, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist) && len(o.sets) > 1:
			// Scanning will tell; it need not keep the other sets from anything.
		case errors.Is(err, fs.ErrNotExist):
			return term.Usagef("%s does not exist", dir)
		case err != nil:
			return term.Usage(err, "")
		case !info.IsDir():
			return term.Usagef("%s is not a directory", dir)
		case len(o.sets) == 1: // scanning reports each of several
			if err := checkReadable(dir); err != nil {
				return err
			}
		}
		if rel, ok := inside(dir, o.state); ok && !strings.Contains("/"+rel+"/", "/.lockstep/") {
			return term.Usage(fmt.Errorf("the state directory %s lies inside %s and would be published", o.state, dir),
				"give a --state elsewhere, or below "+filepath.Join(dir, ".lockstep"))

		}
		if rel, ok := inside(dir, o.documents); ok && rel != "." && !strings.Contains("/"+rel+"/", "/.lockstep/") {
			return term.Usage(fmt.Errorf("the documents in %s would lie inside %s and be published as resources", o.documents, dir),
				"write them to a directory elsewhere, or to "+dir+" itself")

		}
	}
	return nil
}

// bucketBelow reports whether an address is that of a place in a bucket below
// another, and not the same.
func bucketBelow(bucket, address string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(address, "/"), strings.TrimSuffix(bucket, "/")+"/")
	return ok && rest != ""
}

// beside reports whether the documents stand where the resources of a set are.
func beside(from config.Address, documents string) bool {
	if dir := from.Dir(); dir != "" {
		return same(dir, documents)
	}
	return mirror.IsBucket(documents) && strings.TrimSuffix(from.String(), "/") == strings.TrimSuffix(documents, "/")
}

// inside reports whether path is dir or below it, and where.
func inside(dir, path string) (rel string, ok bool) {
	d, err1 := realPath(dir)
	p, err2 := realPath(path)
	if err1 != nil || err2 != nil {
		return "", false
	}
	rel, err := filepath.Rel(d, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// same reports whether both paths lead to one directory.
func same(dir, path string) bool {
	rel, ok := inside(dir, path)
	return ok && rel == "."
}

// realPath resolves symbolic links in as much of path as exists.
func realPath(path string) (string, error) {
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

// defaultState returns the directory in which the state of a Source made from
// what is at place is kept unless told otherwise: one per place, below the
// user's own. A place is a path, unless it is an address of another kind.
func defaultState(place string, isPath bool, lookup func(string) (string, bool)) (string, error) {
	name := strings.Trim(notInNames.ReplaceAllString(place, "-"), "-")
	name = name[:min(len(name), maxStateName)]
	if isPath {
		var err error
		if place, err = realPath(place); err != nil {
			return "", err
		}
		name = filepath.Base(place)
	}
	root, ok := lookup("XDG_STATE_HOME")
	if !ok || !filepath.IsAbs(root) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", term.Usage(fmt.Errorf("find a place for the state: %w", err), "give one with --state")
		}
		root = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(root, "lockstep", fmt.Sprintf("%s-%x", name, sum[:4])), nil
}

// maxStateName bounds the part of a state directory's name that is there for
// people.
const maxStateName = 60

// notInNames are characters that make a name hard to handle.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
