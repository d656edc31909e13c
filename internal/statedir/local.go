package statedir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/private"
)

// DocumentsDir is the directory of the documents of a Source, in its directory, unless they are
// elsewhere.
const DocumentsDir = "documents"

// OriginFiles begins the names of the files in which origins remember what they have read.
const OriginFiles = "origin-"

// UpstreamsDir is the directory of the mirrors of upstreams, or, of a state in a database, of what
// their mirrors have that may be lost.
const UpstreamsDir = "upstreams"

// localID is the file, and the note, with which the local directory of a state in a database is
// recognized.
const localID = "local-id"

// ForgetLocal has the next Adopt take any directory for another one: the state was restored.
func ForgetLocal(notes Notes) error {
	last, err := notes.Load(localID)
	if err == nil && last != nil {
		err = notes.Save(localID, []byte("restored\n"))
	}
	return err
}

// IsUsed reports whether a Source has its state in the database with the notes.
func IsUsed(notes Notes) (bool, error) {
	last, err := notes.Load(localID)
	return last != nil, err
}

// Adopt makes dir, which is locked, the local directory of a state in a database. What is in it may
// be lost at any time. If it is not the directory that was used last, for instance because that
// was on another machine, what origins remember in it does not belong to the present state of the
// catalog, nor do the documents: they are removed, and if there were documents, their history
// restarts.
//
// isFilled reports, of a database that no Source has used yet, whether it has contents: that of a
// Source was copied to it, whose documents are elsewhere.
func Adopt(dir string, notes Notes, isFilled func() (bool, error)) error {
	last, err := notes.Load(localID)
	if err != nil {
		return fmt.Errorf("read %s: %w", notes.Place(localID), err)
	}
	path := filepath.Join(dir, localID)
	here, err := Files(dir).Load(localID)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if last != nil && bytes.Equal(here, last) {
		return nil
	}
	lost := last != nil
	if !lost {
		if lost, err = isFilled(); err != nil {
			return err
		}
	}
	if lost {
		if err := WriteJSON(notes, lostName, struct{}{}); err != nil {
			return err
		}
	}
	if err := clearLocal(dir); err != nil {
		return fmt.Errorf("remove what was left in %s: %w", dir, err)
	}
	id := []byte(newID() + "\n")
	if err := private.Replace(path, id); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := notes.Save(localID, id); err != nil {
		return fmt.Errorf("write %s: %w", notes.Place(localID), err)
	}
	return nil
}

// clearLocal removes what belongs to another state of the catalog.
func clearLocal(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != DocumentsDir && e.Name() != UpstreamsDir && !strings.HasPrefix(e.Name(), OriginFiles) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return private.SyncDir(dir)
}
