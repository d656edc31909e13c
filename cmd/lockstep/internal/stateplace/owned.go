package stateplace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/note"
	"lockstep/storage/postgres"
)

// ownerWait is how long a process waits for the owner of its state: that of one that was
// killed is free after its lease of 8 s.
const ownerWait = 12 * time.Second

// sharedLease is the lease of an owner that others wait for: when it was killed, one of them
// publishes within 10 s. It survives a restart of the database that takes less.
const sharedLease = 6 * time.Second

// OpenOwned opens the PostgreSQL database of a place, whose directory this process has
// locked, and takes it for this process, which runs command. The owner must be closed
// before the DB.
func (p Place) OpenOwned(ctx context.Context, command string, log *slog.Logger) (*postgres.DB, *postgres.Owner, error) {
	db, err := postgres.Options{Scratch: p.Dir}.Open(ctx, p.url)
	if err != nil {
		return nil, nil, Explain(err)
	}
	instance, err := instanceOf(p.Dir)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	o := postgres.OwnOptions{Name: self(command), Instance: instance, Wait: ownerWait, Logger: log}
	if p.shared {
		o.Wait, o.Lease = 0, sharedLease
	}
	owner, err := own(ctx, db, o)
	if err != nil {
		return nil, nil, errors.Join(Explain(fmt.Errorf("state in %s: %w", p, err)), db.Close())
	}
	return db, owner, nil
}

// OpenReader opens the PostgreSQL database of a place to be read, also while a process owns
// it. The error of one without tables wraps [postgres.ErrEmpty].
func (p Place) OpenReader(ctx context.Context) (*postgres.DB, error) {
	db, err := postgres.Options{ReadOnly: true}.Open(ctx, p.url)
	return db, Explain(err)
}

// self describes this process to those of other machines.
func self(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return fmt.Sprintf("%s on %s, process %d", command, host, os.Getpid())
}

// instanceFile has the number of a directory, by which its next process is recognized.
const instanceFile = "instance"

// instanceOf returns what distinguishes the processes that lock a directory from all others:
// a number of the directory, which a copy of it would have too, and the present run of the
// machine.
func instanceOf(dir string) (string, error) {
	id := note.File(filepath.Join(dir, instanceFile))
	text, err := id.Read()
	if err == nil && text == nil {
		text = []byte(rand.Text() + "\n")
		err = id.Write(text)
	}
	if err != nil {
		return "", fmt.Errorf("open the directory beside the state: %w", err)
	}
	host, _ := os.Hostname()                                  // without one, the rest has to do
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // of Linux
	return strings.Join([]string{strings.TrimSpace(string(text)), host, strings.TrimSpace(string(boot))}, " "), nil
}

// Explain adds a remedy to an error about a database.
func Explain(err error) error {
	var owned *postgres.OwnedError
	switch {
	case errors.Is(err, postgres.ErrOlder):
		return term.WithHint(err, "stop all processes that use it, make a backup with pg_dump, or with lockstep state backup of the earlier version, and run lockstep state migrate once")
	case errors.Is(err, postgres.ErrUnfinished):
		return term.WithHint(err, "complete it: run the same lockstep state restore again, or lockstep state copy with --continue")
	case errors.As(err, &owned):
		return term.WithHint(err, "wait for it to end, or stop it: its progress is kept")
	case errors.Is(err, postgres.ErrPromoted):
		return term.WithHint(err, promotedHint)
	case errors.Is(err, postgres.ErrHubs):
		return term.WithHint(err, "stop them first; one that was killed counts for 10 s more, on a slow server for up to 4 minutes")
	case errors.Is(err, postgres.ErrLost):
		return term.WithHint(err, "another process continues; this one must not")
	}
	return err
}
