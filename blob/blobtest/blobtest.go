// Package blobtest is the conformance suite of [blob.Store].
//
//	func TestMem(t *testing.T) {
//		blobtest.Run(t, func(t *testing.T) blob.Store { return new(blob.Mem) })
//	}
package blobtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"lockstep/blob"
)

// Limits lists documented limits of a kind of store. The suite then expects the
// refusal instead; everything else is tested unchanged.
type Limits struct {
	// LosesInFolders means that the service may lose a blob that is stored while
	// the last other one of its folder is removed.
	LosesInFolders bool

	// UTF8 means that names which are not UTF-8 are refused with blob.ErrName, and
	// that listing such a prefix yields nothing.
	UTF8 bool

	// NoResume means that unfinished blobs cannot be read again: the store is no
	// blob.Resumer and its Writers are no blob.Keepers. It may be a Sweeper.
	NoResume bool
}

// Run tests a kind of store. Each call of open returns an empty one, which is
// closed by the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) blob.Store) { RunLimits(t, Limits{}, open) }

// RunLimits tests a kind of store that has limits.
func RunLimits(t *testing.T, l Limits, open func(t *testing.T) blob.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, blob.Store, Limits)
	}{
		{"Names", testNames},
		{"Absent", anyStore(testAbsent)},
		{"Visible", anyStore(testVisible)},
		{"Replace", anyStore(testReplace)},
		{"Rename", anyStore(testRename)},
		{"Drop", anyStore(testDrop)},
		{"Batch", anyStore(testBatch)},
		{"Misuse", anyStore(testMisuse)},
		{"ModTime", anyStore(testModTime)},
		{"Reader", anyStore(testReader)},
		{"Remove", anyStore(testRemove)},
		{"List", testList},
		{"ListWhileChanging", anyStore(testListWhileChanging)},
		{"Cancelled", anyStore(testCancelled)},
		{"TwoWriters", anyStore(testTwoWriters)},
		{"Atomic", anyStore(testAtomic)},
		{"Concurrent", anyStore(testConcurrent)},
		{"ComeAndGo", testComeAndGo},
		{"Resume", testResume},
		{"Keep", testKeep},
		{"Sweep", testSweep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t), l)
		})
	}
}

// anyStore is a test that applies to stores with any limits.
func anyStore(test func(*testing.T, blob.Store)) func(*testing.T, blob.Store, Limits) {
	return func(t *testing.T, s blob.Store, _ Limits) { test(t, s) }
}

// refuses reports whether the store does not support the name, and checks that
// it returns the right error.
func (l Limits) refuses(t *testing.T, s blob.Store, name string) bool {
	t.Helper()
	if !l.UTF8 || utf8.ValidString(name) {
		return false
	}
	if _, err := s.Create(t.Context(), name); !errors.Is(err, blob.ErrName) {
		t.Errorf("Create(%q) = %v, want ErrName", name, err)
	}
	if _, err := s.Open(t.Context(), name); !errors.Is(err, blob.ErrName) {
		t.Errorf("Open(%q) = %v, want ErrName", name, err)
	}
	return true
}

// create begins a blob with content.
func create(t testing.TB, s blob.Store, name, content string) blob.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatalf("Create(%q): %v", name, err)
	}
	if got := w.Name(); got != name {
		t.Errorf("Name() = %q, want %q", got, name)
	}
	if n, err := io.WriteString(w, content); n != len(content) || err != nil {
		t.Fatalf("Write to %q = %d, %v", name, n, err)
	}
	return w
}

func put(t testing.TB, s blob.Store, name, content string) {
	t.Helper()
	w := create(t, s, name, content)
	if err := s.Commit(t.Context(), w); err != nil {
		t.Fatalf("Commit(%q): %v", name, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after Commit of %q: %v", name, err)
	}
}

// get returns the content of a blob, and whether it exists.
func get(t testing.TB, s blob.Store, name string) (string, bool) {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if errors.Is(err, blob.ErrNotExist) {
		return "", false
	}
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %q: %v", name, err)
	}
	if info := r.Info(); info.Name != name || info.Size != int64(len(b)) {
		t.Errorf("Info of %q = %+v, want size %d", name, info, len(b))
	}
	return string(b), true
}

func wantContent(t testing.TB, s blob.Store, name, want string) {
	t.Helper()
	if got, ok := get(t, s, name); !ok || got != want {
		t.Errorf("%q holds %.40q (%v), want %.40q", name, got, ok, want)
	}
}

func wantAbsent(t testing.TB, s blob.Store, name string) {
	t.Helper()
	if got, ok := get(t, s, name); ok {
		t.Errorf("%q holds %.40q, want nothing", name, got)
	}
	if info, err := s.Stat(t.Context(), name); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Stat(%q) = %+v, %v, want ErrNotExist", name, info, err)
	}
}

func list(t testing.TB, s blob.Store, prefix string) []string {
	t.Helper()
	names := []string{}
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		names = append(names, info.Name)
	}
	return names
}

func wantList(t testing.TB, s blob.Store, prefix string, want ...string) {
	t.Helper()
	if got := list(t, s, prefix); !slices.Equal(got, want) {
		t.Errorf("List(%q) = %q, want %q", prefix, got, want)
	}
}

var (
	oddNames = []string{
		"a", "a b", "a/b c/d", "ü/é", "\xff\xfe", "new\nline", "-", "...", "..a", "%00", "~", "a\\b", "a:b",
		strings.Repeat("n", 255), strings.Repeat("dir/", 20) + "x", "UPPER", "upper",
	}
	badNames = []string{"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/../b", "../a", "a\x00b"}
)

func testNames(t *testing.T, s blob.Store, l Limits) {
	names := slices.DeleteFunc(slices.Clone(oddNames[1:]), func(n string) bool { return l.refuses(t, s, n) }) // other names begin with the first
	for _, name := range names {
		if !blob.ValidName(name) {
			t.Errorf("ValidName(%q) = false", name)
		}
		put(t, s, name, name)
	}
	for _, name := range names {
		wantContent(t, s, name, name)
	}
	ctx := t.Context()
	for _, name := range badNames {
		if blob.ValidName(name) {
			t.Errorf("ValidName(%q) = true", name)
		}
		if _, err := s.Create(ctx, name); !errors.Is(err, blob.ErrName) {
			t.Errorf("Create(%q) = %v, want ErrName", name, err)
		}
		if _, err := s.Open(ctx, name); !errors.Is(err, blob.ErrName) {
			t.Errorf("Open(%q) = %v, want ErrName", name, err)
		}
		if _, err := s.Stat(ctx, name); !errors.Is(err, blob.ErrName) {
			t.Errorf("Stat(%q) = %v, want ErrName", name, err)
		}
		if err := s.Remove(ctx, name); !errors.Is(err, blob.ErrName) {
			t.Errorf("Remove(%q) = %v, want ErrName", name, err)
		}
	}
}

func testAbsent(t *testing.T, s blob.Store) {
	wantList(t, s, "")
	wantAbsent(t, s, "a")
	wantAbsent(t, s, "a/b/c")
	wantAbsent(t, s, strings.Repeat("x", 300))
	_, err := s.Open(t.Context(), "who/is")
	if err == nil || !strings.Contains(err.Error(), "who/is") {
		t.Errorf("Open = %v, want an error with the name", err)
	}
	if err := s.Remove(t.Context(), "a", "a/b/c"); err != nil {
		t.Errorf("Remove of nothing: %v", err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Errorf("Commit of nothing: %v", err)
	}
}

func testVisible(t *testing.T, s blob.Store) {
	w := create(t, s, "d/a", "one")
	wantAbsent(t, s, "d/a")
	wantList(t, s, "")
	if err := s.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "d/a", "one")
	wantList(t, s, "", "d/a")
	if _, err := w.Write([]byte("more")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Commit = %v, want ErrClosed", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	wantContent(t, s, "d/a", "one")
	put(t, s, "empty", "")
	wantContent(t, s, "empty", "")
	big := strings.Repeat("0123456789abcdef", 100_000)
	put(t, s, "big", big)
	wantContent(t, s, "big", big)
}

func testReplace(t *testing.T, s blob.Store) {
	put(t, s, "a", "first version")
	w := create(t, s, "a", "second")
	wantContent(t, s, "a", "first version")
	if err := s.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "a", "second")
	wantList(t, s, "", "a")
}

func testDrop(t *testing.T, s blob.Store) {
	put(t, s, "a", "old")
	w := create(t, s, "a", "new")
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := w.Write(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Close = %v, want ErrClosed", err)
	}
	wantContent(t, s, "a", "old")
	if err := create(t, s, "b", "x").Close(); err != nil {
		t.Error(err)
	}
	wantAbsent(t, s, "b")
	wantList(t, s, "", "a")
}

func testBatch(t *testing.T, s blob.Store) {
	for _, n := range []int{1, 7, 100} {
		var ws []blob.Writer
		names := []string{}
		for i := range n {
			name := strings.Repeat("d/", i%5) + "n" + string(rune('A'+i%26)) + strings.Repeat("x", i/26)
			names = append(names, name)
			ws = append(ws, create(t, s, name, name))
		}
		if err := s.Commit(t.Context(), ws...); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			wantContent(t, s, name, name)
		}
	}
	// In order: the last one of a name wins.
	one, two := create(t, s, "same", "one"), create(t, s, "same", "two")
	if err := s.Commit(t.Context(), two, one); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "same", "one")
}

type stranger struct{ blob.Writer }

func testMisuse(t *testing.T, s blob.Store) {
	var commit *blob.CommitError
	good, gone := create(t, s, "good", "x"), create(t, s, "gone", "x")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, ws := range map[string][]blob.Writer{
		"gone": {good, gone},
		"good": {good, good},
		"odd":  {good, stranger{create(t, s, "odd", "x")}},
	} {
		err := s.Commit(t.Context(), ws...)
		if !errors.As(err, &commit) || commit.Done != 0 || commit.Name != name {
			t.Errorf("Commit = %v, want a CommitError that names %s", err, name)
		}
	}
	wantAbsent(t, s, "good")
	if err := s.Commit(t.Context(), good); err != nil {
		t.Errorf("Commit after errors: %v", err)
	}
	if err := s.Commit(t.Context(), good); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Commit = %v, want ErrClosed", err)
	}
	wantContent(t, s, "good", "x")
}

func testModTime(t *testing.T, s blob.Store) {
	before := time.Now().Add(-2 * time.Second)
	put(t, s, "now", "x")
	info, err := s.Stat(t.Context(), "now")
	if err != nil || info.ModTime.Before(before) || info.ModTime.After(time.Now().Add(2*time.Second)) {
		t.Errorf("Stat = %+v, %v, want the present", info, err)
	}
	for _, want := range []time.Time{
		time.Date(2013, 1, 3, 9, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2041, 5, 6, 7, 8, 9, 123456000, time.UTC),
	} {
		w := create(t, s, "then", "x")
		w.SetModTime(want)
		if _, err := w.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if info, err := s.Stat(t.Context(), "then"); err != nil || !info.ModTime.Equal(want) || info.Size != 2 {
			t.Errorf("Stat = %+v, %v, want %v", info, err, want)
		}
	}
}

func testReader(t *testing.T, s blob.Store) {
	put(t, s, "a", "0123456789")
	r, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 3)
	if n, err := r.ReadAt(buf, 4); n != 3 || err != nil || string(buf) != "456" {
		t.Errorf("ReadAt = %d, %v, %q", n, err, buf)
	}
	if at, err := r.Seek(-2, io.SeekEnd); at != 8 || err != nil {
		t.Errorf("Seek = %d, %v", at, err)
	}
	put(t, s, "a", "another")
	if b, err := io.ReadAll(r); string(b) != "89" || err != nil {
		t.Errorf("read after replacement = %q, %v, want the old version", b, err)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if n, err := r.ReadAt(buf, 0); n != 3 || err != nil || string(buf) != "012" {
		t.Errorf("ReadAt after removal = %d, %v, %q, want the old version", n, err, buf)
	}
}

func testRemove(t *testing.T, s blob.Store) {
	for _, name := range []string{"a", "d/e/f", "d/e/g", "d/h", "z"} {
		put(t, s, name, name)
	}
	if err := s.Remove(t.Context(), "a", "nothing", "d/e/f", "d", "d/h", "d/h"); err != nil && !errors.Is(err, blob.ErrDirectory) {
		t.Fatal(err)
	}
	wantList(t, s, "", "d/e/g", "z")
	if err := s.Remove(t.Context(), "d/e/g", "z"); err != nil {
		t.Fatal(err)
	}
	wantList(t, s, "")
	put(t, s, "d", "was a directory, maybe")
	wantContent(t, s, "d", "was a directory, maybe")
}

func testCancelled(t *testing.T, s blob.Store) {
	put(t, s, "a", "x")
	w := create(t, s, "b", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, "c")
	_, err1 := s.Open(ctx, "a")
	_, err2 := s.Stat(ctx, "a")
	errs := []error{err, err1, err2, s.Commit(ctx, w), s.Remove(ctx, "a")}
	for _, err := range s.List(ctx, "") {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d = %v, want Canceled", i, err)
		}
	}
	wantList(t, s, "", "a")
	if err := s.Commit(t.Context(), w); err != nil {
		t.Error(err)
	}
}
