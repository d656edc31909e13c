package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/storage/sqlite"
)

// Rows are the rows of the resources of a mirror. They can be read while another
// process works on the mirror, which is not locked.
type Rows struct {
	dest string
	db   *sqlite.DB
}

// OpenRows opens the rows of the mirror whose state is below dest.
func OpenRows(dest string) (*Rows, error) {
	file := filepath.Join(dest, filepath.FromSlash(destination.StateFile))
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, term.Usage(fmt.Errorf("%s: there is no mirror", fetch.WithoutUser(dest)), "give the directory of a mirror; for one in a bucket, that of its state")
	}
	db, err := sqlite.Open(file)
	if err != nil {
		return nil, err
	}
	return &Rows{dest, db}, nil
}

// Close closes the state.
func (r *Rows) Close() error { return r.db.Close() }

// ByURI returns the row of a resource.
func (r *Rows) ByURI(ctx context.Context, uri string) (journal.Held, error) {
	hs, err := r.db.Journal().Lookup(ctx, []string{uri})
	if err != nil {
		return journal.Held{}, err
	}
	if hs[0].URI == "" {
		return journal.Held{}, fmt.Errorf("%s: the mirror in %s does not have this resource", fetch.Printable(uri), r.dest)
	}
	return hs[0], nil
}

// ByPath returns the row of the resource that has the file at path.
func (r *Rows) ByPath(ctx context.Context, path string) (journal.Held, error) {
	for h, err := range r.db.Journal().Held(ctx, "", "") {
		if err != nil || h.Path == path {
			return h, err
		}
	}
	return journal.Held{}, fmt.Errorf("%s: no resource of the mirror in %s has this file", fetch.Printable(path), r.dest)
}
