// Package intent reads what a run that was killed was about to commit, and finds out
// from the files which part of it was committed.
package intent

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

// A Mirror is what an intent is of.
type Mirror struct {
	Journal   journal.Journal
	Files     blob.Store
	Forgetful bool   // Files keeps nothing: whether a content was delivered is unknown
	In        string // names the mirror in the middle of a sentence; may be empty
}

// Settle examines each file that the intent names. Committed: it is held. Absent, or
// still the version before: nothing happened. Anything else: it is held, and has to
// be fetched again; it is never taken for a file of another program. Settle returns
// the rows to be recorded, and what is recorded now; found says whether there is an
// intent.
func (m *Mirror) Settle(ctx context.Context) (rows, before []journal.Held, found bool, err error) {
	intent, err := m.Journal.Load(ctx, saved.DocIntent)
	if err != nil || intent == nil {
		return nil, nil, false, err
	}
	var sums content.Hashers
	for len(intent) > 0 {
		var want journal.Held
		if want, intent, err = desired.DecodeHeld(intent); err != nil {
			return nil, nil, false, fmt.Errorf("read intent from journal: %w", err)
		}
		was, err := m.Journal.Lookup(ctx, []string{want.URI})
		if err != nil {
			return nil, nil, false, err
		}
		row, changed, err := m.settle(ctx, &sums, want, was[0])
		if err != nil {
			return nil, nil, false, err
		}
		if changed {
			rows, before = append(rows, row), append(before, was[0])
		}
	}
	return rows, before, true, nil
}

// Read returns the rows that Settle would change, by their URIs.
func (m *Mirror) Read(ctx context.Context) (map[string]journal.Held, error) {
	rows, _, found, err := m.Settle(ctx)
	if err != nil || !found {
		return nil, err
	}
	byURI := make(map[string]journal.Held, len(rows))
	for _, row := range rows {
		byURI[row.URI] = row
	}
	return byURI, nil
}

// settle returns the row for a file that was to become want, and was before (zero:
// not held), and whether that row differs from before.
func (m *Mirror) settle(ctx context.Context, sums *content.Hashers, want, before journal.Held) (journal.Held, bool, error) {
	if before.Path != want.Path {
		before = journal.Held{} // it was elsewhere, and is not there
	}
	length, got, err := sums.Blob(ctx, m.Files, want.Path, content.Strongest(want.Hashes)|content.Strongest(before.Hashes))
	is := func(h *journal.Held) bool {
		return length == h.Length && content.Compare(h.Hashes, got) == content.Same
	}
	switch {
	case m.Forgetful:
		// It may have been delivered: in doubt, so that a deletion is delivered, too.
	case errors.Is(err, blob.ErrNotExist):
		return journal.Held{}, false, nil
	case ctx.Err() != nil:
		return journal.Held{}, false, ctx.Err()
	case errors.Is(err, blob.ErrUnavailable):
		return journal.Held{}, false, fmt.Errorf("look at what an interrupted run left%s: %w", m.In, err)
	case err != nil:
		// It cannot be read: in doubt, like other content.
	case is(&want):
		if info, serr := m.Files.Stat(ctx, want.Path); serr == nil {
			want.SetFile(&info)
		}
		return want, true, nil
	case before.URI != "" && is(&before):
		return before, false, nil
	}
	row := want
	if before.URI != "" {
		row = before
	}
	row.Hashes, row.ETag, row.Modified = nil, "", ""
	return row, true, nil
}
