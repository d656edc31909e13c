package unpack_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/unpack"
)

// read reads the directory of a package in memory.
func read(t testing.TB, b []byte) *unpack.Directory {
	t.Helper()
	d, err := unpack.Read(bytes.NewReader(b), int64(len(b)), unpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// content reads a member with both methods.
func content(b []byte, m *unpack.Member) (string, error) {
	section := b[m.Offset : m.Offset+m.Extent()]
	whole, werr := m.Bytes(section, nil)
	r, err := m.Open(bytes.NewReader(section))
	if err != nil {
		return "", sameError(werr, err)
	}
	defer r.Close()
	streamed, err := io.ReadAll(r)
	if serr := sameError(werr, err); serr != nil {
		return "", serr
	}
	if !bytes.Equal(whole, streamed) {
		return "", fmt.Errorf("Bytes gives %d bytes, Open %d others", len(whole), len(streamed))
	}
	return string(streamed), nil
}

// sameError returns err, unless only one of the two is an error.
func sameError(a, b error) error {
	if (a == nil) != (b == nil) {
		panic(fmt.Sprintf("Bytes: %v, Open: %v", a, b))
	}
	return b
}

// files are put in archives by all kinds of programs.
func files() map[string]string {
	text := strings.Repeat("All work and no play makes Jack a dull boy.\n", 3000)
	noise := make([]byte, 70_000)
	rand.NewChaCha8([32]byte{7}).Read(noise)
	return map[string]string{
		"manifest.xml":                           "<urlset/>",
		"a.txt":                                  "alpha",
		"empty":                                  "",
		"sub/deep/text.txt":                      text,
		"sub/noise.bin":                          string(noise),
		"sub/with space & \".x":                  "odd",
		"Gr\u00fc\u00dfe/\u65e5\u672c\u8a9e.txt": "unicode",
	}
}

func expectFiles(t *testing.T, b []byte) {
	t.Helper()
	d := read(t, b)
	for name, want := range files() {
		m, ok := d.Find("/" + name)
		if !ok {
			t.Errorf("Find(%q): there is none", name)
			continue
		}
		if got, err := content(b, m); err != nil || got != want {
			t.Errorf("%s: %d bytes, %v, want %d bytes", name, len(got), err, len(want))
		}
	}
	if m, folder := d.Manifest(); m == nil || folder != "" {
		t.Errorf("Manifest() = %v, %q", m, folder)
	}
	for i := range d.Members {
		if m := &d.Members[i]; m.Refused() != "" && !m.IsDir() {
			t.Errorf("%s is refused: %s", m.Name, m.Refused())
		}
	}
}

// TestPrograms reads what other programs write.
func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range files() {
		path := filepath.Join(dir, "in", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	python := `
import os, sys, zipfile
out, mode = sys.argv[1], sys.argv[2]
class Pipe:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open(out, "wb") as f:
    z = zipfile.ZipFile(Pipe(f) if "stream" in mode else f, "w", zipfile.ZIP_STORED if "stored" in mode else zipfile.ZIP_DEFLATED)
    if "comment" in mode: z.comment = b"PK\x05\x06" + bytes(18) + b"PK\x01\x02 and more"
    for top, dirs, names in os.walk("."):
        for n in dirs: z.write(os.path.join(top, n))
        for n in names:
            p = os.path.join(top, n)
            if "long" in mode:
                with z.open(zipfile.ZipInfo.from_file(p), "w", force_zip64=True) as w: w.write(open(p, "rb").read())
            else: z.write(p)
    z.close()
`
	tests := map[string][]string{
		"zip":             {"zip", "-q", "-r", "OUT", "."},
		"zip-stored":      {"zip", "-q", "-0", "-r", "OUT", "."},
		"zip-streamed":    {"sh", "-c", "zip -q -fd -r - . | cat >OUT"},
		"zip-zip64":       {"zip", "-q", "-fz", "-r", "OUT", "."},
		"zip-utf8":        {"zip", "-q", "-UN=UTF8", "-r", "OUT", "."},
		"zip-after-data":  {"sh", "-c", "zip -q -r OUT.zip . && head -c 100000 /dev/zero | cat - OUT.zip >OUT"},
		"zip-adjusted":    {"sh", "-c", "zip -q -r OUT.zip . && head -c 100000 /dev/zero | cat - OUT.zip >OUT.exe && zip -q -A OUT.exe; cat OUT.exe >OUT"},
		"python":          {"python3", "-c", python, "OUT", "deflated"},
		"python-stored":   {"python3", "-c", python, "OUT", "stored"},
		"python-streamed": {"python3", "-c", python, "OUT", "stream"},
		"python-zip64":    {"python3", "-c", python, "OUT", "long stream"},
		"python-comment":  {"python3", "-c", python, "OUT", "comment"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out.zip")
			argv := make([]string, len(args))
			for i, a := range args {
				argv[i] = strings.ReplaceAll(a, "OUT", out)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = filepath.Join(dir, "in")
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
			if msg, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, msg)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			expectFiles(t, b)
		})
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		for name, data := range files() {
			f, err := w.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(f, data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		expectFiles(t, buf.Bytes())
	})
}

// TestNotZip: data that is not a package is reported as such.
func TestNotZip(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	w := zip.NewWriter(&whole)
	for i := range 100 {
		f, _ := w.Create(fmt.Sprintf("f%d", i)) // in memory
		_, _ = io.WriteString(f, "data")        // likewise
	}
	_ = w.Close() // likewise
	for name, b := range map[string][]byte{
		"nothing":   nil,
		"page":      []byte("<!DOCTYPE html><html><body>Log in</body></html>"),
		"zeros":     make([]byte, 200_000),
		"gzip":      append([]byte{0x1f, 0x8b, 8}, make([]byte, 500)...),
		"truncated": whole.Bytes()[:whole.Len()-30],
		"half":      whole.Bytes()[:whole.Len()/2],
		"tail only": whole.Bytes()[whole.Len()-22:],
	} {
		_, err := unpack.Read(bytes.NewReader(b), int64(len(b)), unpack.Limits{})
		var form *unpack.FormatError
		if !errors.Is(err, unpack.ErrNotZip) && !errors.As(err, &form) {
			t.Errorf("%s: %v, want an error of form", name, err)
		}
	}
}
