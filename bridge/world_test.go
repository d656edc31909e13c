package bridge_test

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/bridge"
	"lockstep/destination"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/storage/sqlite"
)

// A mirror is a directory that is synchronized by consecutive runs, each of
// which opens everything again.
type mirror struct {
	t       testing.TB
	dir     string
	address string
	opts    destination.Options
	nowhere bool // harvest in memory
	bridge  bridge.Options
}

func newMirror(t testing.TB, address string) *mirror {
	return &mirror{t: t, dir: t.TempDir(), address: address}
}

// run opens the mirror for do.
func (m *mirror) run(do func(*destination.Destination) error) error {
	m.t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.address), Retries: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	store, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close()
	own := filepath.Join(m.dir, ".lockstep")
	if err := os.MkdirAll(own, 0o777); err != nil {
		m.t.Fatal(err)
	}
	db, err := sqlite.Open(filepath.Join(own, "state.db"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer db.Close()
	o, b := m.opts, m.bridge
	if b.Dir = own; m.nowhere {
		b.Dir = ""
	}
	o.Bridge = bridge.New(c, b).Open
	d, err := destination.New(store, db.Journal(), c, o)
	if err != nil {
		m.t.Fatal(err)
	}
	return do(d)
}

func (m *mirror) sync() (r destination.Report, err error) { return m.syncWithin(m.t.Context()) }

func (m *mirror) syncWithin(ctx context.Context) (r destination.Report, err error) {
	m.t.Helper()
	err = m.run(func(d *destination.Destination) (err error) {
		r, err = d.Sync(ctx, m.address)
		return err
	})
	return r, err
}

func (m *mirror) mustSync() destination.Report {
	m.t.Helper()
	r, err := m.sync()
	if err != nil {
		m.t.Fatalf("Sync: %v\n%+v", err, r)
	}
	return r
}

// files returns the mirror's files, without Lockstep's own state.
func (m *mirror) files() map[string]string {
	m.t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".lockstep":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(m.dir, path)
		got[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return got
}

func (m *mirror) holds(want map[string]string) {
	m.t.Helper()
	if d := cmp.Diff(want, m.files()); d != "" {
		m.t.Fatalf("mirror (-want +got):\n%.3000s", d)
	}
}

// state returns the names of the memory's files.
func (m *mirror) state() (names []string) {
	m.t.Helper()
	found, err := os.ReadDir(filepath.Join(m.dir, ".lockstep"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	for _, e := range found {
		if strings.HasPrefix(e.Name(), "harvest") {
			names = append(names, e.Name())
		}
	}
	return names
}

// rounds is the number of random histories.
var rounds = flag.Int("rounds", 5, "how many random histories TestRepositoryConverges and TestFeedConverges try, each")

// forget deletes the memory of the harvest.
func (m *mirror) forget() {
	m.t.Helper()
	for _, name := range m.state() {
		if err := os.Remove(filepath.Join(m.dir, ".lockstep", name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // a killed process leaves it
			m.t.Fatal(err)
		}
	}
}
