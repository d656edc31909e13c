package stateplace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"lockstep/destination/lock"
	"lockstep/internal/statedir"
	"lockstep/storage/postgres"
)

// mostOnMachine caps the processes of one machine that share a database.
const mostOnMachine = 256

// A Shared is the PostgreSQL database of a place that several processes share. One of them at
// a time owns it.
type Shared struct {
	DB   *postgres.DB
	Dir  string // of this process, with what may be lost
	Name string // of this process, for the others

	place    Place
	instance string
	lock     *lock.Lock
	log      *slog.Logger
}

// OpenShared opens the database of a place for one of several processes, which runs command. Each
// process of a machine has a directory of its own.
func (p Place) OpenShared(ctx context.Context, command string, log *slog.Logger) (_ *Shared, err error) {
	s := &Shared{Name: self(command), place: p, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for i := 1; s.lock == nil; i++ {
		s.Dir = filepath.Join(p.Dir, "shared", strconv.Itoa(i))
		if err := statedir.Make(s.Dir, log); err != nil {
			return nil, err
		}
		s.lock, err = lock.Acquire(s.Dir)
		if _, used := errors.AsType[*lock.InUseError](err); err != nil && (!used || i == mostOnMachine) {
			return nil, err
		}
	}
	if s.instance, err = instanceOf(s.Dir); err != nil {
		return nil, err
	}
	if s.DB, err = (postgres.Options{Scratch: s.Dir}).Open(ctx, p.url); err != nil {
		return nil, Explain(err)
	}
	return s, nil
}

// Own takes the database for this process. The error of one that another process owns wraps
// [postgres.OwnedError].
func (s *Shared) Own(ctx context.Context) (*postgres.Owner, error) {
	owner, err := own(ctx, s.DB, postgres.OwnOptions{Name: s.Name, Instance: s.instance, Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("state in %s: %w", s.place, err)
	}
	return owner, nil
}

// Close closes the database and releases the directory.
func (s *Shared) Close() error {
	var errs []error
	if s.DB != nil {
		errs = append(errs, s.DB.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
