package stateplace

import (
	"context"
	"sync"
	"time"

	"lockstep/internal/statedir"
)

// OpenStandby opens the database of a place to be read, while another process owns it.
// Notes that are saved remain in the memory of this process: those of the database are
// written by its owner.
func (p Place) OpenStandby(ctx context.Context) (*Database, error) {
	db, err := p.OpenReader(ctx)
	if err != nil {
		return nil, err
	}
	notes := &drafts{Notes: statedir.Rows{Journal: db.Journal()}, saved: map[string][]byte{}}
	lease := func(ctx context.Context) (Lease, error) {
		l, err := db.Lease(ctx)
		return Lease{Owner: l.Owner, Since: l.Since, Held: l.Held}, err
	}
	return &Database{
		Catalog: db.Catalog(), Versions: db.Versions(), Ledger: db.Ledger(), Contents: db.Contents(), Hub: db.Hub(), Journal: db.Journal(),
		Check: func(ctx context.Context) error {
			_, err := db.Lease(ctx)
			return err
		},
		State: statedir.InDatabase(notes, p.name), Lease: lease, close: []func() error{db.Close},
	}, nil
}

// A Lease says to which process a database belongs, or belonged last.
type Lease struct {
	Owner string
	Since time.Time // distinguishes all owners
	Held  bool      // it has not ended
}

// drafts are notes of which this process has changed its own copies only.
type drafts struct {
	statedir.Notes

	mu    sync.Mutex // guards saved
	saved map[string][]byte
}

// Load implements [statedir.Notes].
func (d *drafts) Load(name string) ([]byte, error) {
	d.mu.Lock()
	content, ok := d.saved[name]
	d.mu.Unlock()
	if ok {
		return content, nil
	}
	return d.Notes.Load(name)
}

// Save implements [statedir.Notes].
func (d *drafts) Save(name string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saved[name] = content
	return nil
}
