package places

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lockstep/blob"
	"lockstep/destination/filename"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// If the path of a resource is occupied, its file gets a marked name. When the path
// becomes free the file is moved there without being fetched again. The same
// applies to a file that an earlier version stored in a directory with the name of
// the mirror's state.

// DocMarked is the name of the document that contains a [Marked].
const DocMarked = "marked"

const (
	// maxMarked limits the resources that are remembered by name. In a mirror with
	// more, all rows are searched.
	maxMarked = 10_000

	// moveCount is the number of files moved between two records in the Journal.
	moveCount = 256
)

// Marked contains the resources with marked names.
type Marked struct {
	Known bool     `json:"known"`          // all rows were searched
	State bool     `json:"state"`          // the search included files in directories with the state's name
	URIs  []string `json:"uris,omitempty"` // at most maxMarked
	Over  bool     `json:"over,omitempty"` // there are more

	changed bool
}

// NoneMarked returns what is known of a mirror that has no files yet.
func NoneMarked() Marked { return Marked{Known: true, State: true, changed: true} }

// isMarked reports whether a path has the mark of a file whose name a directory
// has, or of a directory whose name a file has, or contains a directory with the
// name of the mirror's state.
func isMarked(path string) bool {
	return strings.Contains(path, "%~+/") || strings.HasSuffix(path, "%~-") || filename.InStateDir(path)
}

// Add records a resource if its file has a marked name.
func (m *Marked) Add(uri, path string) {
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

// A Mover moves files with marked names to their own places.
type Mover struct {
	Journal journal.Journal
	Files   interface {
		blob.Store
		blob.Mover
	}
	Paths *filename.Mapping
	In    string // names the mirror in the middle of a sentence; may be empty

	Begin  func(context.Context) error                // called before the first change
	Record func(context.Context, journal.Batch) error // records the rows of files that have moved
	Stops  func(error) bool                           // whether an error of the store must end the run
	Warn   func(uri, text string)
	Moved  func(row *journal.Held)
}

// MoveHome moves the files with marked names whose own paths are free. freed says
// that files were removed in this run, so that the paths of resources that are not
// remembered may be free, too.
func (v *Mover) MoveHome(ctx context.Context, m *Marked, freed bool) error {
	if !m.Known || !m.State || m.Over && freed {
		if err := v.find(ctx, m); err != nil {
			return err
		}
	}
	var still []string
	for uris := range slices.Chunk(m.URIs, moveCount) {
		left, err := v.move(ctx, uris)
		if err != nil {
			return err
		}
		still = append(still, left...)
	}
	m.changed = m.changed || len(still) != len(m.URIs)
	m.URIs = still
	if !m.changed {
		return nil
	}
	m.changed = false
	return v.Journal.Record(ctx, journal.Batch{Save: map[string][]byte{DocMarked: saved.Encode(m)}})
}

// find searches all rows for marked names.
func (v *Mover) find(ctx context.Context, m *Marked) error {
	*m = NoneMarked()
	if lister, ok := v.Journal.(journal.FileLister); ok {
		for p, err := range lister.Files(ctx) {
			if err != nil {
				return err
			}
			for i := range p.Files {
				if path := p.Files[i].Path; isMarked(path) {
					if uri, err := v.Paths.URI(path); err == nil {
						m.Add(uri, path)
					}
				}
			}
		}
		return nil
	}
	for h, err := range v.Journal.Held(ctx, "", "") {
		if err != nil {
			return err
		}
		m.Add(h.URI, h.Path)
	}
	return nil
}

// move moves the files of resources whose paths are free, and returns the resources
// that keep their marked names.
func (v *Mover) move(ctx context.Context, uris []string) (still []string, err error) {
	held, err := v.Journal.Lookup(ctx, uris)
	if err != nil {
		return nil, err
	}
	given := reserve.New(v.Paths, v.Files)
	var moves []Move
	var rows []journal.Held
	for i := range held {
		h := &held[i]
		own, err := v.Paths.Path(h.URI)
		if h.URI == "" || err != nil || own == h.Path {
			continue // it is gone, or has its own name
		}
		still = append(still, h.URI)
		if to, err := v.Paths.Place(h.URI, func(path string) (filename.Occupancy, error) { return given.At(ctx, path) }); err != nil || to != own || len(h.Hashes) == 0 {
			continue
		}
		if _, err := v.Files.Stat(ctx, h.Path); err != nil {
			continue // the local check repairs it
		}
		given.Take(h.URI, own)
		moves, rows = append(moves, Move{h.URI, h.Path, own}), append(rows, *h)
	}
	if len(moves) == 0 {
		return still, ctx.Err()
	}
	if err := v.Begin(ctx); err != nil {
		return nil, err
	}
	save := map[string][]byte{DocChange: saved.Encode(&Change{Moves: moves})}
	if err := v.Journal.Record(ctx, journal.Batch{Save: save}); err != nil {
		return nil, fmt.Errorf("record which files move: %w", err)
	}
	b := journal.Batch{Save: map[string][]byte{DocChange: nil}}
	for i, move := range moves {
		if err := v.Files.Move(ctx, move.From, move.To); err != nil {
			if ctx.Err() != nil || v.Stops(err) {
				return nil, fmt.Errorf("move %s to its own place%s: %w", fetch.Printable(move.URI), v.In, err)
			}
			v.Warn(move.URI, fmt.Sprintf("move %s to its own place%s: %v", fetch.Printable(move.URI), v.In, err))
			continue
		}
		rows[i].Path = move.To
		b.Put = append(b.Put, rows[i])
		v.Moved(&rows[i])
		still = slices.DeleteFunc(still, func(uri string) bool { return uri == move.URI })
	}
	return still, v.Record(ctx, b)
}
