package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/internal/note"
	"lockstep/internal/private"
	"lockstep/internal/statedir"
	"lockstep/storage/postgres"
	"lockstep/storage/sqlite"
)

// A memory is the state of a mirror in a bucket.
type memory struct {
	dir      string // of the state, or of what can be made again; "" where there is no mirror yet
	journal  journal.Journal
	https    note.Note
	run      note.Note       // of the last run
	lost     <-chan struct{} // closed when another process has taken the state; nil: none can
	scratch  blob.Scratcher  // nil where there is no mirror yet
	mayWrite func() error    // returns why this process must not write to the mirror any more
	closers  []func() error  // in the order in which they were opened
}

// close closes the memory.
func (m *memory) close() error {
	var err error
	for i := len(m.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, m.closers[i]())
	}
	return err
}

// openMemory opens the state of the mirror in dest for a process that runs command. With
// readOnly it makes nothing where there is no mirror yet.
func openMemory(ctx context.Context, place stateplace.Place, dest, command string, readOnly bool, log *slog.Logger) (_ *memory, err error) {
	none := &memory{journal: &journal.Mem{}, mayWrite: func() error { return nil }}
	if readOnly {
		there, err := isThere(ctx, place)
		if err != nil || !there {
			return none, err
		}
	}
	m := &memory{dir: place.Dir, mayWrite: none.mayWrite}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if err := statedir.Make(place.Dir, log); err != nil {
		return nil, err
	}
	lock, err := lockMirror(place.Dir)
	if err != nil {
		return nil, err
	}
	m.closers = append(m.closers, lock.Close)
	scratch, err := blob.NewDir(place.Dir, blob.DirOptions{})
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	m.scratch = scratch
	m.closers = append(m.closers, scratch.Close)
	if place.InDatabase() {
		return m, m.openShared(ctx, place, dest, command, log)
	}
	if err := nameStateOf(place.Dir, dest); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(database(place.Dir))
	if err != nil {
		return nil, explainLock(err)
	}
	m.closers = append(m.closers, db.Close)
	m.journal, m.https, m.run = db.Journal(), mirrordir.HTTPSNote(place.Dir), mirrordir.RunNote(place.Dir)
	return m, nameJournalOf(m.journal, dest)
}

// openShared opens a state in a database, and takes it for this process.
func (m *memory) openShared(ctx context.Context, place stateplace.Place, dest, command string, log *slog.Logger) error {
	db, owner, err := place.OpenOwned(ctx, command, log)
	if err != nil {
		return err
	}
	m.closers = append(m.closers, db.Close, owner.Close)
	m.journal, m.mayWrite, m.lost = db.Journal(), owner.Err, owner.Lost()
	m.https, m.run = document{m.journal, mirrordir.HTTPSHost}, document{m.journal, lastrun.Name}
	of := document{m.journal, StateOf}
	whose, err := of.Read()
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	if whose != nil {
		return belongs(place.String(), string(whose), dest)
	}
	if err := checkNoSource(m.journal, place); err != nil {
		return err
	}
	if resources, err := m.journal.Load(ctx, "counts"); err != nil || resources != nil {
		return errors.Join(err, term.Usage(fmt.Errorf("--state %s: it does not say to which mirror it belongs", place),
			"give a database of its own, or a schema of one by ?search_path=NAME; if it was copied from a directory, run sync with --state DIR once, and copy it again"))
	}
	return of.Write([]byte(dest))
}

// checkNoSource refuses the database of a Source for a mirror: it may have the resources of upstreams.
func checkNoSource(j journal.Journal, place stateplace.Place) error {
	used, err := statedir.IsUsed(statedir.Rows{Journal: j})
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	if used {
		return term.Usage(fmt.Errorf("--state %s: it is the state of a Source", place), "give a database of its own, or a schema of one by ?search_path=NAME")
	}
	return nil
}

// isThere reports whether there is a state at a place.
func isThere(ctx context.Context, place stateplace.Place) (bool, error) {
	if !place.InDatabase() {
		_, err := os.Stat(database(place.Dir))
		return !errors.Is(err, fs.ErrNotExist), nil
	}
	db, err := place.OpenReader(ctx)
	if errors.Is(err, postgres.ErrEmpty) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, db.Close()
}

// database returns the database of a state in a directory.
func database(dir string) string {
	return filepath.Join(dir, filepath.FromSlash(destination.StateFile))
}

// StateOf is the file in a state directory, or the document in a database, that names the
// mirror it belongs to.
const StateOf = "destination"

// checkStateOf refuses a state directory that belongs to another mirror: what
// it says is held would be held against this one.
func checkStateOf(state, dest string) error {
	text, err := os.ReadFile(filepath.Join(mirrordir.State(state), StateOf))
	switch {
	case err == nil:
		return belongs(state, strings.TrimSpace(string(text)), dest)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the state: %w", err)
	}
	if _, err := os.Stat(database(state)); err == nil {
		return term.Usage(fmt.Errorf("--state %s is a mirror itself", state), "give a directory of its own")
	}
	return nil
}

// belongs refuses a state that belongs to another mirror than dest.
func belongs(state, whose, dest string) error {
	if whose == dest {
		return nil
	}
	return term.Usage(fmt.Errorf("--state %s belongs to %s, not to %s", state, whose, dest), "give each mirror its own --state")
}

// nameStateOf records which mirror the state in a directory, which is locked, belongs to: an earlier checkStateOf may be
// outdated. A killed process must not leave part of a name.
func nameStateOf(state, dest string) error {
	if err := checkStateOf(state, dest); err != nil {
		return err
	}
	path := filepath.Join(mirrordir.State(state), StateOf)
	if _, err := os.Stat(path); err == nil {
		return nil // it is this name
	}
	if err := private.Replace(path, []byte(dest+"\n")); err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	return nil
}

// nameJournalOf records which mirror a journal belongs to, so that a copy of it says that.
func nameJournalOf(j journal.Journal, dest string) error {
	of := document{j, StateOf}
	if whose, err := of.Read(); err != nil || string(whose) == dest {
		return err
	}
	return of.Write([]byte(dest))
}

// A document is a note in the journal of a mirror.
type document struct {
	journal journal.Journal
	name    string
}

// documentTime is how long a database may take to answer: its connection may have broken unnoticed.
const documentTime = time.Minute

// Read implements [note.Note].
func (d document) Read() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), documentTime)
	defer cancel()
	return d.journal.Load(ctx, d.name)
}

// Write implements [note.Note].
func (d document) Write(text []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), documentTime)
	defer cancel()
	return d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{d.name: text}})
}
