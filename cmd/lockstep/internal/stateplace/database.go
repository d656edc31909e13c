package stateplace

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"lockstep/catalog"
	"lockstep/destination/journal/part"
	"lockstep/hub"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/internal/statedir"
	"lockstep/memento"
	"lockstep/storage"
	"lockstep/storage/postgres"
	"lockstep/storage/sqlite"
)

// A Database is the open database of a state.
type Database struct {
	Catalog  catalog.Catalog
	Versions memento.Store
	Ledger   ledger.Ledger
	Contents intake.Contents
	Hub      hub.Store
	Journal  part.Whole                      // of mirrors, each of which has a part; nil: the state is in a directory, where they have files
	State    statedir.State                  // its identity, with its notes
	Check    func(ctx context.Context) error // whether the database can be read and written

	Lease func(ctx context.Context) (Lease, error) // to which process the database belongs; nil: to this one

	owner owner // of the database; nil: the lock of the directory is enough
	close []func() error
}

// Open opens the database of the state at a place, whose directory is locked, for this process,
// which runs command.
func (p Place) Open(ctx context.Context, command string, log *slog.Logger) (*Database, error) {
	if !p.InDatabase() {
		return p.openFile()
	}
	db, owner, err := p.OpenOwned(ctx, command, log)
	if err != nil {
		return nil, err
	}
	notes := statedir.Rows{Journal: db.Journal()}
	d := &Database{
		Catalog: db.Catalog(), Versions: db.Versions(), Ledger: db.Ledger(), Contents: db.Contents(), Hub: db.Hub(), Check: db.Check, Journal: db.Journal(),
		State: statedir.InDatabase(notes, p.name), owner: owner, close: []func() error{db.Close, owner.Close},
	}
	if err := statedir.Adopt(p.Dir, notes, func() (bool, error) { return p.isFilled(ctx) }); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// isFilled reports whether the database has contents.
func (p Place) isFilled(ctx context.Context) (bool, error) {
	db, err := storage.OpenReader(ctx, p.url)
	if err != nil {
		return false, err
	}
	empty, err := db.IsEmpty(ctx)
	return !empty, errors.Join(err, db.Close())
}

// openFile opens the database in the directory of a state.
func (p Place) openFile() (*Database, error) {
	db, err := sqlite.Open(filepath.Join(p.Dir, "catalog.db"))
	if err != nil {
		return nil, err
	}
	return &Database{
		Catalog: db.Catalog(), Versions: db.Versions(), Ledger: db.Ledger(), Contents: db.Contents(), Hub: db.Hub(), Check: db.Check,
		State: statedir.In(p.Dir), close: []func() error{db.Close},
	}, nil
}

// OpenPostgres opens a PostgreSQL database with a state that several processes share. Its tables
// are created, but an older schema is refused: processes of the version that wrote it may use it.
func OpenPostgres(ctx context.Context, url string) (*postgres.DB, error) {
	db, err := postgres.Open(ctx, url)
	return db, Explain(err)
}

// Close closes the database, after what was opened later.
func (d *Database) Close() error {
	var errs []error
	for i := len(d.close) - 1; i >= 0; i-- {
		errs = append(errs, d.close[i]())
	}
	d.close = nil
	return errors.Join(errs...)
}
