// Package versions keeps prior versions of the resources of a Source, as its sets are
// configured: it notes which sets keep some, drops those that are no longer to be kept,
// and reports figures about them. The package bitstream stores the versions.
package versions

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/bitstream"
	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/statedir"
	"lockstep/memento"
	"lockstep/source"
	"lockstep/vault"
)

// versionsNote lists the sets that keep versions, or did. The bytes of prior versions are at the place of
// the contents, and the database lists the versions, next to the catalog.
const versionsNote = "versions.json"

// A mark is the record of a set that keeps versions or did, under its name in the
// catalog.
type mark struct {
	Complete bool        `json:"complete,omitempty"` // each resource had a version at the last check
	Ended    *time.Time  `json:"ended,omitempty"`    // since when none are kept any more
	EndedSeq catalog.Seq `json:"ended_seq,omitempty"`
}

// Any reports whether a set keeps prior versions.
func Any(sets []config.Set) bool {
	return slices.ContainsFunc(sets, func(c config.Set) bool { return c.Versions != nil })
}

// CheckFiles rejects sets that keep versions, for a Source that is nothing but files
// and could not serve them.
func CheckFiles(sets []config.Set) error {
	for i := range sets {
		if c := &sets[i]; c.Versions != nil {
			return term.Usage(fmt.Errorf("set %s: versions: files cannot offer prior versions, only a program that answers", c.Label(i)),
				"use lockstep serve, or leave versions out")

		}
	}
	return nil
}

// A Store is where prior versions are stored, with the marks of the sets that keep
// them or did.
type Store struct {
	blobs    contentplace.Store // their bytes; nil: no set keeps versions, and none did
	trusted  bool               // that store verifies its bytes
	shared   bool               // by several processes
	index    memento.Store
	compress bool
	notes    statedir.Notes // with the marks

	mu    sync.Mutex // guards marks: a reload reads them beside an Upkeep
	marks map[string]mark
}

// Open opens the store, if a set keeps versions, or did. index lists the versions.
func Open(ctx context.Context, place *contentplace.Place, notes statedir.Notes, sets []config.Set, index memento.Store) (*Store, error) {
	s := &Store{notes: notes, trusted: place.Trusted(), shared: place.IsShared()}
	if err := statedir.ReadJSON(s.notes, versionsNote, &s.marks); err != nil {
		return nil, err
	}
	if len(s.marks) == 0 && !Any(sets) {
		return s, nil
	}
	var err error
	if s.blobs, err = place.Store(ctx, contentplace.Versions); err != nil {
		return nil, err
	}
	s.index = index
	s.compress = slices.ContainsFunc(sets, func(c config.Set) bool { return c.Versions != nil && c.Versions.Compress })
	return s, nil
}

// Close closes the store.
func (s *Store) Close() {
	if s.blobs != nil {
		_ = s.blobs.Close() // everything written was committed before
	}
}

// Used reports whether a set keeps versions, or did.
func (s *Store) Used() bool { return s.blobs != nil }

// Index returns the list of the versions, or nil.
func (s *Store) Index() memento.Store { return s.index }

// Vault returns the store of the versions' bytes, or nil.
func (s *Store) Vault(log *slog.Logger) *vault.Vault {
	if s.blobs == nil {
		return nil
	}
	return vault.New(s.blobs, vault.Options{Compress: s.compress, Trust: s.trusted, Shared: s.shared, Logger: log})
}

// Marked reports whether the set with a Capability List keeps versions, or did.
func (s *Store) Marked(list string) bool {
	_, ok := s.marked(list)
	return ok
}

// Options returns how versions of a set are kept; nil: it keeps none, and did not.
func (s *Store) Options(list string, c *config.Set, baseURL string) (*bitstream.VersionOptions, error) {
	if c.Versions == nil && !s.Marked(list) {
		return nil, nil
	}
	base, err := source.BaseURL(baseURL)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	return &bitstream.VersionOptions{Base: memento.Base(base), Ending: c.Versions == nil}, nil
}

// LeaveRoom excludes from a set at the path below the base URL the names at which
// prior versions are offered. note prints a line for the user about each file that is
// excluded.
func (s *Store) LeaveRoom(c *config.Set, path string, note func(format string, args ...any)) error {
	if s.blobs == nil {
		return nil
	}
	names, err := reservedNames(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(c.Origin.Dir(), name)); err == nil && c.Origin.Dir() != "" {
			note("%s is not published: prior versions are found below that address", filepath.Join(c.Origin.Dir(), name))
		}
	}
	c.Exclude = append(slices.Clone(c.Exclude), names...)
	return nil
}

// reservedNames returns the names in a set at the path below the base URL at which
// versions are offered.
func reservedNames(path string) ([]string, error) {
	if memento.Contains(path) {
		return nil, term.WithHint(fmt.Errorf("below %s there are prior versions", strings.SplitAfterN(path, "/", 2)[0]), "give the set another uri")
	}
	if path != "" {
		return nil, nil
	}
	var names []string
	for _, prefix := range []string{memento.VersionsPrefix, memento.TimeGatePrefix, memento.TimeMapPrefix} {
		names = append(names, "/"+strings.TrimSuffix(prefix, "/"))
	}
	return names, nil
}

// marked returns the mark of the set with a Capability List.
func (s *Store) marked(list string) (mark, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.marks[list]
	return m, ok
}

// lists returns the Capability Lists of all sets with a mark.
func (s *Store) lists() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.marks))
}

// mark records m for the set with a Capability List, unless that is recorded; nil: its
// record is removed.
func (s *Store) mark(list string, m *mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.marks[list]
	if m == nil && !known || m != nil && known && was == *m {
		return nil
	}
	next := maps.Clone(s.marks)
	if next == nil {
		next = make(map[string]mark)
	}
	if m == nil {
		delete(next, list)
	} else {
		next[list] = *m
	}
	if err := statedir.WriteJSON(s.notes, versionsNote, next); err != nil {
		return err
	}
	s.marks = next
	return nil
}
