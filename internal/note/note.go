// Package note keeps short texts beside the state of a mirror.
package note

import (
	"errors"
	"io/fs"
	"os"

	"lockstep/internal/private"
)

// A Note is a short text.
type Note interface {
	Read() ([]byte, error) // nil: there is none
	Write(text []byte) error
}

// A File is a Note in a file, by its path. It is replaced whole and durably.
type File string

// Read implements [Note].
func (f File) Read() ([]byte, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Write implements [Note].
func (f File) Write(text []byte) error { return private.Replace(string(f), text) }
