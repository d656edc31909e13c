package statedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockstep/destination/journal"
	"lockstep/internal/private"
)

// Notes are the small documents of a state, each with a name: what has to be known beside the
// catalog, and cannot be made again. They are safe for concurrent use.
type Notes interface {
	// Load returns a note; nil: there is none.
	Load(name string) ([]byte, error)

	// Save replaces a note, whole and durably; nil removes it.
	Save(name string, content []byte) error

	// Place returns where a note is, for people.
	Place(name string) string
}

// Files are Notes that are files of a directory.
type Files string

// Load implements [Notes].
func (dir Files) Load(name string) ([]byte, error) {
	content, err := os.ReadFile(dir.Place(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// Save implements [Notes].
func (dir Files) Save(name string, content []byte) error {
	path := dir.Place(name)
	if content != nil {
		return private.Replace(path, content)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return private.SyncDir(string(dir))
}

// Place implements [Notes].
func (dir Files) Place(name string) string { return filepath.Join(string(dir), name) }

// Rows are Notes that are documents of a Journal: rows of a database. The Journal of the database
// of a Source is used for nothing else.
type Rows struct{ Journal journal.Journal }

// rowPrefix begins the names of notes in a Journal.
const rowPrefix = "source/"

// rowTime is how long reading or writing a note may take: a database that does not answer is
// reported.
const rowTime = 30 * time.Second

// Load implements [Notes].
func (r Rows) Load(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rowTime)
	defer cancel()
	return r.Journal.Load(ctx, rowPrefix+name)
}

// Save implements [Notes].
func (r Rows) Save(name string, content []byte) error {
	return r.SaveAll(map[string][]byte{name: content})
}

// SaveAll is Save of several notes in one transaction.
func (r Rows) SaveAll(notes map[string][]byte) error {
	save := make(map[string][]byte, len(notes))
	for name, content := range notes {
		save[rowPrefix+name] = content
	}
	ctx, cancel := context.WithTimeout(context.Background(), rowTime)
	defer cancel()
	return r.Journal.Record(ctx, journal.Batch{Save: save})
}

// Place implements [Notes].
func (r Rows) Place(name string) string { return name + " in the database" }

// ReadJSON reads a note into v, which it leaves as it is if there is none.
func ReadJSON(notes Notes, name string, v any) error {
	text, err := notes.Load(name)
	if err == nil && text != nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", notes.Place(name), err)
	}
	return nil
}

// WriteJSON replaces a note, whole and durably.
func WriteJSON(notes Notes, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err == nil {
		err = notes.Save(name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", notes.Place(name), err)
	}
	return nil
}
