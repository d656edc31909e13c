package contentplace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
)

// A source has its state in a directory.
type source struct {
	*testing.T
	dir string
}

func newSource(t *testing.T) *source { return &source{t, t.TempDir()} }

func (s *source) open(address string) (*contentplace.Place, error) {
	return contentplace.Open(s.Context(), contentplace.Options{Address: address, StateDir: s.dir, State: statedir.In(s.dir)})
}

// versions opens the versions at an address.
func (s *source) versions(address string) contentplace.Store {
	s.Helper()
	p, err := s.open(address)
	if err != nil {
		s.Fatal(err)
	}
	store, err := p.Store(s.Context(), contentplace.Versions)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = store.Close() }) // everything written was committed before
	return store
}

// keep stores a blob at an address.
func (s *source) keep(address, name string) {
	s.Helper()
	store := s.versions(address)
	w, err := store.Create(context.Background(), name)
	if err == nil {
		err = store.Commit(context.Background(), w)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// has reports whether a blob is at an address.
func (s *source) has(address, name string) bool {
	s.Helper()
	_, err := s.versions(address).Stat(context.Background(), name)
	return err == nil
}

// refused opens an address, and checks that it is refused with a remedy.
func (s *source) refused(address, want string) {
	s.Helper()
	_, err := s.open(address)
	if err == nil || !strings.Contains(err.Error(), want) || term.HintOf(err) == "" {
		s.Errorf("%q is opened with %v, hint %q; want %q", address, err, term.HintOf(err), want)
	}
}

// TestMove: a place that lacks what was kept before is refused, in both directions, until it has it.
func TestMove(t *testing.T) {
	t.Parallel()
	s, elsewhere, third := newSource(t), t.TempDir(), t.TempDir()
	s.keep("", "first")
	if _, err := os.Stat(filepath.Join(s.dir, contentplace.Versions, "first")); err != nil {
		t.Fatal(err)
	}
	s.refused(elsewhere, "is in "+s.dir)
	for _, dir := range []string{s.dir, elsewhere} { // a part of what was kept is not enough
		if err := os.Mkdir(filepath.Join(dir, contentplace.Bitstreams), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(elsewhere, contentplace.Bitstreams, "bytes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused(elsewhere, "is in "+s.dir)
	move(t, s.dir, elsewhere)
	if !s.has(elsewhere, "first") {
		t.Error("what was moved is not there")
	}
	s.keep(elsewhere+"/", "second")
	s.refused("", elsewhere)
	s.refused(third, "is in "+elsewhere)
	move(t, elsewhere, third)
	if !s.has(third, "second") {
		t.Error("what was moved is not there")
	}
	move(t, third, s.dir)
	if !s.has("", "first") {
		t.Error("what was moved back is not there")
	}
	s.refused(elsewhere, "is in "+s.dir)
}

// TestEmptyPlaces: as long as nothing is kept, any place will do.
func TestEmptyPlaces(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	for _, address := range []string{"", t.TempDir(), t.TempDir(), ""} {
		if s.has(address, "first") {
			t.Error("an empty place has something")
		}
	}
	gone := t.TempDir()
	s.has(gone, "first")
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	s.refused("", "is in "+gone) // it may have had something
}

// TestClaim: a place belongs to one state.
func TestClaim(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	one, two := newSource(t), newSource(t)
	one.keep(elsewhere, "first")
	two.refused(elsewhere, "has the contents of another state")
	if !one.has(elsewhere, "first") {
		t.Error("the place no longer belongs to the first state")
	}
	info, err := os.Stat(filepath.Join(elsewhere, contentplace.Versions, "first"))
	if err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	p, err := contentplace.Open(t.Context(), contentplace.Options{Address: elsewhere, StateDir: two.dir, State: statedir.In(two.dir), TakeOver: true})
	if err != nil || p.Trusted() {
		t.Fatal(err)
	}
	if has, err := p.Has(t.Context(), contentplace.Versions); err != nil || !has {
		t.Errorf("what was taken over is not there: %v", err)
	}
	if has, err := p.Has(t.Context(), contentplace.Bitstreams); err != nil || has {
		t.Errorf("a store is there that is not: %v", err)
	}
}

// move moves what is kept from one place to another.
func move(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{contentplace.Versions, contentplace.Bitstreams} {
		if kept, err := os.ReadDir(filepath.Join(from, name)); err != nil || len(kept) == 0 {
			continue
		}
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}
