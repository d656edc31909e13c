package jsonl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/chunks"
	"lockstep/storage/sqlite"
)

const testSet = "https://example.org/resourcesync/main/capabilitylist.xml"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errKilled = errors.New("killed")

// countingCatalog counts what a scan does, and fails when it is told to.
type countingCatalog struct {
	catalog.Catalog
	rows, updates, whole int
	failFind             bool
	failApply            int  // the number of the Apply that fails, from 1
	applied              bool // it fails after it has applied the updates
}

func (c *countingCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		if c.failFind {
			yield(catalog.Record{}, errKilled)
			return
		}
		if r == (catalog.Range{}) {
			c.whole++
		}
		for rec, err := range c.Catalog.Resources(ctx, set, r) {
			c.rows++
			if !yield(rec, err) {
				return
			}
		}
	}
}

func (c *countingCatalog) Apply(ctx context.Context, set string, updates []catalog.Update) (catalog.Applied, error) {
	c.updates += len(updates)
	c.failApply--
	if c.failApply == 0 && !c.applied {
		return catalog.Applied{}, errKilled
	}
	a, err := c.Catalog.Apply(ctx, set, updates)
	if c.failApply == 0 {
		err = errKilled
	}
	return a, err
}

// newTestList returns a List with short chunks, as a new process would.
func newTestList(t testing.TB, path string, cat catalog.Catalog, o Options) *List {
	t.Helper()
	j, err := New(path, cat, testSet, o)
	must(t, err)
	j.chunkMean = 512
	return j
}

// write replaces the content of a file whose time says that it is old.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, old, old))
}

// line is a line about resource i. Its hash is of the version; lastmod may change alone.
func line(i, version, day int) string {
	return fmt.Sprintf(`{"uri":"http://x.example/%d","length":%d,"hash":"md5:%032x","lastmod":"2024-05-%02dT09:30:00Z"}`, i, version, version, day%28+1)
}

// TestSmallChangeReadsLittle counts what a scan reads and applies after four lines were
// changed, deleted, inserted and appended.
func TestSmallChangeReadsLittle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, state := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "state.json")
	cat := &countingCatalog{Catalog: catalog.NewMem(nil)}
	var lines []string
	for i := range 2500 {
		lines = append(lines, strings.Replace(line(i, 1, 1), "{", `{"title":"x",`, 1))
	}
	scan := func() intake.Report {
		t.Helper()
		cat.rows, cat.updates, cat.whole = 0, 0, 0
		write(t, path, strings.Join(lines, "\n")+"\n")
		r, err := newTestList(t, path, cat, Options{State: state}).Scan(t.Context())
		must(t, err)
		return r
	}
	scan()
	fi, err := os.Stat(state + ".chunks")
	must(t, err)
	if n := fi.Size() / 2500; n > 60 { // chunks of 512 bytes have few lines
		t.Errorf("%d bytes are stored for a line", n)
	}
	for round := range 3 {
		lines[10+round] = line(10+round, 2, 1)
		lines = append(slices.Delete(lines, 1200, 1201), line(6000+round, 1, 1))
		lines = slices.Insert(lines, 1800, line(7000+round, 1, 1))
		r := scan()
		if r.Created != 2 || r.Updated != 1 || r.Deleted != 1 || r.Files != int64(len(lines)) || r.Unchanged != r.Files-3 || r.Skipped.Count != 1 {
			t.Errorf("%+v", r)
		}
		if cat.rows > 4 || cat.updates != 4 || cat.whole > 0 {
			t.Errorf("round %d: %d rows were read and %d updates applied, want at most 4", round, cat.rows, cat.updates)
		}
	}
	lines = append(lines[500:], lines[:500]...)
	if scan(); cat.whole > 0 || cat.updates > 0 {
		t.Errorf("after lines were moved, %d rows were read and %d updates applied", cat.rows, cat.updates)
	}
	for i := range 400 { // so many that the rows of the catalog are read in one go
		lines = append(lines, line(8000+i, 1, 1))
	}
	if r := scan(); cat.whole > 0 || r.Created != 400 || cat.rows > 3000 {
		t.Errorf("after 400 lines were appended: %+v, %d rows", r, cat.rows)
	}
	lines = lines[:len(lines)-3]
	if r := scan(); cat.whole > 0 || r.Deleted != 3 {
		t.Errorf("after three lines were removed from the end: %+v", r)
	}
}

// TestRefreshBeforeAKillIsNotBelieved: a scan that is killed has refreshed a record
// without a change, and then the file is again as it was.
func TestRefreshBeforeAKillIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, state := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "state.json")
	cat := &countingCatalog{Catalog: catalog.NewMem(nil)}
	var lines []string
	for i := range 200 {
		lines = append(lines, line(i, 1, 1))
	}
	scan := func(lines []string) error {
		write(t, path, strings.Join(lines, "\n")+"\n")
		_, err := newTestList(t, path, cat, Options{State: state}).Scan(t.Context())
		return err
	}
	must(t, scan(lines))
	before := contents(t, cat)
	changed := slices.Clone(lines)
	changed[100] = line(100, 1, 2)
	cat.failApply, cat.applied = 1, true
	if err := scan(changed); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if cmp.Equal(before, contents(t, cat)) {
		t.Fatal("nothing was refreshed")
	}
	must(t, scan(lines))
	if diff := cmp.Diff(before, contents(t, cat)); diff != "" {
		t.Errorf("the record is as the killed scan left it (-want +got):\n%s", diff)
	}
}

// TestListThatNeedsAFullReading changes a list so that its new chunks alone would
// mislead.
func TestListThatNeedsAFullReading(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 200 {
		lines = append(lines, line(i, 1, 1))
	}
	lines[0] = "\xef\xbb\xbf" + lines[0]
	lines[100] = ""
	cut, ends := chunks.Cutter{Mean: 512}, []int(nil)
	for i, l := range lines {
		if cut.Ends([]byte(l)) {
			ends = append(ends, i+1)
		}
	}
	insert := func(at int, more ...string) []string { return slices.Insert(slices.Clone(lines), at, more...) }
	for name, changed := range map[string][]string{
		"a change":                     slices.Delete(insert(50, `{"uri":"http://x.example/new","change":"created"}`), 52, 53),
		"a line that is not valid":     insert(50, `{"uri":"http://x.example/new"`),
		"a line that is too long":      append(append(slices.Clone(lines[:100]), strings.Repeat("x", maxLine+1)), lines[101:]...),
		"a byte order mark in between": slices.Concat(lines[ends[0]:ends[1]], lines[:ends[0]], lines[ends[1]:]),
		"a line of an unchanged chunk": insert(150, line(20, 2, 1)),
		"a chunk that is listed twice": insert(ends[9], lines[ends[3]:ends[4]]...),
		"a catalog changed by others":  append(slices.Clone(lines), line(1000, 1, 1)),
	} {
		dir := t.TempDir()
		path, state := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "state.json")
		fast, full := &countingCatalog{Catalog: catalog.NewMem(nil)}, &countingCatalog{Catalog: catalog.NewMem(nil)}
		write(t, path, strings.Join(lines, "\n")+"\n")
		for cat, state := range map[*countingCatalog]string{fast: state, full: ""} {
			_, err := newTestList(t, path, cat, Options{State: state}).Scan(t.Context())
			must(t, err)
		}
		if strings.HasPrefix(name, "a catalog") { // of as many resources, one of them another
			for _, c := range []*countingCatalog{fast, full} {
				_, err := c.Apply(t.Context(), testSet, []catalog.Update{
					{Record: catalog.Record{URI: "http://x.example/7"}, Deleted: true}, {Record: catalog.Record{URI: "http://x.example/other"}},
				})
				must(t, err)
			}
		}
		write(t, path, strings.Join(changed, "\n")+"\n")
		got, err := newTestList(t, path, fast, Options{State: state}).Scan(t.Context())
		must(t, err)
		want, err := newTestList(t, path, full, Options{}).Scan(t.Context())
		must(t, err)
		if diff := cmp.Diff(texts(want), texts(got)) + cmp.Diff(contents(t, full), contents(t, fast)); diff != "" {
			t.Errorf("%s: a full reading has another result (-full):\n%s", name, diff)
		}
	}
}

// TestScanOfChangedListKilled: a process that is killed at any moment while it scans a
// changed list has deleted nothing that is listed, and the next one repairs the rest.
func TestScanOfChangedListKilled(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("JSONL_TEST_KILL"); dir != "" {
		scanSQLite(t, dir)
		return
	}
	dir := t.TempDir()
	const n = 1000
	want := make(map[string]int64)
	for i := range n {
		want[fmt.Sprintf("http://x.example/%d", i)] = 0
	}
	for round := range 6 {
		for i := range n {
			uri := fmt.Sprintf("http://x.example/%d", i)
			if _, ok := want[uri]; ok && rand.IntN(100) == 0 {
				delete(want, uri)
			} else if rand.IntN(100) == 0 {
				want[uri] = int64(round)
			}
		}
		var lines []string
		for i := range n {
			uri := fmt.Sprintf("http://x.example/%d", i)
			if length, ok := want[uri]; ok {
				lines = append(lines, fmt.Sprintf(`{"uri":%q,"length":%d}`, uri, length))
			}
		}
		write(t, filepath.Join(dir, "list.jsonl"), strings.Join(lines, "\n")+"\n")
		c := exec.Command(os.Args[0], "-test.run=^TestScanOfChangedListKilled$")
		c.Env = append(os.Environ(), "JSONL_TEST_KILL="+dir)
		must(t, c.Start())
		if round != 1 && round != 3 { // the others store chunks
			must(t, c.Wait())
			continue
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = c.Process.Kill() })
		_ = c.Wait() // killed, or done before
		kill.Stop()
	}
	got := make(map[string]int64)
	for r, err := range scanSQLite(t, dir).Resources(t.Context(), testSet, catalog.Range{}) {
		must(t, err)
		got[r.URI] = r.Length
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the catalog differs from the list (-want +got):\n%s", diff)
	}
}

func scanSQLite(t *testing.T, dir string) catalog.Catalog {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(dir, "catalog.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = newTestList(t, filepath.Join(dir, "list.jsonl"), db.Catalog(), Options{State: filepath.Join(dir, "state.json"), TempDir: dir}).Scan(t.Context())
	must(t, err)
	return db.Catalog()
}
