package source_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/source"
)

// readPackage has Python read a package as its zipfile does: check all sums,
// and write names and contents.
const readPackage = `
import sys, zipfile
for path in sys.argv[1:]:
    with zipfile.ZipFile(path) as z:
        bad = z.testzip()
        assert bad is None, bad
        assert z.namelist()[0] == "manifest.xml", z.namelist()
        for i in z.infolist()[1:]:
            assert not i.is_dir() and i.date_time[0] >= 1980, i
            sys.stdout.write("/%s=%s\n" % (i.filename, z.read(i).hex()))
`

// tool returns the path of a program that CI installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s, which .ci/run installs: %v", name, err)
	}
	return path
}

// Packages are read by unzip and by Python's zipfile to the last byte.
func TestPackagesAreReadByOthers(t *testing.T) {
	t.Parallel()
	unzip, python := tool(t, "unzip"), tool(t, "python3")
	set := bothDumps
	set.ResourceDump = &source.ResourceDump{Every: time.Hour, PackageEntries: 12}
	d := newDumpWorld(t, source.Options{}, set)
	dir := t.TempDir()
	docs, err := blob.NewDir(dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = docs.Close() })
	d.docs = docs
	for i := range 30 {
		d.put(fmt.Sprintf("d/r%02d=%s", i, strings.Repeat(fmt.Sprintf("line %d\n", i), i)))
	}
	d.put("empty=", "big="+strings.Repeat("0123456789abcdef", 40_000), "caf%C3%A9/na%20me=x", "A=1", "a=2", "a/b=3", "manifest.xml=4", "dir/=5")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.pass(2 * time.Hour)
	d.put("a=3", "a=4", "d/r01", "big="+strings.Repeat("z", 300_000))
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	d.holds(c)
	want := make(map[string]int)
	for _, text := range c.state {
		want[fmt.Sprintf("%x", text)]++
	}
	for _, ch := range c.changes {
		if ch.content != "" {
			want[fmt.Sprintf("%x", ch.content)]++
		}
	}
	args := []string{"-c", readPackage}
	for _, name := range c.packages {
		path := filepath.Join(dir, filepath.FromSlash(name))
		args = append(args, path)
		if out, err := exec.Command(unzip, "-tqq", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("unzip -tqq %s: %v\n%s", name, err, out)
		}
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("python: %v\n%s", err, out)
	}
	got := make(map[string]int)
	for line := range strings.Lines(string(out)) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[text]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("python reads %d contents, want %d", len(got), len(want))
	}
}

// The same content gives the same bytes.
func TestPackagesAreDeterministic(t *testing.T) {
	t.Parallel()
	build := func() map[string]string {
		d := newDumpWorld(t, source.Options{Workers: 4}, source.Set{ResourceDump: &source.ResourceDump{PackageEntries: 300}})
		for i := range 1000 {
			d.put(fmt.Sprintf("r%04d=%s", i, strings.Repeat("x", i%50*50)))
		}
		s := d.source()
		d.publish(s)
		d.dump(s)
		packages := d.files()
		maps.DeleteFunc(packages, func(name, _ string) bool { return !strings.HasSuffix(name, ".zip") })
		return packages
	}
	if a, b := build(), build(); len(a) != 4 || !maps.Equal(a, b) {
		t.Errorf("%d packages, and they differ", len(a))
	}
}

// countedStore counts what is read of packages.
type countedStore struct {
	blob.Store
	read int64
}

func (s *countedStore) Open(ctx context.Context, name string) (blob.Reader, error) {
	r, err := s.Store.Open(ctx, name)
	return &countedReader{r, s}, err
}

type countedReader struct {
	blob.Reader
	s *countedStore
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.s.read += int64(n)
	return n, err
}

// A package is served with a strong entity tag that costs nothing, and in
// ranges, so that an interrupted reader goes on where it was.
func TestPackageIsServed(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, source.Set{ResourceDump: &source.ResourceDump{}})
	d.put("big=" + strings.Repeat("x", 900_000) + "end")
	d.live = nil
	store := &countedStore{Store: d.docs}
	d.docs = store
	s := d.source()
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	data, err := c.read(c.packages[0])
	if err != nil {
		t.Fatal(err)
	}
	store.read = 0
	h := d.source().Handler() // after a restart
	ask := func(method string, header ...string) *http.Response {
		r := httptest.NewRequest(method, "/"+c.packages[0], nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	head := ask("HEAD", "Accept-Encoding", "gzip")
	tag := head.Header.Get("ETag")
	if head.StatusCode != 200 || len(tag) < 8 || tag[0] != '"' || head.ContentLength != int64(len(data)) ||
		head.Header.Get("Content-Type") != "application/zip" || head.Header.Get("Content-Encoding") != "" ||
		!strings.Contains(head.Header.Get("Cache-Control"), "immutable") || head.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("HEAD: %s %v", head.Status, head.Header)
	}
	if store.read != 0 {
		t.Errorf("%d bytes were read to answer HEAD", store.read)
	}
	if r := ask("GET", "If-None-Match", tag); r.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: %s", r.Status)
	}
	for _, tt := range []struct {
		ifRange string
		status  int
		want    []byte
	}{{tag, http.StatusPartialContent, data[len(data)-100:]}, {`"other"`, http.StatusOK, data}} {
		r := ask("GET", "Range", fmt.Sprintf("bytes=%d-", len(data)-100), "If-Range", tt.ifRange)
		got, _ := io.ReadAll(r.Body)
		if r.StatusCode != tt.status || !bytes.Equal(got, tt.want) {
			t.Errorf("If-Range %s: %s, %d bytes", tt.ifRange, r.Status, len(got))
		}
	}
	if r := ask("GET", "Range", fmt.Sprintf("bytes=%d-", len(data))); r.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("range behind the end: %s", r.Status)
	}
}

// No temporary file outlives a dump.
func TestDumpLeavesNoTemporaryFiles(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	d := newDumpWorld(t, source.Options{Temp: temp}, source.Set{ResourceDump: &source.ResourceDump{}})
	d.put("a=1", "b=2")
	d.write(d.opts.BaseURL+"a", "other", true)
	d.dump(d.source())
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
