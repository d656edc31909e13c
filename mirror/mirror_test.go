package mirror_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/destination/lock"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/mirror"
)

func TestSyncContinuesWhereTheLastRunEnded(t *testing.T) {
	t.Parallel()
	source := startSource("one.txt")
	t.Cleanup(source.Close)
	dir := filepath.Join(t.TempDir(), "new", "mirror")
	first, err := mirror.Sync(t.Context(), source.URL, dir, mirror.Options{})
	if err != nil || first.Created != 1 || first.Mode != destination.ModeBaseline {
		t.Fatalf("first run: %+v, %v", first, err)
	}
	again, err := mirror.Sync(t.Context(), source.URL, dir, mirror.Options{})
	if err != nil || again.Created != 0 || again.Mode == destination.ModeBaseline {
		t.Fatalf("second run: %+v, %v", again, err)
	}
}

func TestAMirrorInUseIsRefused(t *testing.T) {
	t.Parallel()
	source := startSource("one.txt")
	t.Cleanup(source.Close)
	dir := t.TempDir()
	m, err := mirror.Open(source.URL, dir, mirror.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var used *lock.InUseError
	if _, err := mirror.Sync(t.Context(), source.URL, dir, mirror.Options{}); !errors.As(err, &used) {
		t.Errorf("the mirror is in use: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.Sync(t.Context(), source.URL, dir, mirror.Options{}); err != nil {
		t.Errorf("after it was closed: %v", err)
	}
}

func TestUnusableOptionsCreateNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		source, dir, want string
		options           mirror.Options
	}{
		{"", "mirror", "address of the Source is empty", mirror.Options{}},
		{"https://example.org/", "", "not a directory", mirror.Options{}},
		{"https://example.org/", "s3://bucket/mirror", "not a directory", mirror.Options{}},
		{"https://example.org/", "file", "not a directory", mirror.Options{}},
		{"https://example.org/", "mirror", "[", mirror.Options{Include: []string{"["}}},
	} {
		dir := tt.dir
		if dir != "" && !strings.Contains(dir, "://") {
			dir = filepath.Join(parent, dir)
		}
		if _, err := mirror.Sync(t.Context(), tt.source, dir, tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Sync(%q, %q) = %v, want an error with %q", tt.source, tt.dir, err, tt.want)
		}
	}
	if names, err := os.ReadDir(parent); err != nil || len(names) != 1 {
		t.Errorf("%v, %v: something was created", names, err)
	}
}

func TestAdjustReachesEveryOption(t *testing.T) {
	t.Parallel()
	source := startSource("one.txt")
	t.Cleanup(source.Close)
	dir := t.TempDir()
	r, err := mirror.Sync(context.Background(), source.URL, dir, mirror.Options{
		Adjust: func(d *destination.Options, c *destination.ClientOptions) { d.DryRun, c.UserAgent = true, "test" },
	})
	if err != nil || !r.DryRun || r.Created != 1 {
		t.Errorf("dry run: %+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "one.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run has written: %v", err)
	}
}

// TestRunsAreRecorded: lockstep status shows how the last run ended, also of one that was read as changes.
func TestRunsAreRecorded(t *testing.T) {
	t.Parallel()
	source := startSource("one.txt", "two.txt")
	t.Cleanup(source.Close)
	dir := t.TempDir()
	m, err := mirror.Open(source.URL, dir, mirror.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	check := func(what string, want lastrun.Result) {
		t.Helper()
		r, ok, err := lastrun.Read(mirrordir.RunNote(dir))
		if err != nil || !ok || r.Result != want {
			t.Errorf("%s: %+v, %v, %v, want the result %q", what, r, ok, err, want)
		}
	}
	for range m.Changes(t.Context(), nil) {
		break
	}
	check("the loop was left", lastrun.Interrupted)
	for _, err := range m.Changes(t.Context(), nil) {
		if err != nil {
			t.Error(err)
		}
	}
	check("all changes were read", lastrun.InStep)
	source.Close()
	for _, err := range m.Changes(t.Context(), nil) {
		if err == nil {
			t.Error("a change of a Source that does not answer")
		}
	}
	check("the Source does not answer", lastrun.Failed)
}
