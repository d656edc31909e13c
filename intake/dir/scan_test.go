//go:build unix

package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/dir"
	"lockstep/internal/mediatype"
	"lockstep/resourcesync"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	write(t, root, "d/a b.TXT", "hello")
	when := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	must(t, os.Chtimes(filepath.Join(root, "d/a b.TXT"), time.Time{}, when))
	d := newDir(t, root, cat, dir.Options{Algorithms: []resourcesync.Algorithm{resourcesync.MD5}})
	scan(t, d)
	for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
		must(t, err)
		r.Token, r.EventTime = "", time.Time{}
		want := catalog.Record{
			URI: base + "d/a%20b.TXT", Lastmod: when.Truncate(time.Microsecond), Length: 5, Type: "text/plain", Seq: 1,
			Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "\x5d\x41\x40\x2a\xbc\x4b\x2a\x76\xb9\x71\x9d\x91\x10\x17\xc5\x92"}},
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
	}
	// Other algorithms: the old records do not do.
	d = newDir(t, root, cat, dir.Options{})
	if r := scan(t, d); r.Updated != 1 {
		t.Errorf("scan with more algorithms: %+v, want 1 updated", r)
	}
	// Only the time changes: the file is read, nothing has changed.
	must(t, os.Chtimes(filepath.Join(root, "d/a b.TXT"), time.Time{}, when.Add(time.Hour)))
	if r := scan(t, d); r.Changed() || r.Hashed != 1 || r.Unchanged != 1 {
		t.Errorf("scan after touch: %+v, want 1 read and unchanged", r)
	}
}

// TestSizes: files of all sizes get the hashes and types that they have one by one.
func TestSizes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	sizes := []int{0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 4095, 4096, 4097, 8192, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 256 << 10, 300_000}
	for range 300 {
		sizes = append(sizes, rnd.IntN(1<<(4+rnd.IntN(14))))
	}
	texts := make(map[string][]byte)
	for i, n := range sizes {
		text := make([]byte, n)
		for k := range text {
			text[k] = byte(rnd.Uint32())
		}
		copy(text, []string{"", "%PDF-1.7\n", "GIF89a", "<?xml version=\"1.0\"?>"}[i%4])
		rel := fmt.Sprintf("%d/file%03d", i%5, i)
		write(t, root, rel, string(text))
		texts[base+rel] = text
	}
	for _, algs := range [][]resourcesync.Algorithm{
		nil, {resourcesync.MD5}, {resourcesync.SHA256}, {resourcesync.SHA512, resourcesync.SHA256, resourcesync.SHA1, resourcesync.MD5}, {resourcesync.SHA384},
	} {
		cat := catalog.NewMem(nil)
		scan(t, newDir(t, root, cat, dir.Options{Algorithms: algs}))
		found := 0
		for r, err := range cat.Resources(context.Background(), set, catalog.Range{}) {
			must(t, err)
			found++
			text := texts[r.URI]
			h := resourcesync.NewHasher(intake.Algorithms(algs)...)
			_, _ = h.Write(text)
			if diff := cmp.Diff(h.Sum(), r.Hashes); diff != "" || r.Length != int64(len(text)) {
				t.Errorf("%s, %d bytes, algorithms %v: %s", r.URI, len(text), algs, diff)
			}
			if want := mediatype.Of(r.URI, text); r.Type != want {
				t.Errorf("%s: type %s, want %s", r.URI, r.Type, want)
			}
		}
		if found != len(texts) {
			t.Errorf("%d resources, want %d", found, len(texts))
		}
	}
}

// TestSameTick: a file that is written right after it was read, same size, is
// read again though its times may be the same.
func TestSameTick(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	d := newDir(t, root, cat, dir.Options{})
	for i := range 20 {
		text := fmt.Sprintf("%04d", i)
		write(t, root, "a", text)
		scan(t, d)
		if holds(t, cat)[base+"a"] != of([]byte(text)) {
			t.Fatalf("write %d went unnoticed", i)
		}
	}
}

// TestChanging: what is read in pieces of different versions is never recorded.
func TestChanging(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	name := filepath.Join(root, "busy")
	const size = 4 << 20
	write(t, root, "busy", strings.Repeat("A", size))
	write(t, root, "calm", "calm")
	d := newDir(t, root, cat, dir.Options{})
	scan(t, d)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for c := byte('B'); !stop.Load(); c = 'B' + (c-'A')%20 {
			for at := int64(0); at < size && !stop.Load(); at += 4 << 10 {
				_, _ = f.WriteAt(bytes.Repeat([]byte{c}, 4<<10), at)
			}
		}
	}()
	// The writer may be kept waiting, and the file be at rest half way: that is
	// what it holds, then.
	for caught := 0; caught < 3; {
		before := holds(t, cat)[base+"busy"]
		r := scan(t, d)
		if r.Deleted != 0 || r.Created != 0 {
			t.Fatalf("scan of a busy file: %+v", r)
		}
		if r.Unreadable.Count == 0 {
			continue
		}
		caught++
		if p := r.Unreadable.First[0]; p.Path != "busy" || !errors.Is(p.Err, intake.ErrChanging) {
			t.Errorf("unreadable: %v", p)
		}
		if got := holds(t, cat)[base+"busy"]; got != before {
			t.Errorf("a file that kept changing was recorded")
		}
	}
	stop.Store(true)
	<-ended
	scan(t, d)
	if diff := cmp.Diff(look(t, root).want(nil), holds(t, cat)); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenOff(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	for i := range 300 {
		write(t, root, fmt.Sprintf("%d/%d", i%10, i), "x")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var armed atomic.Bool
	d := newDir(t, root, cat, dir.Options{OnEvent: func(e intake.Event) {
		if armed.Load() && e.Kind == intake.EventSkipped {
			cancel()
		}
	}})
	scan(t, d)
	for i := range 10 {
		must(t, os.RemoveAll(filepath.Join(root, fmt.Sprint(i%5))))
	}
	must(t, os.Symlink("nowhere", filepath.Join(root, "7", "link")))
	armed.Store(true)
	if r, err := d.Scan(ctx); !errors.Is(err, context.Canceled) || r.Deleted != 0 {
		t.Errorf("scan broken off: %+v, %v", r, err)
	}
	if n := len(holds(t, cat)); n != 300 {
		t.Errorf("%d resources after a scan broken off, want 300", n)
	}
	armed.Store(false)
	if r := scan(t, d); r.Deleted != 150 {
		t.Errorf("whole scan: %+v, want 150 deleted", r)
	}
}

// TestBackAgain: what comes back while the scan goes on is not deleted.
func TestBackAgain(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	write(t, root, "a", "one")
	write(t, root, "b", "one")
	d := newDir(t, root, cat, dir.Options{OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventSkipped {
			write(t, root, "a", "two")
		}
	}})
	scan(t, d)
	must(t, os.Remove(filepath.Join(root, "a")))
	must(t, os.Remove(filepath.Join(root, "b")))
	must(t, os.Symlink("nowhere", filepath.Join(root, "link"))) // its event comes when the names have been read
	if r := scan(t, d); r.Deleted != 1 {
		t.Errorf("scan: %+v, want b alone deleted", r)
	}
	if r := scan(t, d); r.Updated != 1 || r.Created != 0 {
		t.Errorf("next scan: %+v, want a updated", r)
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	for i := range 6 {
		write(t, root, fmt.Sprint("d/", i), "x")
	}
	d := newDir(t, root, cat, dir.Options{})
	scan(t, d)
	must(t, os.RemoveAll(filepath.Join(root, "d")))
	_, err := d.Scan(context.Background())
	var empty *intake.EmptyError
	if !errors.Is(err, intake.ErrEmpty) || !errors.As(err, &empty) || empty.Resources != 6 || !strings.Contains(empty.Hint(), "--allow-empty") {
		t.Fatalf("scan of an empty directory: %v", err)
	}
	must(t, os.Remove(root))
	if _, err := d.Scan(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scan of no directory: %v", err)
	}
	if n := len(holds(t, cat)); n != 6 {
		t.Errorf("%d resources, want 6", n)
	}
	must(t, os.Mkdir(root, 0o755))
	// The root is another directory now: a part is not scanned by itself.
	if _, err := d.ScanPaths(context.Background(), "d"); !errors.Is(err, intake.ErrEmpty) {
		t.Errorf("scan of a part of another root: %v", err)
	}
	d = newDir(t, root, cat, dir.Options{AllowEmpty: true})
	if r := scan(t, d); r.Deleted != 6 {
		t.Errorf("scan with AllowEmpty: %+v", r)
	}
}

// A set of any size is emptied with consent only, by a scan of everything or of
// some paths; the last files may be replaced by others.
func TestEmptyingNeedsConsent(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{nil, {"a", "b", "c"}} {
		root, cat := t.TempDir(), catalog.NewMem(nil)
		for _, name := range []string{"a", "b", "c"} {
			write(t, root, name, "x")
		}
		scanAll := func(o dir.Options) error {
			d := newDir(t, root, cat, o)
			if paths == nil {
				_, err := d.Scan(t.Context())
				return err
			}
			write(t, root, "z", "z") // the root is known by a scan before
			scan(t, d)
			must(t, os.Remove(filepath.Join(root, "z")))
			for _, name := range paths {
				_ = os.Remove(filepath.Join(root, name))
			}
			_, err := d.ScanPaths(t.Context(), append(paths, "z")...)
			return err
		}
		if paths == nil {
			must(t, scanAll(dir.Options{}))
			for _, name := range []string{"a", "b", "c"} {
				must(t, os.Remove(filepath.Join(root, name)))
			}
		}
		if err := scanAll(dir.Options{}); !errors.Is(err, intake.ErrEmpty) {
			t.Errorf("%v: %v, want ErrEmpty", paths, err)
		}
		if n := len(holds(t, cat)); n < 3 {
			t.Errorf("%v: %d resources are left, want all", paths, n)
		}
		if err := scanAll(dir.Options{AllowEmpty: true}); err != nil || len(holds(t, cat)) != 0 {
			t.Errorf("%v: with consent %v, and %d resources are left", paths, err, len(holds(t, cat)))
		}
	}
}

// TestManyGone: more deletions than fit the memory set aside.
func TestManyGone(t *testing.T) {
	t.Parallel()
	root, tmp, cat := t.TempDir(), t.TempDir(), catalog.NewMem(nil)
	const n = 30_000
	var us []catalog.Update
	for i := range n {
		us = append(us, catalog.Update{Record: catalog.Record{URI: fmt.Sprintf("%s%060d", base, i), Token: "x"}})
	}
	_, err := cat.Apply(context.Background(), set, us)
	must(t, err)
	write(t, root, "a", "x")
	d := newDir(t, root, cat, dir.Options{TempDir: tmp})
	if r := scan(t, d); r.Deleted != n || r.Created != 1 {
		t.Errorf("scan: %+v, want %d deleted", r, n)
	}
	if es, _ := os.ReadDir(tmp); len(es) != 0 {
		t.Errorf("left behind: %v", es)
	}
	if n := len(holds(t, cat)); n != 1 {
		t.Errorf("%d resources, want 1", n)
	}
}

// TestLargeDirectory: one that is looked at in several goes, with
// subdirectories and odd names between.
func TestLargeDirectory(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	for i := range 3500 {
		switch {
		case i%700 == 3:
			write(t, root, fmt.Sprintf("d/%d/x", i), fmt.Sprint(i))
		case i%900 == 5:
			must(t, os.Symlink(fmt.Sprint(i+1), filepath.Join(root, "d", fmt.Sprint(i))))
		case i%7 == 1:
			write(t, root, fmt.Sprintf("d/%d %%\xff", i), fmt.Sprint(i))
		default:
			write(t, root, fmt.Sprintf("d/%d", i), fmt.Sprint(i))
		}
	}
	d := newDir(t, root, cat, dir.Options{})
	scan(t, d)
	if diff := cmp.Diff(look(t, root).want(nil), holds(t, cat)); diff != "" {
		t.Error(diff)
	}
	for i := range 50 {
		must(t, os.RemoveAll(filepath.Join(root, "d", fmt.Sprint(i*61))))
		write(t, root, fmt.Sprintf("d/%d+", i*59), "new")
	}
	r := scan(t, d)
	if diff := cmp.Diff(look(t, root).want(nil), holds(t, cat)); diff != "" {
		t.Error(diff)
	}
	if r.Created != 50 || r.Deleted == 0 || r.Updated != 0 {
		t.Errorf("second scan: %+v", r)
	}
}

// TestDeep: paths longer than the system takes in one call.
func TestDeep(t *testing.T) {
	t.Parallel()
	root, cat := t.TempDir(), catalog.NewMem(nil)
	open, err := os.OpenRoot(root)
	must(t, err)
	defer open.Close()
	long := strings.Repeat("d", 200)
	rel := strings.Repeat(long+"/", 25) + "x.txt"
	must(t, open.MkdirAll(strings.TrimSuffix(rel, "/x.txt"), 0o755))
	must(t, open.WriteFile(rel, []byte("deep"), 0o644))
	must(t, open.Symlink("x.txt", strings.TrimSuffix(rel, "x.txt")+"link"))
	d := newDir(t, root, cat, dir.Options{})
	if r := scan(t, d); r.Created != 2 || r.Unreadable.Count != 0 {
		t.Fatalf("scan: %+v", r)
	}
	f, fi, err := d.Open(rel)
	must(t, err)
	if fi.Size() != 4 {
		t.Errorf("size %d, want 4", fi.Size())
	}
	must(t, f.Close())
	must(t, open.Remove(rel))
	if r, err := d.ScanPaths(context.Background(), rel); err != nil || r.Deleted != 1 {
		t.Errorf("scan of the path: %+v, %v", r, err)
	}
}

func TestSkipped(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "secret")
	write(t, root, "d/file", "x")
	for _, rel := range []string{"robots.txt", "resourcesync/a", "-/b", ".lockstep/c", ".well-known/resourcesync", ".well-known/other"} {
		write(t, root, rel, "x")
	}
	for link, target := range map[string]string{
		"dirlink": "d", "dangling": "nowhere", "out": "../" + filepath.Base(outside) + "/secret", "absolute": filepath.Join(root, "d/file"),
		"good": "d/file", "loop": "loop", "through": "dirlink/file", "topipe": "pipe",
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	cat := catalog.NewMem(nil)
	r := scan(t, newDir(t, root, cat, dir.Options{}))
	var got []string
	for _, p := range r.Skipped.First {
		got = append(got, p.Path+": "+p.Err.Error())
	}
	slices.Sort(got)
	want := []string{
		"-: hidden by our own documents",
		".lockstep: lockstep keeps its state there and never publishes it",
		".well-known/resourcesync: hidden by our own documents",
		"absolute: symbolic link leads outside the directory",
		"dangling: symbolic link to nothing",
		"dirlink: symbolic link to a directory",
		"loop: symbolic link to nothing",
		"out: symbolic link leads outside the directory",
		"pipe: neither file nor directory",
		"resourcesync: hidden by our own documents",
		"robots.txt: hidden by our own documents",
		"topipe: neither file nor directory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var uris []string
	for uri := range holds(t, cat) {
		uris = append(uris, strings.TrimPrefix(uri, base))
	}
	slices.Sort(uris)
	if diff := cmp.Diff([]string{".well-known/other", "d/file", "good", "through"}, uris); diff != "" {
		t.Error(diff)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	files := []string{"a.txt", "b.md", "d/a.txt", "d/b.md", "d/tmp/x.txt", "tmp/y.txt", "e/f/g.md", "e/f/.git/config", "[x]"}
	tests := []struct {
		name             string
		include, exclude []string
		want             []string
	}{
		{"none", nil, nil, files},
		{"by name", nil, []string{"*.md"}, []string{"a.txt", "d/a.txt", "d/tmp/x.txt", "tmp/y.txt", "e/f/.git/config", "[x]"}},
		{"by path", nil, []string{"d/*.md", "/tmp"}, []string{"a.txt", "b.md", "d/a.txt", "d/tmp/x.txt", "e/f/g.md", "e/f/.git/config", "[x]"}},
		{"directory by name", nil, []string{"tmp", ".git/"}, []string{"a.txt", "b.md", "d/a.txt", "d/b.md", "e/f/g.md", "[x]"}},
		{"below", nil, []string{"d/**"}, []string{"a.txt", "b.md", "tmp/y.txt", "e/f/g.md", "e/f/.git/config", "[x]"}},
		{"include", []string{"*.txt"}, []string{"tmp"}, []string{"a.txt", "d/a.txt"}},
		{"include directory", []string{"e", "d/tmp/"}, nil, []string{"d/tmp/x.txt", "e/f/g.md", "e/f/.git/config"}},
		{"include anywhere below", []string{"**/f/*"}, nil, []string{"e/f/g.md", "e/f/.git/config"}},
		{"escaped", []string{`\[x\]`}, nil, []string{"[x]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root, cat := t.TempDir(), catalog.NewMem(nil)
			for _, f := range files {
				write(t, root, f, "x")
			}
			d := newDir(t, root, cat, dir.Options{Include: tt.include, Exclude: tt.exclude})
			scan(t, d)
			var got []string
			for uri := range holds(t, cat) {
				rel, _ := d.RelPath(uri)
				got = append(got, rel)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(tt.want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Error(diff)
			}
			for _, f := range files {
				file, _, err := d.Open(f)
				if (err == nil) != slices.Contains(tt.want, f) {
					t.Errorf("Open(%q): %v", f, err)
				}
				_ = file.Close()
			}
		})
	}
	for _, bad := range []string{"", "[", "a{b", "**/["} {
		if _, err := dir.New(".", catalog.NewMem(nil), set, dir.Options{BaseURI: base, Exclude: []string{bad}}); err == nil {
			t.Errorf("NewDir takes the pattern %q", bad)
		}
	}
}
