package stateplace

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/internal/statedir"
	"lockstep/storage/postgres"
)

// OpenStandby opens the database of a place to be read, while another process owns it.
// Notes that are saved remain in the memory of this process: those of the database are
// written by its owner.
func (p Place) OpenStandby(ctx context.Context) (*Database, error) {
	db, err := p.OpenReader(ctx)
	if err != nil {
		return nil, err
	}
	first, err := db.Lease(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	seen := &leases{last: first}
	notes := &drafts{Notes: statedir.Rows{Journal: db.Journal()}, saved: map[string][]byte{}}
	lease := func(ctx context.Context) (Lease, error) {
		l, err := seen.next(func() (postgres.Lease, error) { return db.Lease(ctx) })
		return Lease{Owner: l.Owner, Since: l.Since, Held: l.Held}, err
	}
	return &Database{
		Catalog: db.Catalog(), Versions: db.Versions(), Ledger: db.Ledger(), Contents: db.Contents(), Hub: db.Hub(), Journal: db.Journal(),
		Check: db.Check, State: statedir.InDatabase(notes, p.name), Lease: lease, close: []func() error{db.Close},
	}, nil
}

// A Lease says to which process a database belongs, or belonged last.
type Lease struct {
	Owner string
	Since time.Time // distinguishes all owners
	Held  bool      // it has not ended
}

// ErrReplaced reports that a database is not the one that was opened, or has gone back to an
// earlier state: nothing that was read of it before is certain any more.
var ErrReplaced = errors.New("the state was restored or replaced after this process had opened it")

// leases compare each reading of a lease with the last one.
type leases struct {
	mu    sync.Mutex // guards what follows
	begun int64      // readings
	at    int64      // the one that has read last
	last  postgres.Lease
}

// next reads the lease. The error is [ErrReplaced] if it does not follow the last one.
func (x *leases) next(read func() (postgres.Lease, error)) (postgres.Lease, error) {
	x.mu.Lock()
	x.begun++
	own := x.begun
	x.mu.Unlock()
	l, err := read()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err != nil || own < x.at: // a later reading has been compared
		return l, err
	case !l.Follows(&x.last):
		return l, ErrReplaced
	}
	x.at, x.last = own, l
	return l, nil
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
