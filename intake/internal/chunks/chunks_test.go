package chunks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cut returns the chunks of lines.
func cut(lines [][]byte, mean int) (all [][]byte) {
	c, text := Cutter{Mean: mean}, []byte(nil)
	for _, l := range lines {
		text = append(append(text, l...), '\n')
		if c.Ends(l) {
			all, text = append(all, text), nil
		}
	}
	return append(all, text)
}

// TestChunksAreFoundAgain cuts lines of several lengths before and after lines were
// inserted and removed.
func TestChunksAreFoundAgain(t *testing.T) {
	t.Parallel()
	const mean = 2000
	for _, length := range []int{12, 100, 1500} {
		var lines [][]byte
		for i := range 400 * mean / length {
			lines = append(lines, fmt.Appendf(nil, "%0*d", length-1, i))
		}
		before := cut(lines, mean)
		if n := len(before); n < 200 || n > 800 {
			t.Errorf("lines of %d bytes: %d chunks, want about 400", length, n)
		}
		for range 5 {
			i := rand.N(len(lines))
			lines = slices.Delete(slices.Insert(lines, i, []byte("another line")), i/2, i/2+1)
		}
		known, missing := make(map[Sum]bool), 0
		for _, c := range before {
			known[SumOf(c, false)] = true
			if len(c) > 8*mean+length {
				t.Errorf("a chunk of %d bytes", len(c))
			}
		}
		for _, c := range cut(lines, mean) {
			if !known[SumOf(c, false)] {
				missing++
			}
		}
		if missing > 40 {
			t.Errorf("lines of %d bytes: %d chunks are new after 10 changes", length, missing)
		}
	}
	if n := len(cut(make([][]byte, 20_000), 0)); n > 20 {
		t.Errorf("20,000 blank lines are %d chunks", n)
	}
}

// sample returns n chunks with some entries each, and their entries.
func sample(n int) (named [][]Entry, packed [][]byte) {
	var p Packer
	for i := range n {
		var es []Entry
		for k := range i * 3 % 20 {
			e := Entry{fmt.Appendf(nil, "http://x.example/%d/%d", i, k), PrintOf([]byte{byte(k)})}
			p.Add(string(e.URI), []byte{byte(k)})
			es = append(es, e)
		}
		named, packed = append(named, es), append(packed, p.Packed())
	}
	return named, packed
}

// check reads all chunks of a file.
func check(path string, ref Ref, want [][]Entry) error {
	f, err := Open(path, ref)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(f.Chunks) != len(want) {
		return fmt.Errorf("%d chunks", len(f.Chunks))
	}
	for i := range f.Chunks {
		es, err := f.Named(&f.Chunks[i])
		if err != nil {
			return err
		}
		if !slices.EqualFunc(es, want[i], func(a, b Entry) bool { return bytes.Equal(a.URI, b.URI) && a.Print == b.Print }) {
			return fmt.Errorf("chunk %d names %q, want %q", i, es, want[i])
		}
	}
	return nil
}

// TestFileIsReplacedWhenMostOfItIsUnused replaces one chunk after the other, until the
// file is written again.
func TestFileIsReplacedWhenMostOfItIsUnused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chunks")
	named, packed := sample(50)
	large := bytes.Repeat([]byte("x"), 100_000) // stands for entries, but is not read
	w, table := Create(path), &Table{}
	for i := range named {
		c := Chunk{Lines: 20, Entries: len(named[i])}
		w.Store(&c, packed[i])
		table.Chunks = append(table.Chunks, c)
	}
	ref, err := w.Save(table)
	must(t, err)
	must(t, check(path, *ref, named))
	most, compacted := int64(0), 0
	for round := range 12 {
		f, err := Open(path, *ref)
		must(t, err)
		w := f.Append()
		var unused Chunk
		w.Store(&unused, large)
		c := f.Chunks[round]
		w.Store(&c, packed[round])
		f.Chunks[round] = c
		former := ref
		ref, err = w.Save(&f.Table)
		must(t, err)
		f.Close()
		must(t, check(path, *ref, named))
		if ref.At < former.At {
			compacted++
			if err := check(path, *former, named); err == nil {
				t.Error("the table of a file that was replaced is found in the new one")
			}
		}
		fi, err := os.Stat(path)
		must(t, err)
		most = max(most, fi.Size())
	}
	if compacted == 0 || most > 500_000 {
		t.Errorf("written again %d times, up to %d bytes", compacted, most)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDamageIsFound changes each byte of a file, and cuts it off at each.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chunks")
	named, packed := sample(8)
	w, table := Create(path), &Table{Fields: []Field{{"title", "uri, hash"}}}
	for i := range named {
		c := Chunk{Lines: 20, Entries: len(named[i]), Found: []Found{{0, i}}}
		w.Store(&c, packed[i])
		table.Chunks = append(table.Chunks, c)
	}
	ref, err := w.Save(table)
	must(t, err)
	must(t, check(path, *ref, named))
	whole, err := os.ReadFile(path)
	must(t, err)
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 1 << (i % 8)
		for what, b := range map[string][]byte{"changed": b, "cut off": whole[:i]} {
			must(t, os.WriteFile(path, b, 0o600))
			if check(path, *ref, named) == nil {
				t.Fatalf("%s at byte %d of %d: no error", what, i, len(whole))
			}
		}
	}
	for _, bad := range []Ref{{}, {At: -1, Size: 5}, {Size: 1 << 60}, {At: 1 << 62, Size: 1 << 20}, {At: ref.At, Size: ref.Size}} {
		if check(path, bad, named) == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestShortListsAreNotSaved leaves no file for a list that is read as fast as its
// table, and none for a Writer that is discarded.
func TestShortListsAreNotSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, save := range []bool{true, false} {
		w := Create(filepath.Join(dir, "chunks"))
		c := Chunk{Lines: 1, Entries: 1}
		w.Store(&c, make([]byte, 2*writeBytes))
		if save {
			if ref, err := w.Save(&Table{Chunks: []Chunk{c}}); err == nil {
				t.Errorf("saved at %+v", ref)
			}
		}
		w.Discard()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// FuzzChunkTable parses any bytes as a table: what is accepted is within its limits and
// survives being written again.
func FuzzChunkTable(f *testing.F) {
	t := Table{Fields: []Field{{"title", "uri"}}, Chunks: []Chunk{{Lines: 7, Entries: 3, Found: []Found{{0, 6}}, at: 5, size: 90}, {Lines: 1}}}
	f.Add(t.append(nil), int64(100))
	f.Add([]byte(tableMagic), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, end int64) {
		table, err := parseTable(b, end)
		if err != nil {
			return
		}
		for _, c := range table.Chunks {
			if c.at < 0 || c.size < 0 || c.at > end-int64(c.size) || c.Entries > c.Lines || len(c.Found) > len(table.Fields) {
				t.Fatalf("parseTable(%q, %d) has the chunk %+v", b, end, c)
			}
		}
		if again, err := parseTable(table.append(nil), end); err != nil || !reflect.DeepEqual(again, table) {
			t.Fatalf("parseTable(%q): %+v is read back as %+v, %v", b, table, again, err)
		}
	})
}

// FuzzChunkEntries parses any bytes as the entries of a chunk.
func FuzzChunkEntries(f *testing.F) {
	var p Packer
	p.Add("http://x.example/a", nil)
	p.Add("http://x.example/b", []byte("b"))
	f.Add(p.Packed(), 2)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > maxLines {
			return
		}
		es, err := unpack(b, n)
		if err == nil && len(es) != n {
			t.Fatalf("unpack(%q, %d) = %d entries", b, n, len(es))
		}
		for _, e := range es {
			if len(e.URI) == 0 {
				t.Fatalf("unpack(%q) has an entry without a URI", b)
			}
		}
	})
}
