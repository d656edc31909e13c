// Package statebackup finds the databases of a state, writes a state to a file while processes
// use it, and restores it.
package statebackup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/internal/statedir"
)

// ErrNoState reports a directory without databases of a state.
var ErrNoState = errors.New("there is no state of lockstep")

// A Place is a directory with a state: of a Source, a hub or an Aggregator; or of a mirror, where
// it is in a directory beside the files.
type Place struct {
	Dir       string
	Mirror    bool     // only what is below .lockstep is the state
	Databases []string // their paths below Dir, with slashes; those of harvests last
}

// Find finds the state in a directory, which may be reached by a symbolic link.
func Find(dir string) (*Place, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoState)
	}
	if err != nil {
		return nil, fmt.Errorf("find the state in %s: %w", dir, err)
	}
	p := &Place{Dir: real}
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(destination.StateFile))); err == nil {
		p.Mirror = true
	}
	err = p.walk(func(rel string, d fs.DirEntry) error {
		if isDatabase(rel) && d.Type().IsRegular() {
			p.Databases = append(p.Databases, rel)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", dir, ErrNoState)
	case err != nil:
		return nil, fmt.Errorf("find the state in %s: %w", dir, err)
	case len(p.Databases) == 0:
		return nil, fmt.Errorf("%s: %w", dir, ErrNoState)
	}
	sortDatabases(p.Databases)
	return p, nil
}

// sortDatabases brings databases into the order in which they are copied.
func sortDatabases(databases []string) {
	slices.SortFunc(databases, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// rank orders databases: what a mirror has harvested is copied after the mirror, whose position in it is then not one
// that it has not reached.
func rank(database string) int {
	if path.Base(database) == harvestName {
		return 1
	}
	return 0
}

// harvestName is the database of what a mirror has harvested.
const harvestName = "harvest.db"

// Of returns the place whose processes use the database in a file, which need not exist; nil if none does, because its
// name is not that of such a database.
func Of(file string) *Place {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if !isDatabase(filepath.Base(file)) {
		return nil
	}
	dir := filepath.Dir(file)
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(abs) == filename.StateDir {
		return &Place{Dir: filepath.Join(dir, ".."), Mirror: true}
	}
	return &Place{Dir: dir}
}

// isMirrored reports whether a file or directory is one that an Aggregator has mirrored. Its name says nothing, because
// an upstream has chosen it. It is not in the state of a mirror, into which no URI leads.
func isMirrored(rel string) bool {
	return strings.HasPrefix(rel, statedir.UpstreamsDir+"/") && !strings.Contains("/"+rel+"/", "/"+filename.StateDir+"/")
}

// isDatabase reports whether a file has the name of a database: of a Source, of a hub, of a mirror,
// or of what a mirror has harvested.
func isDatabase(rel string) bool {
	if isMirrored(rel) {
		return false
	}
	switch path.Base(rel) {
	case "catalog.db", "hub.db", path.Base(destination.StateFile), harvestName, databaseName:
		return true
	}
	return false
}

// root returns the directory of the state, relative to Dir, with slashes.
func (p *Place) root() string {
	if p.Mirror {
		return filename.StateDir
	}
	return "."
}

// walk calls visit for each directory and file of the state that is to be kept, by its path below
// Dir. Files that vanish meanwhile are left out.
func (p *Place) walk(visit func(rel string, d fs.DirEntry) error) error {
	start := filepath.Join(p.Dir, p.root())
	return filepath.WalkDir(start, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name != start && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(p.Dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link: what it leads to would be missing in the backup; move it here", name)
		case d.IsDir() && isTemporary(rel):
			return fs.SkipDir
		case d.IsDir():
			return visit(rel, d)
		case !d.Type().IsRegular() || !isKept(rel):
			return nil
		}
		return visit(rel, d)
	})
}

// isTemporary reports whether a directory contains unfinished files only.
func isTemporary(dir string) bool {
	name, parent := path.Base(dir), path.Base(path.Dir(dir))
	return !isMirrored(dir) && (name == "tmp" || strings.HasPrefix(name, "tmp-")) && (parent == filename.StateDir || parent == "versions" || parent == "bitstreams")
}

// isContent reports whether a file has a content whose name is its hash: of versions, or of past representations, of
// this state or of the mirror of an upstream.
func isContent(rel string) bool {
	if i := strings.LastIndex("/"+rel, "/"+filename.StateDir+"/"); i >= 0 {
		rel = rel[i+len(filename.StateDir)+1:]
	}
	return strings.HasPrefix(rel, "versions/") || strings.HasPrefix(rel, "bitstreams/")
}

// isKept reports whether a file has to be in a copy: locks and what belongs to open databases do
// not.
func isKept(rel string) bool {
	if isMirrored(rel) {
		return true
	}
	name := path.Base(rel)
	if name == "lock" || name == "lock.json" || strings.HasSuffix(name, ".new") {
		return false
	}
	for _, end := range []string{".db-wal", ".db-shm", ".db-journal"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return true
}
