// Package readers checks the credentials of the readers of private sets: bearer tokens,
// and names with passwords. Only hashes of them are configured, in lines of the form that
// htpasswd writes:
//
//	alice:$2y$05$…        name and bcrypt hash of a password
//	bob:sha256:9f86d08…   name and SHA-256 hash, in hexadecimal digits, of a random token
//
// A token is accepted as a bearer token, or as the password of its name.
package readers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"lockstep/cmd/lockstep/internal/term"
)

const (
	// FilePrefix begins an entry of a configuration that names a file of lines.
	FilePrefix = "file:"

	// tokenPrefix begins the hash of a token.
	tokenPrefix = "sha256:"

	// maxCost is the largest cost of a bcrypt hash: checking a password takes a second
	// of a processor then, for each client.
	maxCost = 14

	// maxFile caps a file of lines: a larger one is something else.
	maxFile = 4 << 20

	// racyTime is the age of a file below which another change may not be visible
	// in its times.
	racyTime = 2 * time.Second
)

// A line is the credential of a reader.
type line struct {
	name   string
	token  []byte // hash of a token; nil: it is a password
	bcrypt string // hash of a password
}

// parseLine reads a line. Its errors do not repeat hashes.
func parseLine(text string) (l line, err error) {
	const forms = "write NAME:sha256:HEX as lockstep reader NAME prints it, or NAME:$2y$… as htpasswd -nB NAME prints it"
	name, hash, ok := strings.Cut(text, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return l, term.WithHint(errors.New("an entry begins with the name of a reader and a colon"), forms)
	}
	l.name = name
	if digits, ok := strings.CutPrefix(hash, tokenPrefix); ok {
		if l.token, err = hex.DecodeString(digits); err != nil || len(l.token) != sha256.Size {
			return l, term.WithHint(fmt.Errorf("reader %s: %s is not followed by the %d hexadecimal digits of a hash", name, tokenPrefix, 2*sha256.Size), forms)
		}
		return l, nil
	}
	cost, err := bcrypt.Cost([]byte(hash))
	switch {
	case err != nil:
		return l, term.WithHint(fmt.Errorf("reader %s: what follows the name is no hash of a password or token", name), forms)
	case cost > maxCost:
		return l, term.WithHint(fmt.Errorf("reader %s: to check a password of cost %d takes too long, for every client", name, cost), fmt.Sprintf("use a cost of at most %d, as htpasswd -nB -C 10 %s", maxCost, name))
	}
	l.bcrypt = hash
	return l, nil
}

// A List is the readers of a set: lines of its configuration, and of files, which are read
// again when they change. It is safe for concurrent use.
type List struct {
	fixed []line
	files []*file
}

// Open reads the entries of a configuration: each is a line, or the name of a file after
// "file:".
func Open(entries []string) (*List, error) {
	list := &List{}
	for _, e := range entries {
		if path, ok := strings.CutPrefix(e, FilePrefix); ok {
			f := &file{path: path}
			if _, err := f.lines(); err != nil {
				return nil, err
			}
			list.files = append(list.files, f)
			continue
		}
		l, err := parseLine(e)
		if err != nil {
			return nil, term.WithHint(fmt.Errorf("readers: %w", err), term.HintOf(err))
		}
		list.fixed = append(list.fixed, l)
	}
	if len(list.fixed)+len(list.files) == 0 {
		return nil, term.WithHint(errors.New("readers: there are none"), "name a reader, or leave readers out: then the set is public")
	}
	return list, nil
}

// lines returns the readers at the moment. After an error they are those of the files that
// could be read.
func (l *List) lines() (all []line, err error) {
	all = l.fixed
	for _, f := range l.files {
		some, ferr := f.lines()
		all, err = append(all[:len(all):len(all)], some...), errors.Join(err, ferr)
	}
	return all, err
}

// A file is a file of lines.
type file struct {
	path string
	last atomic.Pointer[content]
}

// A content is that of the file at one time.
type content struct {
	info  os.FileInfo
	read  time.Time
	lines []line
}

// lines returns the lines of the file as it is now.
func (f *file) lines() ([]line, error) {
	now := time.Now()
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("readers: %w", err)
	}
	last := f.last.Load()
	if last != nil && os.SameFile(last.info, info) && last.info.Size() == info.Size() &&
		last.info.ModTime().Equal(info.ModTime()) && last.read.Sub(info.ModTime()) > racyTime {
		return last.lines, nil
	}
	text, err := readFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("readers: %w", err)
	}
	fresh := &content{info: info, read: now}
	n := 0
	for text := range bytes.Lines(text) {
		n++
		if text = bytes.TrimSpace(text); len(text) == 0 || text[0] == '#' {
			continue
		}
		l, err := parseLine(string(text))
		if err != nil {
			return nil, term.WithHint(fmt.Errorf("readers: %s, line %d: %w", f.path, n, err), term.HintOf(err))
		}
		fresh.lines = append(fresh.lines, l)
	}
	f.last.Store(fresh)
	return fresh.lines, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %s", path, term.Size(maxFile))
	}
	return text, err
}
