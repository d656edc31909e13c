package destination

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// Resources whose own place was taken have their files under marked names. When
// the place is free the file moves there, without being fetched again. So do files
// that an earlier version stored in a directory of the name of our state.

// docMarked is the document that says which resources have marked names.
const docMarked = "marked"

const (
	// maxMarked caps the resources that are remembered by name. Of a mirror with
	// more all rows are looked through.
	maxMarked = 10_000

	// moveCount is how many files move between two entries in the Journal.
	moveCount = 256
)

// A markedState says which resources have marked names.
type markedState struct {
	Known bool     `json:"known"`          // all rows were looked through
	State bool     `json:"state"`          // also for files in directories of our state's name
	URIs  []string `json:"uris,omitempty"` // at most maxMarked
	Over  bool     `json:"over,omitempty"` // there are more

	changed bool
}

// isMarked reports whether a path has the mark of a file whose name a directory
// has, or of a directory whose name a file has, or contains a directory with
// the name of our state.
func isMarked(path string) bool {
	return strings.Contains(path, "%~+/") || strings.HasSuffix(path, "%~-") || filename.InStateDir(path)
}

// add notes a resource that has a marked name.
func (m *markedState) add(uri, path string) {
	if m == nil || !isMarked(path) || slices.Contains(m.URIs, uri) {
		return
	}
	m.changed = true
	if len(m.URIs) >= maxMarked {
		m.Over = true
		return
	}
	m.URIs = append(m.URIs, uri)
}

// moveHome moves files with marked names to places that have become free.
func (s *session) moveHome(ctx context.Context) error {
	mover, ok := s.d.store.(blob.Mover)
	if !ok || s.d.opts.DryRun || s.mirror.Origin == "" {
		return nil
	}
	paths, err := s.paths()
	if err != nil {
		return err
	}
	if !s.placed.Known || !s.placed.State || s.placed.Over && s.report.Deleted > 0 {
		if err := s.findMarked(ctx, paths); err != nil {
			return err
		}
	}
	var still []string
	for uris := range slices.Chunk(s.placed.URIs, moveCount) {
		left, err := s.moveSome(ctx, mover, paths, uris)
		if err != nil {
			return err
		}
		still = append(still, left...)
	}
	s.placed.changed = s.placed.changed || len(still) != len(s.placed.URIs)
	s.placed.URIs = still
	if !s.placed.changed {
		return nil
	}
	s.placed.changed = false
	return s.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docMarked: saved.Encode(&s.placed)}})
}

// findMarked looks through all rows.
func (s *session) findMarked(ctx context.Context, paths *filename.Mapping) error {
	s.placed = markedState{Known: true, State: true, changed: true}
	if lister, ok := s.d.journal.(journal.FileLister); ok {
		for p, err := range lister.Files(ctx) {
			if err != nil {
				return err
			}
			for i := range p.Files {
				if path := p.Files[i].Path; isMarked(path) {
					if uri, err := paths.URI(path); err == nil {
						s.placed.add(uri, path)
					}
				}
			}
		}
		return nil
	}
	for h, err := range s.d.journal.Held(ctx, "", "") {
		if err != nil {
			return err
		}
		s.placed.add(h.URI, h.Path)
	}
	return nil
}

// moveSome moves those of the resources that can be, and returns those that
// keep their marked names.
func (s *session) moveSome(ctx context.Context, mover blob.Mover, paths *filename.Mapping, uris []string) (still []string, err error) {
	held, err := s.d.journal.Lookup(ctx, uris)
	if err != nil {
		return nil, err
	}
	given := reserve.New(paths, s.d.store)
	var moves []placeMove
	var rows []journal.Held
	for i := range held {
		h := &held[i]
		own, err := paths.Path(h.URI)
		if h.URI == "" || err != nil || own == h.Path {
			continue // it is gone, or has its own name
		}
		still = append(still, h.URI)
		if to, err := paths.Place(h.URI, func(path string) (filename.Occupancy, error) { return given.At(ctx, path) }); err != nil || to != own || len(h.Hashes) == 0 {
			continue
		}
		if _, err := s.d.store.Stat(ctx, h.Path); err != nil {
			continue // the local check repairs it
		}
		given.Take(h.URI, own)
		moves, rows = append(moves, placeMove{h.URI, h.Path, own}), append(rows, *h)
	}
	if len(moves) == 0 {
		return still, ctx.Err()
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	save := map[string][]byte{docPlaces: saved.Encode(&placeChange{Moves: moves})}
	if err := s.d.journal.Record(ctx, journal.Batch{Save: save}); err != nil {
		return nil, fmt.Errorf("record which files move: %w", err)
	}
	b := journal.Batch{Save: map[string][]byte{docPlaces: nil}}
	for i, m := range moves {
		if err := mover.Move(ctx, m.From, m.To); err != nil {
			if ctx.Err() != nil || isFatal(&content.LocalError{Err: err}) {
				return nil, fmt.Errorf("move %s to its own place%s: %w", fetch.Printable(m.URI), s.d.inDest(), err)
			}
			s.warn(m.URI, fmt.Sprintf("move %s to its own place%s: %v", fetch.Printable(m.URI), s.d.inDest(), err))
			continue
		}
		rows[i].Path = m.To
		b.Put = append(b.Put, rows[i])
		s.moved(&rows[i])
		still = slices.DeleteFunc(still, func(uri string) bool { return uri == m.URI })
	}
	if err := s.keep.AddPast(ctx, &b); err != nil {
		return nil, err
	}
	news := s.out.Take()
	s.out.Save(b.Save, news)
	if err := s.keep.Record(ctx, s.d.journal, b); err != nil {
		return nil, fmt.Errorf("record which files moved: %w", err)
	}
	s.report.Moved += int64(len(b.Put))
	return still, s.out.Saved(ctx, news)
}
