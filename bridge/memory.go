package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/intake/harvest/ledger"
	"lockstep/internal/private"
	"lockstep/storage/sqlite"
)

// The files of a memory. Each contains the ID of its memory in its name or its
// content, so that files of different memories are never mixed.
const (
	filePrefix = "harvest"
	database   = filePrefix + ".db"
)

// cacheSize is small, in KiB: the Journal has a cache as well, and most data is
// read once.
const cacheSize = 1 << 10

// setName names the only set of the catalog.
const setName = "harvest"

// docMemory is the document of the database's Journal that identifies the
// memory's Source: a memoryState.
const docMemory = "memory"

type memoryState struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	URI  string `json:"uri"`
}

// A memory is the harvested state of one Source.
//
//	harvest.db          the catalog, and what the intake stores in the database
//	harvest-ID.json     the progress of the intake; without it, the intake starts again
type memory struct {
	memoryState
	dir  string
	db   *sqlite.DB // nil: the memory has no database
	temp bool       // delete dir when the memory is closed

	cat    catalog.Catalog
	ledger ledger.Ledger
}

// remember opens the memory of f. With readOnly it opens a temporary copy,
// which is deleted when it is closed, or when a memory is next opened for
// writing.
func (b *Bridge) remember(ctx context.Context, f discover.Foreign, readOnly bool) (*memory, error) {
	if b.opts.Dir == "" {
		return newMemory(ctx, f)
	}
	m := &memory{dir: b.opts.Dir}
	var err error
	if readOnly {
		m.dir, err = os.MkdirTemp(b.opts.Dir, filePrefix+"-look-")
		if errors.Is(err, fs.ErrNotExist) {
			return newMemory(ctx, f)
		}
		if m.temp = err == nil; m.temp {
			err = copyMemory(m.dir, b.opts.Dir)
		}
	} else {
		err = private.Dir(m.dir)
	}
	if err == nil {
		err = m.open(ctx, f)
	}
	if err != nil {
		err = fmt.Errorf("open the memory of what is harvested: %w", err)
		if errors.Is(err, sqlite.ErrDamaged) {
			err = fmt.Errorf("%w; without that file everything is harvested again, and resources that were deleted in the meantime may remain", err)
		}
		return nil, errors.Join(err, m.discard())
	}
	return m, nil
}

// newMemory returns a memory that leaves no files behind.
func newMemory(ctx context.Context, f discover.Foreign) (*memory, error) {
	m := &memory{memoryState: memoryState{ID: rand.Text(), Kind: f.Kind, URI: f.URI}, ledger: new(ledger.Mem)}
	m.cat = &smallCatalog{catalog.NewMem(nil), maxInMemory}
	_, err := m.cat.Mark(ctx, setName)
	return m, err
}

// maxInMemory is the maximum number of changes held without a database: some
// hundred MB.
const maxInMemory = 250_000

// smallCatalog is a Catalog in memory of limited size.
type smallCatalog struct {
	catalog.Catalog
	most catalog.Seq
}

// Apply implements [catalog.Catalog].
func (c *smallCatalog) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	a, err := c.Catalog.Apply(ctx, set, us)
	if st, serr := c.Status(ctx, set); err == nil && serr == nil && st.Last > c.most {
		err = fmt.Errorf("%w: more than %d records", destination.ErrScratch, c.most)
	}
	return a, err
}

// open opens the database. It replaces an existing one if that is the memory of
// another Source.
func (m *memory) open(ctx context.Context, f discover.Foreign) error {
	path := filepath.Join(m.dir, database)
	for again := false; ; again = true {
		db, err := sqlite.Options{Cache: cacheSize}.Open(path)
		if err != nil {
			return err
		}
		err = m.recall(ctx, db, f)
		switch {
		case err == nil && m.Kind == f.Kind && m.URI == f.URI:
			m.db, m.cat, m.ledger = db, db.Catalog(), db.Ledger()
			return m.tidy()
		case err == nil && !again:
			err = db.Close()
		default:
			err = cmp.Or(err, errors.New("it does not store what is written"))
			_ = db.Close() // err is more important
		}
		if err == nil {
			err = removeDatabase(path)
		}
		if err != nil {
			return err
		}
	}
}

// recall reads which Source db belongs to; it assigns a new database to f.
func (m *memory) recall(ctx context.Context, db *sqlite.DB, f discover.Foreign) error {
	text, err := db.Journal().Load(ctx, docMemory)
	if err != nil {
		return err
	}
	if text != nil {
		return json.Unmarshal(text, &m.memoryState)
	}
	// From here on the database records changes.
	if _, err := db.Catalog().Mark(ctx, setName); err != nil {
		return err
	}
	m.memoryState = memoryState{ID: rand.Text(), Kind: f.Kind, URI: f.URI}
	if text, err = json.Marshal(m.memoryState); err != nil {
		return err
	}
	return db.Journal().Record(ctx, journal.Batch{Save: map[string][]byte{docMemory: text}})
}

// removeDatabase removes a database, its write-ahead log first: if the removal is
// interrupted, the remaining file is an older database of the same Source.
func removeDatabase(path string) error {
	for _, end := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// state returns the path of the file in which the intake stores its progress.
func (m *memory) state() string {
	if m.db == nil {
		return ""
	}
	return filepath.Join(m.dir, filePrefix+"-"+m.ID+".json")
}

// tidy removes files of memories that no longer exist.
func (m *memory) tidy() error {
	found, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range found {
		if name := e.Name(); strings.HasPrefix(name, filePrefix+"-") && !strings.HasPrefix(name, filePrefix+"-"+m.ID) {
			if err := os.RemoveAll(filepath.Join(m.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// contents returns the stored contents that the Destination has not read yet;
// nil if contents are not stored.
func (m *memory) contents() intake.Contents {
	if m.db == nil {
		return nil
	}
	return &fewReaders{m.db.Contents(), make(chan struct{}, maxReaders)}
}

// maxReaders is how many contents are read from the database at a time. A
// Destination requests hundreds, and each needs a connection with its own cache
// and three open files.
const maxReaders = 4

// fewReaders is Contents that limits concurrent reads.
type fewReaders struct {
	intake.Contents
	slots chan struct{}
}

// Get implements [intake.Contents].
func (f *fewReaders) Get(ctx context.Context, set, uri, hash string) ([]byte, error) {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-f.slots }()
	return f.Contents.Get(ctx, set, uri, hash)
}

func (m *memory) catalog() catalog.Catalog { return m.cat }

// close releases the memory's resources.
func (m *memory) close() error {
	if m.db == nil {
		return nil
	}
	err := m.db.Close()
	return errors.Join(err, m.discard())
}

// discard removes data that is not to be stored.
func (m *memory) discard() error {
	if !m.temp {
		return nil
	}
	return os.RemoveAll(m.dir)
}

// copyMemory copies the files of a memory that no process has open.
func copyMemory(to, from string) error {
	found, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range found {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, filePrefix) || strings.HasSuffix(name, "-shm") {
			continue
		}
		if err := copyFile(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
