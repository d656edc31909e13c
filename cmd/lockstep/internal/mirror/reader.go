package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination/journal"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/internal/note"
	"lockstep/storage/postgres"
	"lockstep/storage/sqlite"
)

// A Reader reads the state of a mirror, which other processes may change meanwhile.
type Reader struct {
	Journal journal.Journal
	Dest    string    // the bucket; "" of a mirror in a directory
	Run     note.Note // of the last run
	Owned   bool      // a process owns the database
	close   func() error
}

// OpenReader opens the state of a mirror to be read.
func OpenReader(ctx context.Context, place stateplace.Place) (*Reader, error) {
	if place.InDatabase() {
		return openSharedReader(ctx, place)
	}
	db, err := sqlite.OpenReader(database(place.Dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noMirror(place)
	case errors.Is(err, fs.ErrPermission):
		return nil, term.WithHint(fmt.Errorf("%s: only the user who runs the mirror may read its state", place), "ask as that user, or as root")
	case errors.Is(err, sqlite.ErrDamaged):
		return nil, term.WithHint(err, Damaged)
	case err != nil:
		return nil, err
	}
	text, _ := os.ReadFile(filepath.Join(mirrordir.State(place.Dir), StateOf)) // only that of a bucket has one
	return &Reader{db.Journal(), strings.TrimSpace(string(text)), mirrordir.RunNote(place.Dir), false, db.Close}, nil
}

func openSharedReader(ctx context.Context, place stateplace.Place) (*Reader, error) {
	db, err := place.OpenReader(ctx)
	if errors.Is(err, postgres.ErrEmpty) {
		return nil, noMirror(place)
	}
	if err != nil {
		return nil, err
	}
	r := &Reader{Journal: db.Journal(), close: db.Close}
	r.Run = document{r.Journal, lastrun.Name}
	by, err := db.OwnedBy(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r.Owned = by != nil
	of, err := document{r.Journal, StateOf}.Read()
	if r.Dest = string(of); err == nil && of == nil {
		err = noMirror(place)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

// ErrNoMirror reports that a state is not that of a mirror.
var ErrNoMirror = errors.New("there is no mirror, or it was never synced")

func noMirror(place stateplace.Place) error { return fmt.Errorf("%s: %w", place, ErrNoMirror) }

// Close closes the state.
func (r *Reader) Close() error { return r.close() }
