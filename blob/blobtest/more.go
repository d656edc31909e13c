package blobtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/blob"
)

func testList(t *testing.T, s blob.Store, l Limits) {
	// In byte order "-" precedes "/", and "0" follows it.
	names := []string{"a-b", "a/b", "a/b-c/x", "a/b0", "a0", "b/c/d", "b/cc", "b/d", "Z", "\xff/x", "é"}
	names = slices.DeleteFunc(names, func(n string) bool { return l.refuses(t, s, n) })
	for _, i := range rand.Perm(len(names)) {
		put(t, s, names[i], "x")
	}
	if _, err := s.Stat(t.Context(), "a"); err == nil {
		t.Error("Stat of a directory succeeded")
	}
	slices.Sort(names)
	for _, prefix := range []string{"", "a", "a/", "a/b", "a-", "b/c", "b/c/", "b/c/d", "b/c/de", "Z", "q", "\xff", "/", "a//", "..", "./"} {
		want := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		wantList(t, s, prefix, want...)
	}
	n := 0
	for range s.List(t.Context(), "a") {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("List went on to %d", n)
	}
}

func testListWhileChanging(t *testing.T, s blob.Store) {
	for i := range 50 {
		put(t, s, fmt.Sprintf("d%d/x", i), "x")
		put(t, s, fmt.Sprintf("stays/%02d", i), "x")
	}
	stays := 0
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(info.Name, "stays/") {
			stays++
		} else if err := s.Remove(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
	}
	if stays != 50 {
		t.Errorf("List yielded %d of the 50 that stayed", stays)
	}
	wantList(t, s, "d")
}

func testTwoWriters(t *testing.T, s blob.Store) {
	one, two, three := create(t, s, "a", "one"), create(t, s, "a", "two"), create(t, s, "a", "three")
	for _, w := range []blob.Writer{one, two} {
		if _, err := io.WriteString(w, " more"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "a", "two more")
	if err := three.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "a", "one more")
}

// A reader sees one whole version at any time.
func testAtomic(t *testing.T, s blob.Store) {
	version := func(i int) string { return strings.Repeat(fmt.Sprintf("%06d ", i), 2000+i) }
	put(t, s, "a", version(0))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := 0
			for {
				got, ok := get(t, s, "a")
				var i int
				_, err := fmt.Sscanf(got, "%d", &i)
				if !ok || err != nil || i < last || got != version(i) {
					t.Errorf("read %d bytes beginning %.20q after version %d", len(got), got, last)
					return
				}
				last = i
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 100 {
		put(t, s, "a", version(i+1))
	}
	close(done)
	wg.Wait()
}

// Many goroutines work at once, in directories that are created and removed.
func testConcurrent(t *testing.T, s blob.Store) {
	const workers, rounds = 8, 30
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			own := fmt.Sprintf("shared/deep/%d", n)
			for i := range rounds {
				var ws []blob.Writer
				for j := range 1 + i%12 {
					w, err := s.Create(t.Context(), fmt.Sprintf("%s/%d", own, j))
					if err == nil {
						_, err = fmt.Fprint(w, own, i)
					}
					if err != nil {
						t.Errorf("create: %v", err)
						return
					}
					ws = append(ws, w)
				}
				if err := s.Commit(t.Context(), ws...); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				for _, w := range ws {
					if got, ok := get(t, s, w.Name()); !ok || got != fmt.Sprint(own, i) {
						t.Errorf("%q holds %q", w.Name(), got)
					}
					if err := s.Remove(t.Context(), w.Name()); err != nil {
						t.Errorf("remove: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			for _, err := range s.List(t.Context(), "shared") {
				if err != nil {
					t.Errorf("list: %v", err)
				}
			}
		}
	})
	wg.Wait()
	wantList(t, s, "")
}

// A directory created for one blob may be removed with another at any moment.
func testComeAndGo(t *testing.T, s blob.Store, l Limits) {
	if l.LosesInFolders {
		put(t, s, "a/b/c/stays", "")
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("a/b/c/%d", n)
			for range 100 {
				w, err := s.Create(t.Context(), name)
				if err == nil {
					err = s.Commit(t.Context(), w)
				}
				if err == nil {
					_, err = s.Stat(t.Context(), name)
				}
				if err == nil {
					err = s.Remove(t.Context(), name)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if l.LosesInFolders {
		if err := s.Remove(t.Context(), "a/b/c/stays"); err != nil {
			t.Error(err)
		}
	}
	wantList(t, s, "")
}

// resumable returns the optional interfaces: a store may lack them, but has all
// or none, unless it is limited to sweeping.
func resumable(t *testing.T, s blob.Store, l Limits) (blob.Resumer, blob.Sweeper) {
	t.Helper()
	r, ok := s.(blob.Resumer)
	sw, ok1 := s.(blob.Sweeper)
	w := create(t, s, "probe", "")
	defer w.Close()
	_, ok2 := w.(blob.Keeper)
	if l.NoResume && !ok && !ok2 {
		return nil, nil
	}
	if ok != ok1 || ok != ok2 {
		t.Fatalf("Resumer %v, Sweeper %v, Keeper %v: want all or none", ok, ok1, ok2)
	}
	return r, sw
}

func keep(t *testing.T, s blob.Store, name, content string) {
	t.Helper()
	if err := create(t, s, name, content).(blob.Keeper).Keep(); err != nil {
		t.Fatalf("Keep of %q: %v", name, err)
	}
}

func wantUnfinished(t *testing.T, r blob.Resumer, name, want string) {
	t.Helper()
	w, there, err := r.Resume(t.Context(), name)
	if want == "" {
		if !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("Resume(%q) = %v, want ErrNotExist", name, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("Resume(%q): %v", name, err)
	}
	b, err := io.ReadAll(there)
	if err != nil || string(b) != want || there.Size() != int64(len(want)) {
		t.Errorf("Resume(%q) has %q, %v, want %q", name, b, err, want)
	}
	if err := w.(blob.Keeper).Keep(); err != nil {
		t.Error(err)
	}
}

func testResume(t *testing.T, s blob.Store, l Limits) {
	r, _ := resumable(t, s, l)
	if r == nil {
		return
	}
	if _, _, err := r.Resume(t.Context(), "../x"); !errors.Is(err, blob.ErrName) {
		t.Errorf("Resume of a bad name = %v, want ErrName", err)
	}
	wantUnfinished(t, r, "d/a", "")
	keep(t, s, "d/a", "first ")
	wantAbsent(t, s, "d/a")
	wantList(t, s, "")
	w, there, err := r.Resume(t.Context(), "d/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "second"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(there); string(b) != "first " || err != nil {
		t.Errorf("what was there = %q, %v", b, err)
	}
	if _, _, err := r.Resume(t.Context(), "d/a"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Resume of what is being written = %v, want ErrNotExist", err)
	}
	if err := s.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "d/a", "first second")
	wantUnfinished(t, r, "d/a", "")

	keep(t, s, "b", "dropped")
	w, _, err = r.Resume(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, r, "b", "")

	keep(t, s, "c", "begun")
	put(t, s, "c", "anew")
	wantUnfinished(t, r, "c", "")
	wantContent(t, s, "c", "anew")
}

func testKeep(t *testing.T, s blob.Store, l Limits) {
	r, _ := resumable(t, s, l)
	if r == nil {
		return
	}
	w := create(t, s, "a", "x")
	if err := w.(blob.Keeper).Keep(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	wantUnfinished(t, r, "a", "x")
	if err := w.(blob.Keeper).Keep(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Keep = %v, want ErrClosed", err)
	}
	if err := s.Commit(t.Context(), w); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit after Keep = %v, want ErrClosed", err)
	}
	wantUnfinished(t, r, "a", "x")

	// Of two concurrent Writers one is kept: the one that ends while no other has
	// the name.
	one, two := create(t, s, "b", "one"), create(t, s, "b", "two")
	if err := two.(blob.Keeper).Keep(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(one, "!"); err != nil {
		t.Fatal(err)
	}
	if err := one.(blob.Keeper).Keep(); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, r, "b", "one!")
	one, two = create(t, s, "c", "one"), create(t, s, "c", "two")
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := two.(blob.Keeper).Keep(); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, r, "c", "two")
}

func testSweep(t *testing.T, s blob.Store, l Limits) {
	r, sw := resumable(t, s, l)
	if r == nil {
		return
	}
	names := func(names ...string) func(func(string) bool) { return slices.Values(names) }
	if n, err := sw.Sweep(t.Context(), names()); n != 0 || err != nil {
		t.Errorf("Sweep of nothing = %d, %v", n, err)
	}
	for _, name := range []string{"a", "b", "d/c"} {
		keep(t, s, name, name)
	}
	put(t, s, "committed", "x")
	writing := create(t, s, "writing", "x")
	if n, err := sw.Sweep(t.Context(), names("zzz", "b", "committed")); n != 2 || err != nil {
		t.Errorf("Sweep = %d, %v, want 2", n, err)
	}
	wantUnfinished(t, r, "a", "")
	wantUnfinished(t, r, "d/c", "")
	wantUnfinished(t, r, "b", "b")
	wantContent(t, s, "committed", "x")
	if err := s.Commit(t.Context(), writing); err != nil {
		t.Error(err)
	}
	wantContent(t, s, "writing", "x")
	if n, err := sw.Sweep(t.Context(), names()); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v, want 1", n, err)
	}
}

// testRename: a Writer that can be renamed commits under its last name.
func testRename(t *testing.T, s blob.Store) {
	w := create(t, s, "first", "text")
	r, can := w.(blob.Renamer)
	if !can {
		return
	}
	for _, bad := range []string{"", "a//b", "../a", "a\x00"} {
		if err := r.Rename(bad); !errors.Is(err, blob.ErrName) {
			t.Errorf("Rename(%q) = %v, want ErrName", bad, err)
		}
	}
	if err := r.Rename("dir/last"); err != nil {
		t.Fatal(err)
	}
	if w.Name() != "dir/last" {
		t.Errorf("Name = %q", w.Name())
	}
	other := create(t, s, "first", "other text")
	if err := s.Commit(t.Context(), w, other); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "dir/last", "text")
	wantContent(t, s, "first", "other text")
}
