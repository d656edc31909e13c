package bitstream_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	intakedir "lockstep/intake/dir"
	"lockstep/resourcesync"
)

const (
	set  = "https://example.org/resourcesync/main/capabilitylist.xml"
	base = "https://example.org/data/"
)

// tb is what *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t tb, root, rel, text string) {
	t.Helper()
	name := filepath.Join(root, rel)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

// A world is a directory, the catalog it fills, and the stored bytes.
type world struct {
	root   string
	inner  catalog.Catalog
	cat    catalog.Catalog
	store  blob.Store
	keeper *bitstream.Keeper
	dir    *intakedir.Dir
	puts   *patches
}

// newWorld makes a world of the given or of a new catalog and store.
func newWorld(t tb, root string, inner catalog.Catalog, store blob.Store, o bitstream.SetOptions) *world {
	t.Helper()
	w := &world{root: root, inner: inner, store: store, puts: new(patches)}
	if w.inner == nil {
		w.inner = catalog.NewMem(nil)
	}
	if w.store == nil {
		w.store = new(blob.Mem)
	}
	w.keeper = bitstream.New(w.store, bitstream.Options{})
	if o.Open == nil {
		o.Open = func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) { return w.open(r.URI) }
	}
	if o.Patches != nil && o.Patches.Put == nil {
		o.Patches.Put = w.puts.put
	}
	w.cat = w.keeper.Catalog(w.inner, set, o)
	var err error
	w.dir, err = intakedir.New(root, w.cat, set, intakedir.Options{BaseURI: base, AllowEmpty: true})
	must(t, err)
	t.Cleanup(func() { _ = w.dir.Close() })
	return w
}

func (w *world) open(uri string) (io.ReadCloser, error) {
	rel, ok := w.dir.RelPath(uri)
	if !ok {
		return nil, fs.ErrNotExist
	}
	f, _, err := w.dir.Open(rel)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (w *world) scan(t tb) {
	t.Helper()
	_, err := w.dir.Scan(context.Background())
	must(t, err)
}

func (w *world) mark(t tb) catalog.Mark {
	t.Helper()
	m, err := w.cat.Mark(context.Background(), set)
	must(t, err)
	return m
}

func (w *world) sweep(t tb) bitstream.Swept {
	t.Helper()
	s, err := w.keeper.Sweep(context.Background())
	must(t, err)
	return s
}

func (w *world) changes(t tb) []catalog.Change {
	t.Helper()
	var all []catalog.Change
	for c, err := range w.inner.Changes(context.Background(), set, 0) {
		must(t, err)
		all = append(all, c)
	}
	return all
}

// past returns the stored bytes of a change, "" and false if there are none. It
// fails the test if they do not match its hash.
func (w *world) past(t tb, c *catalog.Change) (string, bool) {
	t.Helper()
	r, err := w.keeper.Open(context.Background(), c)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	must(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	must(t, err)
	sum := sha256.Sum256(data)
	if got := c.Hashes.Get(resourcesync.SHA256); got != string(sum[:]) || c.Length != int64(len(data)) {
		t.Fatalf("change %d of %s opens with bytes of another hash", c.Seq, c.URI)
	}
	return string(data), true
}

// blobs returns the number of blobs in the store.
func (w *world) blobs(t tb) int {
	t.Helper()
	n := 0
	for _, err := range w.store.List(context.Background(), "") {
		must(t, err)
		n++
	}
	return n
}

func newDirStore(t testing.TB, path string) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(path, blob.DirOptions{})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}
