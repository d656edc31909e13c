package versions_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/internal/statedir"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/storage/sqlite"
)

// A flakyIndex is an index of versions that cannot be written while it fails.
type flakyIndex struct {
	memento.Store
	fails bool
}

func (x *flakyIndex) Append(ctx context.Context, set string, cursor int64, vs []memento.Version) error {
	if x.fails {
		return errors.New("the disk is full")
	}
	return x.Store.Append(ctx, set, cursor, vs)
}

// TestMissingVersions: a version that could not be stored is tried again, also by the next
// process, and after an attempt that failed.
func TestMissingVersions(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const list, uri = "https://example.org/resourcesync/main/capabilitylist.xml", "https://example.org/a.txt"
	state, ctx := t.TempDir(), t.Context()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	must(err)
	t.Cleanup(func() { _ = db.Close() })
	index := &flakyIndex{Store: db.Versions()}
	file := filepath.Join(t.TempDir(), "a.txt")
	sets := []config.Set{{Versions: new(config.Versions)}}
	reporter := &sourcereport.Reporter{IO: term.IO{Err: io.Discard}, Quiet: true}

	// start begins as a process does.
	start := func() (*versions.Upkeep, catalog.Catalog) {
		place, err := contentplace.Open(ctx, contentplace.Options{StateDir: state, State: statedir.State{Notes: statedir.Files(state)}})
		must(err)
		store, err := versions.Open(ctx, place, statedir.Files(state), sets, index)
		must(err)
		t.Cleanup(store.Close)
		keeper := bitstream.New(new(blob.Mem), bitstream.Options{Vault: store.Vault(nil), Index: index})
		cat := keeper.Catalog(db.Catalog(), list, bitstream.SetOptions{
			Open:     func(context.Context, *catalog.Record) (io.ReadCloser, error) { return os.Open(file) },
			Versions: &bitstream.VersionOptions{Base: "https://example.org/"},
		})
		u := &versions.Upkeep{
			Store: store, Keeper: keeper, Status: db.Catalog().Status, Sets: []versions.Set{{Name: "main", List: list}}, Log: slog.New(slog.DiscardHandler),
			Listed: func(context.Context, string) (catalog.Seq, []catalog.Mark, error) { return 0, nil, nil },
		}
		must(u.Begin(ctx))
		u.Adopt(ctx, reporter)
		return u, cat
	}
	// put has a resource change to text that cannot be read yet.
	put := func(cat catalog.Catalog, text string) {
		t.Helper()
		must(os.RemoveAll(file))
		sum := sha256.Sum256([]byte(text))
		_, err := cat.Apply(ctx, list, []catalog.Update{{Record: catalog.Record{
			URI: uri, Length: int64(len(text)), Hashes: resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}, Token: text,
		}}})
		must(err)
		must(os.WriteFile(file, []byte(text), 0o644))
	}
	isKept := func(text string) bool {
		t.Helper()
		sum := sha256.Sum256([]byte(text))
		for v, err := range index.List(ctx, uri, time.Time{}) {
			must(err)
			if v.Digest == sum {
				return true
			}
		}
		return false
	}

	u, cat := start()
	_, err = cat.Mark(ctx, list)
	must(err)
	put(cat, "first")
	index.fails = true
	u.Adopt(ctx, reporter)
	if isKept("first") {
		t.Fatal("the index was to fail")
	}
	index.fails = false
	u.Adopt(ctx, reporter)
	if !isKept("first") {
		t.Error("after an attempt that failed a version is not tried again")
	}

	put(cat, "second")
	u, _ = start()
	running, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- u.Run(running, reporter) }()
	for end := time.Now().Add(time.Minute / 2); !isKept("second"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("after a restart a version is not tried again")
			break
		}
	}
	stop()
	must(<-done)
}
