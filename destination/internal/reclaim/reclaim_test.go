package reclaim_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/reclaim"
	"lockstep/destination/journal"
	"lockstep/internal/extsort"
)

// newDirectory returns a directory with files.
func newDirectory(t *testing.T, names ...string) reclaim.Directory {
	t.Helper()
	store := &blob.Mem{}
	for _, name := range names {
		w, err := store.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, name); err != nil {
			t.Fatal(err)
		}
		if err := store.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	return reclaim.Directory{Files: store, Journal: &journal.Mem{}, In: " in copy"}
}

func paths(context.Context) (*filename.Mapping, error) {
	return filename.New(filename.Options{Origin: "http://a.example"})
}

// lists returns a function that adds URIs.
func lists(known bool, uris ...string) func(context.Context, *extsort.Sorter) (bool, error) {
	return func(_ context.Context, to *extsort.Sorter) (bool, error) {
		w := to.Writer()
		defer to.Release(w)
		for _, uri := range uris {
			if err := w.Add([]byte(uri), nil); err != nil {
				return false, err
			}
		}
		return known, nil
	}
}

// TestFilesAreTheMirrorsOwnIfTheSourceListsAllOfThem decides about directories without
// a Journal.
func TestFilesAreTheMirrorsOwnIfTheSourceListsAllOfThem(t *testing.T) {
	t.Parallel()
	all := lists(true, "http://a.example/b", "http://a.example/a", "http://a.example/c")
	for _, tt := range []struct {
		name  string
		files []string
		list  func(context.Context, *extsort.Sorter) (bool, error)
		ours  bool
	}{
		{"all are listed", []string{"a", "c"}, all, true},
		{"the state does not count", []string{"a", filename.StateDir + "/state.db"}, all, true},
		{"one is not listed", []string{"a", "bb"}, all, false},
		{"the last is not listed", []string{"a", "d"}, all, false},
		{"nothing is listed", []string{"a"}, lists(true), false},
		{"the lists are unreadable", []string{"a"}, lists(false, "http://a.example/a"), false},
		{"there are none", nil, all, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := reclaim.Ownership{Open: true}
			if err := o.Decide(t.Context(), newDirectory(t, tt.files...), paths, tt.list); err != nil || o.Ours != tt.ours || o.Open {
				t.Errorf("Decide: %+v, %v; want ours %t", o, err, tt.ours)
			}
		})
	}
}

// TestDecideOnlyOnce does not read lists when ownership is decided, or the names of
// files are unknown.
func TestDecideOnlyOnce(t *testing.T) {
	t.Parallel()
	list := func(context.Context, *extsort.Sorter) (bool, error) { return false, errors.New("lists were read") }
	none := func(context.Context) (*filename.Mapping, error) { return nil, nil }
	for _, tt := range []struct {
		name  string
		o     reclaim.Ownership
		paths func(context.Context) (*filename.Mapping, error)
	}{
		{"the Journal is old", reclaim.Ownership{}, paths},
		{"they are its own", reclaim.Ownership{Open: true, Ours: true}, paths},
		{"names are unknown", reclaim.Ownership{Open: true}, none},
	} {
		want := tt.o.Ours
		if err := tt.o.Decide(t.Context(), newDirectory(t, "a"), tt.paths, list); err != nil || tt.o.Ours != want {
			t.Errorf("%s: %+v, %v", tt.name, tt.o, err)
		}
	}
}
