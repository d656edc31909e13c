package trust

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"lockstep/internal/private"
)

const (
	// maxTokenFile caps a token file: a larger one is some other file.
	maxTokenFile = 64 << 10
	// tokenBytes is the number of random bytes in a generated token.
	tokenBytes = 32
	// racyTime is the age of a file below which another change may not be visible
	// in its times.
	racyTime = 2 * time.Second
)

// ErrTokens is wrapped by every error about a token file.
var ErrTokens = errors.New("token file")

// Tokens are the tokens of a file, one per line. The file is read again when it
// changes, so that a token can be revoked in a running process. They are safe
// for concurrent use.
type Tokens struct {
	path string
	last atomic.Pointer[tokenState]
}

// A tokenState is the content of the file at one time.
type tokenState struct {
	info os.FileInfo
	read time.Time
	text []string
	sums [][sha256.Size]byte // hashes, so that all have the same length
}

// ReadTokens returns the tokens of a file.
func ReadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	_, err := t.load()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// MakeTokens returns the tokens of a file, and creates it with one random token
// and mode 0600 if it does not exist. It removes the permissions of others from
// the file.
func MakeTokens(path string) (*Tokens, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := generate(path); err != nil {
			return nil, fmt.Errorf("%w: make a token: %w", ErrTokens, err)
		}
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrTokens, err)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, fmt.Errorf("%w %s can be read by others: %w", ErrTokens, path, err)
		}
	}
	return ReadTokens(path)
}

// generate writes a new token to a file. If another process is faster, its token is
// kept.
func generate(path string) error {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	err := private.Create(path, []byte(hex.EncodeToString(b)+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// load returns the tokens of the file as it is now.
func (t *Tokens) load() (*tokenState, error) {
	now := time.Now()
	info, err := os.Stat(t.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTokens, err)
	}
	last := t.last.Load()
	if last != nil && os.SameFile(last.info, info) && last.info.Size() == info.Size() &&
		last.info.ModTime().Equal(info.ModTime()) && last.read.Sub(info.ModTime()) > racyTime {
		return last, nil
	}
	f, err := os.Open(t.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTokens, err)
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTokens, err)
	}
	if len(text) > maxTokenFile {
		return nil, fmt.Errorf("%w %s: is larger than %d bytes", ErrTokens, t.path, maxTokenFile)
	}
	fresh := &tokenState{info: info, read: now}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			fresh.text = append(fresh.text, string(line))
			fresh.sums = append(fresh.sums, sha256.Sum256(line))
		}
	}
	if len(fresh.sums) == 0 {
		return nil, fmt.Errorf("%w %s: has no token in it", ErrTokens, t.path)
	}
	t.last.Store(fresh)
	return fresh, nil
}

// Allow reports whether token is one of the file's. Its running time reveals
// nothing about the tokens.
func (t *Tokens) Allow(token string) (bool, error) {
	s, err := t.load()
	if err != nil {
		return false, err
	}
	return contains(s.sums, token), nil
}

// Current returns the tokens, read again if their file has changed.
func (t *Tokens) Current() ([]string, error) {
	s, err := t.load()
	if err != nil {
		return nil, err
	}
	return s.text, nil
}

// All returns the tokens as they were when last read.
func (t *Tokens) All() []string { return t.last.Load().text }

// Contains reports whether token is one of tokens, in a time that says nothing
// of them.
func Contains(tokens []string, token string) bool {
	sums := make([][sha256.Size]byte, len(tokens))
	for i, t := range tokens {
		sums[i] = sha256.Sum256([]byte(t))
	}
	return contains(sums, token)
}

func contains(sums [][sha256.Size]byte, token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for i := range sums {
		found |= subtle.ConstantTimeCompare(sum[:], sums[i][:])
	}
	return found == 1
}
