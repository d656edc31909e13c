package hiddenfiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lockstep/cmd/lockstep/internal/hiddenfiles"
	"lockstep/internal/statedir"
)

func TestPublished(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	yes, no := true, false
	published := func(set string, given *bool, known bool) bool {
		t.Helper()
		r := &hiddenfiles.Record{Notes: statedir.Files(state), Undecided: true}
		got, err := r.Published(set, given, func() (bool, error) { return known, nil })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tt := range []struct {
		name  string
		set   string
		given *bool
		known bool
		want  bool
	}{
		{"a new set", "new", nil, false, false},
		{"when it has resources", "new", nil, true, false},
		{"the user decides", "new", &yes, true, true},
		{"as the user decided", "new", nil, true, true},
		{"the user decides again", "new", &no, true, false},
		{"as the user decided then", "new", nil, true, false},
		{"a set of an earlier version", "old", nil, true, true},
		{"again", "old", nil, true, true},
		{"the user decides about it", "old", &no, true, false},
		{"as the user decided about it", "old", nil, true, false},
		{"a new set with a flag", "flag", &yes, false, true},
		{"without it", "flag", nil, true, true},
	} {
		if got := published(tt.set, tt.given, tt.known); got != tt.want {
			t.Errorf("%s: %s publishes hidden files: %t, want %t", tt.name, tt.set, got, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "hidden.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &hiddenfiles.Record{Notes: statedir.Files(state), Undecided: true}
	if _, err := r.Published("new", nil, func() (bool, error) { return false, nil }); err == nil {
		t.Error("a damaged record was not noticed")
	}
	r = &hiddenfiles.Record{Notes: statedir.Files(t.TempDir()), Undecided: true}
	failed := errors.New("failed")
	if _, err := r.Published("new", nil, func() (bool, error) { return false, failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v, want that of the catalog", err)
	}
}
