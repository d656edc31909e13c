package hubserver

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/cmd/lockstep/internal/term"
)

// KeySize is how long the key is that seals subscribers' secrets.
const KeySize = 32

// KeyName is what the file with it is called in a state directory.
const KeyName = "hub.key"

// readKey reads a key from a file: 64 hexadecimal digits, or the bytes
// themselves.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the hub's key: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, 4*KeySize))
	if err != nil {
		return nil, fmt.Errorf("read the hub's key: %w", err)
	}
	if len(text) == KeySize {
		return text, nil
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != KeySize {
		return nil, term.Usage(fmt.Errorf("read the hub's key: %s does not hold a key", path), "a key is 64 hexadecimal digits, as openssl rand -hex 32 prints")
	}
	return key, nil
}

// makeKey makes a key and keeps it in a file that only its owner can read. The
// file is whole as soon as it is there, and on disk when makeKey returns: what
// is sealed with the key cannot be read without it.
func makeKey(path string) (key []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("save the hub's key: %w", err)
		}
	}()
	key = make([]byte, KeySize)
	_, _ = rand.Read(key)                                     // never fails
	f, err := os.CreateTemp(filepath.Dir(path), KeyName+".*") // only its owner can read it
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // has its other name by then, or is of no use
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	switch err := os.Link(f.Name(), path); { // unlike Rename it replaces nothing
	case errors.Is(err, fs.ErrExist): // another process created it first
		return readKey(path)
	case err != nil:
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		if err := os.Rename(f.Name(), path); err != nil { // a file system without links
			return nil, err
		}
	}
	return key, syncDir(filepath.Dir(path))
}

// syncDir has the names in a directory on disk when it returns.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every system can
	return d.Close()
}
