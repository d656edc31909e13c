package publish_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/intake"
	"lockstep/publish"
)

const base = "https://data.example.org/"

// newFiles returns a directory with files, and a place for the state.
func newFiles(t *testing.T, names ...string) (dir, state string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(t.TempDir(), "state")
}

func TestNothingIsWrittenWithoutChanges(t *testing.T) {
	t.Parallel()
	dir, state := newFiles(t, "one.txt")
	o := publish.Options{BaseURL: base, State: state, Out: filepath.Join(t.TempDir(), "out")}
	if r, err := publish.Dir(t.Context(), dir, o); err != nil || !r.Written || r.Resources != 1 {
		t.Fatalf("first: %+v, %v", r, err)
	}
	if r, err := publish.Dir(t.Context(), dir, o); err != nil || r.Written || r.Resources != 1 {
		t.Fatalf("again: %+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, "resourcesync", "main", "capabilitylist.xml")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "one.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := publish.Dir(t.Context(), dir, o); !errors.Is(err, intake.ErrEmpty) {
		t.Errorf("an empty directory: %v", err)
	}
	o.AllowEmpty = true
	if r, err := publish.Dir(t.Context(), dir, o); err != nil || r.Deleted != 1 || r.Resources != 0 {
		t.Errorf("an empty directory, permitted: %+v, %v", r, err)
	}
}

func TestDocumentsOfAnotherStateAreRefused(t *testing.T) {
	t.Parallel()
	dir, state := newFiles(t, "one.txt")
	o := publish.Options{BaseURL: base, State: state}
	if _, err := publish.Dir(t.Context(), dir, o); err != nil {
		t.Fatal(err)
	}
	o.State = filepath.Join(t.TempDir(), "other")
	var refused *destination.RefusedError
	if _, err := publish.Dir(t.Context(), dir, o); !errors.As(err, &refused) {
		t.Errorf("from another state: %v", err)
	}
	o.TakeOver = true
	if r, err := publish.Dir(t.Context(), dir, o); err != nil || r.Resources != 1 {
		t.Errorf("taken over: %+v, %v", r, err)
	}
}

func TestPlacesThatWouldBePublishedAreRefused(t *testing.T) {
	t.Parallel()
	dir, state := newFiles(t, "file")
	for _, tt := range []struct {
		dir, want string
		options   publish.Options
	}{
		{dir, "base URL", publish.Options{State: state}},
		{filepath.Join(dir, "none"), "no such file", publish.Options{BaseURL: base, State: state}},
		{filepath.Join(dir, "file"), "not a directory", publish.Options{BaseURL: base, State: state}},
		{dir, "the state in", publish.Options{BaseURL: base, State: filepath.Join(dir, "state")}},
		{dir, "the documents in", publish.Options{BaseURL: base, State: state, Out: filepath.Join(dir, "documents")}},
	} {
		if _, err := publish.Dir(t.Context(), tt.dir, tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Dir(%q, %+v) = %v, want an error with %q", tt.dir, tt.options, err, tt.want)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v: something was written", names, err)
	}
}
