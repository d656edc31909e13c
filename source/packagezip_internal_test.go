package source

import (
	"archive/zip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A hole is a file into which zeros are not written.
type hole struct{ *os.File }

// skip leaves n bytes out.
func (h hole) skip(n int64) error {
	_, err := h.Seek(n, io.SeekCurrent)
	return err
}

// TestZIP64 holds that entries above 4 GiB, and those behind them, are found by
// archive/zip, Python and unzip, and that the headers in front of the data say
// ZIP64 where sizes need it.
func TestZIP64(t *testing.T) {
	t.Parallel()
	const long = 5 << 30
	path := filepath.Join(t.TempDir(), "long.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h := hole{f}
	z := &zipOut{w: h}
	mod := time.Date(2026, 5, 1, 2, 3, 4, 0, time.UTC)
	small := func(name, text string) {
		e := zipEntry{name: name, mod: mod, raw: int64(len(text)), size: int64(len(text)), crc: crc32.ChecksumIEEE([]byte(text))}
		if err := z.append(append(e.appendLocal(nil), text...), []zipEntry{e}); err != nil {
			t.Fatal(err)
		}
	}
	streamed := func(name string, size int64, long bool) {
		e := zipEntry{name: name, streamed: true, long: long, size: size}
		if err := z.begin(&e); err != nil {
			t.Fatal(err)
		}
		if err := h.skip(size); err != nil {
			t.Fatal(err)
		}
		z.n += size
		if size < 1<<20 {
			e.crc = crc32.ChecksumIEEE(make([]byte, size))
		}
		if err := z.end(&e); err != nil {
			t.Fatal(err)
		}
	}
	small("first", "one")
	streamed("long-but-short", 1000, true)
	streamed("long", long, true)
	streamed("short", 1000, false)
	small("last", "two")
	if err := z.finish(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := []int64{3, 1000, long, 1000, 3}
	for i, e := range r.File {
		if e.UncompressedSize64 != uint64(want[i]) || i < 1 && !e.Modified.Equal(mod) {
			t.Errorf("%s: %d bytes of %s, want %d", e.Name, e.UncompressedSize64, e.Modified, want[i])
		}
		if e.Name == "long" {
			continue
		}
		rc, err := e.Open()
		if err == nil {
			_, err = io.Copy(io.Discard, rc)
		}
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	if len(r.File) != len(want) {
		t.Errorf("%d entries, want %d", len(r.File), len(want))
	}
	script := `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
print([i.file_size for i in z.infolist()], [z.read(n)[:3] for n in ("first", "long-but-short", "short", "last")])`
	check(t, fmt.Sprintf("[3, 1000, %d, 1000, 3] [b'one', b'\\x00\\x00\\x00', b'\\x00\\x00\\x00', b'two']\n", int64(long)), "python3", "-c", script, path)
	check(t, "two", "unzip", "-p", path, "last")
	check(t, "", "unzip", "-tqq", path, "first", "long-but-short", "short", "last")
}

// check runs a program that CI installs and compares what it writes.
func check(t *testing.T, want, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("%s is not there, and not asked: .ci/run installs it", name)
		return
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if string(out) != want || err != nil {
		t.Errorf("%s %v: %q, %v, want %q", name, args, out, err, want)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	n := newNamer(placeOf{prefix: "https://h.example/set/"})
	for _, tt := range []struct{ uri, want string }{
		{"https://h.example/set/a/b.txt", "a/b.txt"},
		{"https://h.example/set/caf%C3%A9/x%20y", "café/x y"},
		{"https://h.example/set/q?a=b&c=%2F", "q~3fa=b&c=~2f"},
		{"https://h.example/set/bad%FFutf8", "bad~ffutf8"},
		{"https://h.example/set/%2e%2E/up", ".~2e/up"},
		{"https://h.example/set/./dot.", "~2e/dot~2e"},
		{"https://h.example/set/dir/", "dir/~"},
		{"https://h.example/set/x//y", "x/~/y"},
		{"https://h.example/set/C:%5Cwin", "C~3a~5cwin"},
		{"https://h.example/set/%00%1B[2J", "~00~1b[2J"},
		{"https://h.example/set/", "~"},
		{"https://h.example/else", "other/h.example/else"},
		{"http://other.example:8080/p%7Bq", "other/other.example~3a8080/p{q"},
		{"urn:isbn:123", "other/urn~3aisbn~3a123"},
	} {
		if got := n.name(tt.uri); got != tt.want {
			t.Errorf("name(%q) = %q, want %q", tt.uri, got, tt.want)
		}
	}
}

// Names that some system takes for the same are kept apart, and so are files
// and directories of one name.
func TestNamesDoNotClash(t *testing.T) {
	t.Parallel()
	n := newNamer(placeOf{prefix: "http://h/"})
	uris := []string{"a", "A", "a/b", "manifest.xml", "MANIFEST.XML", "manifest.xml/x", "x/y", "X", "x", "é", "e%CC%81", "É", "ſ", "s", "S", "K", "k",
		strings.Repeat("long", 100), strings.Repeat("long", 100) + "2", strings.Repeat("d/", 800) + "deep", strings.Repeat("d/", 800) + "Deep", "a%62", "ab"}
	plain := 0
	var names []string
	for _, uri := range uris {
		name := n.name("http://h/" + uri)
		checkName(t, name)
		if !strings.HasPrefix(name, "~") {
			plain++
		}
		names = append(names, name)
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			if clash(a, b) {
				t.Errorf("%q and %q clash", a, b)
			}
		}
	}
	if plain != 9 {
		t.Errorf("%d of %q kept their names, want 9", plain, names)
	}
	// Who knows how names are made cannot make two the same.
	n = newNamer(placeOf{prefix: "http://h/"})
	n.name("http://h/v")
	escaped := n.name("http://h/V")
	n = newNamer(placeOf{prefix: "http://h/"})
	seen := map[string]bool{}
	for _, uri := range []string{"http://h/" + escaped, "http://h/v", "http://h/V"} {
		if name := n.name(uri); seen[name] {
			t.Errorf("%q is given twice", name)
		} else {
			seen[name] = true
		}
	}
}

func clash(a, b string) bool {
	a, b = fold(a), fold(b)
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if name == "" || len(name) > maxName+100 || strings.ToValidUTF8(name, "") != name || strings.ContainsAny(name, "\\:*?\"<>|\x00\x1b\x7f") {
		t.Errorf("%q is no name", name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " ") || len(segment) > 255 {
			t.Errorf("%q is no name: segment %q", name, segment)
		}
	}
}

// FuzzName holds that every URI gets a name that can be unpacked anywhere, and
// no two the same.
func FuzzName(f *testing.F) {
	for _, uri := range []string{"http://h/a", "http://h/A", "http://h/%2e%2e/%2e", "http://h/a//b/", "urn:x", "http://h/%ff%00", "x", "http://h/\u1e9e\u0130", "http://g/a"} {
		f.Add(uri, "http://h/a/b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b {
			return
		}
		n := newNamer(placeOf{prefix: "http://h/"})
		x, y := n.name(a), n.name(b)
		checkName(t, x)
		checkName(t, y)
		if clash(x, y) || clash(x, manifestFile) || clash(y, manifestFile) {
			t.Errorf("%q and %q are named %q and %q", a, b, x, y)
		}
	})
}

// FuzzDemand holds that a request's body yields URIs in order, each once, not
// more than allowed, or a problem of the client's.
func FuzzDemand(f *testing.F) {
	for _, body := range []string{"http://h/a\nhttp://h/b\r\n\nhttp://h/a", `["a","b"]`, `["a",1]`, `[["a"]]`, `["a"]x`, `{"a":"b"}`, `["\u0000"]`, "[", ""} {
		f.Add("text/plain; charset=utf-8", body)
		f.Add("application/json", body)
	}
	f.Fuzz(func(t *testing.T, typ, body string) {
		uris, err := parseDemand(typ, strings.NewReader(body), 5)
		if err != nil {
			if p, ok := err.(*demandProblem); !ok || p.status < 400 || p.status > 499 || len(uris) > 0 {
				t.Errorf("parseDemand(%q, %q) = %q, %v", typ, body, uris, err)
			}
			return
		}
		for i, uri := range uris {
			if uri == "" || i > 0 && uri <= uris[i-1] || strings.ContainsRune(uri, 0) {
				t.Errorf("parseDemand(%q, %q) = %q", typ, body, uris)
			}
		}
		if len(uris) > 5 {
			t.Errorf("parseDemand(%q, %q) = %d URIs", typ, body, len(uris))
		}
	})
}
