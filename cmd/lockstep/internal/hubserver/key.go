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

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/private"
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
	return parseKey(text, path)
}

// parseKey returns the key in a text, which is at path.
func parseKey(text []byte, path string) ([]byte, error) {
	if len(text) == KeySize {
		return text, nil
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != KeySize {
		return nil, term.Usage(fmt.Errorf("read the hub's key: %s does not hold a key", path), "a key is 64 hexadecimal digits, as openssl rand -hex 32 prints")
	}
	return key, nil
}

// makeKey makes a key and keeps it in a file that only its owner can read. The key is
// on disk when makeKey returns: what is sealed with it cannot be read without it.
func makeKey(path string) (key []byte, err error) {
	key, text := newKey()
	switch err := private.Create(path, text); {
	case errors.Is(err, fs.ErrExist): // another process created it first
		return readKey(path)
	case err != nil:
		return nil, fmt.Errorf("save the hub's key: %w", err)
	}
	return key, nil
}

// newKey returns a key, and the text that parseKey takes.
func newKey() (key, text []byte) {
	key = make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key, []byte(hex.EncodeToString(key) + "\n")
}
