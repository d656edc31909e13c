package hubserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/hub/hubstore"
	"lockstep/internal/private"
	"lockstep/internal/statedir"
	"lockstep/storage/sqlite"
)

// A State is what a hub remembers, and the key that seals the secrets in it.
type State struct {
	Store hubstore.Store
	Key   []byte
	Close func()
}

// LockState checks where the state of a hub is to be, before anything is opened:
// a directory is created and locked; a database needs a key file.
func LockState(state, keyFile string, log *slog.Logger) (release func(), err error) {
	if scheme, _, ok := strings.Cut(state, "://"); ok {
		_, err := sharedKey(scheme, keyFile)
		return func() {}, err
	}
	if err := statedir.Make(state, log); err != nil {
		return nil, err
	}
	return statedir.Lock(state, "hub")
}

// OpenState opens the state of a hub that runs on its own: a directory that is
// locked, or a PostgreSQL database that several hubs may share.
func OpenState(ctx context.Context, state, keyFile string, log *slog.Logger) (*State, error) {
	if scheme, _, ok := strings.Cut(state, "://"); ok {
		return openSharedState(ctx, scheme, state, keyFile, log)
	}
	db, err := sqlite.Open(filepath.Join(state, "hub.db"))
	if err != nil {
		return nil, err
	}
	s := &State{Store: db.Hub(), Close: func() {
		if err := db.Close(); err != nil {
			log.Warn("close the hub's state", slog.Any("err", err))
		}
	}}
	if keyFile == "" {
		keyFile = filepath.Join(state, KeyName)
	}
	if s.Key, err = LoadKey(ctx, keyFile, s.Store, log); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openSharedState opens a state in a database. Its key cannot be made here: all
// hubs that share the state need the same.
func openSharedState(ctx context.Context, scheme, state, keyFile string, log *slog.Logger) (*State, error) {
	key, err := sharedKey(scheme, keyFile)
	if err != nil {
		return nil, err
	}
	if err := checkKeyMode(keyFile, log); err != nil {
		return nil, err
	}
	db, err := stateplace.OpenPostgres(ctx, state)
	if err != nil {
		return nil, err
	}
	return &State{Store: db.Hub(), Key: key, Close: func() {
		if err := db.Close(); err != nil {
			log.Warn("close the hub's state", slog.Any("err", err))
		}
	}}, nil
}

// sharedKey returns the key of a state in a database.
func sharedKey(scheme, keyFile string) ([]byte, error) {
	if scheme != "postgres" && scheme != "postgresql" {
		return nil, term.Usage(fmt.Errorf("--state %s://: want a directory, or the URL of a PostgreSQL database", scheme), "as postgres://user@host/database")
	}
	const hint = "(umask 077; openssl rand -hex 32 > FILE) makes one; give every hub that shares the state the same"
	if keyFile == "" {
		return nil, term.Usage(errors.New("--state postgres://: want the file with the key that seals subscribers' secrets, by --key-file"), hint)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, term.Usage(err, hint)
	}
	return key, nil
}

// LoadKey returns the key in a file, which it creates if it does not exist.
func LoadKey(ctx context.Context, path string, store hubstore.Store, log *slog.Logger) ([]byte, error) {
	if filepath.Base(path) == KeyName { // of ours
		_ = private.Narrow(path) // else it is reported
	}
	key, err := readKey(path)
	if err == nil {
		return key, checkKeyMode(path, log)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := checkUnsealed(ctx, store, path); err != nil {
		return nil, err
	}
	return makeKey(path)
}

// checkUnsealed returns an error if there are secrets of subscribers, which the missing key at path
// has sealed.
func checkUnsealed(ctx context.Context, store hubstore.Store, path string) error {
	for s, err := range store.Subscriptions(ctx, -1) {
		if err != nil {
			return err
		}
		if len(s.Secret) > 0 {
			return term.WithHint(fmt.Errorf("the key that encrypts the secrets of subscribers is missing: %s does not exist", path),
				"bring the file back from where the state was copied from; without it, signed deliveries are not possible")
		}
	}
	return nil
}

// LoadNotedKey returns the key in a note of a state in a database, which it creates if it does
// not exist.
func LoadNotedKey(ctx context.Context, notes statedir.Notes, store hubstore.Store) ([]byte, error) {
	text, err := notes.Load(KeyName)
	if err != nil {
		return nil, fmt.Errorf("read the hub's key: %w", err)
	}
	if text != nil {
		return parseKey(text, notes.Place(KeyName))
	}
	if err := checkUnsealed(ctx, store, notes.Place(KeyName)); err != nil {
		return nil, err
	}
	key, text := newKey()
	if err := notes.Save(KeyName, text); err != nil {
		return nil, fmt.Errorf("save the hub's key: %w", err)
	}
	return key, nil
}

// checkKeyMode refuses a key that every user of the machine can read, and warns if its group
// can.
func checkKeyMode(path string, log *slog.Logger) error {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" {
		return nil // it was just read
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o006 != 0:
		return term.Usage(fmt.Errorf("read the hub's key: every user of this machine has access to %s (mode %04o)", path, mode), "chmod o= "+path)
	case mode&0o060 != 0:
		log.Warn("the group of the file has access to the hub's key", slog.String("file", path), slog.String("mode", info.Mode().Perm().String()))
	}
	return nil
}
