package zipfile

import (
	"archive/zip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A hole is a sparse file: zeros are skipped instead of written.
type hole struct{ *os.File }

// skip leaves n bytes out.
func (h hole) skip(n int64) error {
	_, err := h.Seek(n, io.SeekCurrent)
	return err
}

// TestZIP64 checks that archive/zip, Python and unzip find entries above 4 GiB
// and those that follow, and that the headers before the data announce ZIP64
// where sizes need it.
func TestZIP64(t *testing.T) {
	t.Parallel()
	const long = 5 << 30
	path := filepath.Join(t.TempDir(), "long.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h := hole{f}
	z := NewWriter(h, 0)
	mod := time.Date(2026, 5, 1, 2, 3, 4, 0, time.UTC)
	small := func(name, text string) {
		e := Entry{Name: name, Modified: mod, Packed: int64(len(text)), Size: int64(len(text)), CRC32: crc32.ChecksumIEEE([]byte(text))}
		if err := z.Append(append(e.AppendLocal(nil), text...), []Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	streamed := func(name string, size int64, long bool) {
		e := Entry{Name: name, Streamed: true, Long: long, Size: size}
		if err := z.Begin(&e); err != nil {
			t.Fatal(err)
		}
		if err := h.skip(size); err != nil {
			t.Fatal(err)
		}
		z.n += size
		if size < 1<<20 {
			e.CRC32 = crc32.ChecksumIEEE(make([]byte, size))
		}
		if err := z.End(&e); err != nil {
			t.Fatal(err)
		}
	}
	small("first", "one")
	streamed("long-but-short", 1000, true)
	streamed("long", long, true)
	streamed("short", 1000, false)
	small("last", "two")
	if err := z.Finish(); err != nil {
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
		t.Logf("%s is not installed and was not compared: .ci/run installs it", name)
		return
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if string(out) != want || err != nil {
		t.Errorf("%s %v: %q, %v, want %q", name, args, out, err, want)
	}
}
