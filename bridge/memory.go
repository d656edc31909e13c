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
	"lockstep/discover"
	"lockstep/intake"
	"lockstep/internal/private"
	"lockstep/storage/sqlite"
)

// The files of a memory. All that belongs to one has its ID in a name or inside:
// of two files of different memories neither is taken for the other's.
const (
	filePrefix = "harvest"
	database   = filePrefix + ".db"
)

// cacheSize is small, in KiB: beside it is the Journal's, and what is read is
// mostly read once.
const cacheSize = 2 << 10

// setName names the only set of the catalog.
const setName = "harvest"

// docMemory is what the database is the memory of, in a document of its Journal:
// a memoryState.
const docMemory = "memory"

type memoryState struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	URI  string `json:"uri"`
}

// A memory is what was harvested from one Source.
//
//	harvest.db          the catalog, and what the intake keeps in the database
//	harvest-ID.json     how far the intake is; without it, it begins anew
type memory struct {
	memoryState
	dir  string
	db   *sqlite.DB // nil: it is nowhere but here
	temp bool       // dir goes when it is closed

	cat    catalog.Catalog
	ledger intake.Ledger
}

// remember opens the memory of f. With readOnly it is a copy beside it, which
// goes when it is closed, or with the next memory that is opened for good.
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

// newMemory returns a memory that leaves no trace.
func newMemory(ctx context.Context, f discover.Foreign) (*memory, error) {
	m := &memory{memoryState: memoryState{ID: rand.Text(), Kind: f.Kind, URI: f.URI}, ledger: new(intake.MemLedger)}
	m.cat = &smallCatalog{catalog.NewMem(nil), maxInMemory}
	_, err := m.cat.Mark(ctx, setName)
	return m, err
}

// maxInMemory is how many changes are held where there is no place for a
// database: some hundred MB.
const maxInMemory = 250_000

// smallCatalog is a Catalog in memory that does not outgrow it.
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

// open opens the database, one that has only just been made if what is there is
// the memory of another Source.
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
			_ = db.Close() // err says more
		}
		if err == nil {
			err = removeDatabase(path)
		}
		if err != nil {
			return err
		}
	}
}

// recall reads what db is the memory of; a new one is made that of f.
func (m *memory) recall(ctx context.Context, db *sqlite.DB, f discover.Foreign) error {
	text, err := db.Journal().Load(ctx, docMemory)
	if err != nil {
		return err
	}
	if text != nil {
		return json.Unmarshal(text, &m.memoryState)
	}
	// From here on its changes are kept.
	if _, err := db.Catalog().Mark(ctx, setName); err != nil {
		return err
	}
	m.memoryState = memoryState{ID: rand.Text(), Kind: f.Kind, URI: f.URI}
	if text, err = json.Marshal(m.memoryState); err != nil {
		return err
	}
	return db.Journal().Record(ctx, destination.Batch{Save: map[string][]byte{docMemory: text}})
}

// removeDatabase removes a database, what it needs to be whole first: without
// its log it is an older one, still of the same Source.
func removeDatabase(path string) error {
	for _, end := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// state is the path of the file in which the intake keeps how far it is.
func (m *memory) state() string {
	if m.db == nil {
		return ""
	}
	return filepath.Join(m.dir, filePrefix+"-"+m.ID+".json")
}

// tidy removes what is left of memories that are no more.
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

// contents are those the catalog tells of and that were not asked for yet; nil:
// they are kept nowhere.
func (m *memory) contents() intake.Contents {
	if m.db == nil {
		return nil
	}
	return &fewReaders{m.db.Contents(), make(chan struct{}, maxReaders)}
}

// maxReaders is how many contents are read from the database at a time. A
// Destination asks for hundreds, and each is a connection, with a cache of its
// own and three open files.
const maxReaders = 4

// fewReaders is Contents that is read by a few at a time.
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

// close gives back what is held.
func (m *memory) close() error {
	if m.db == nil {
		return nil
	}
	err := m.db.Close()
	return errors.Join(err, m.discard())
}

// discard removes what is not to be remembered.
func (m *memory) discard() error {
	if !m.temp {
		return nil
	}
	return os.RemoveAll(m.dir)
}

// copyMemory copies the files of a memory that nobody has open.
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
