package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// settleIntent repairs the inconsistency between the files and the Journal that
// a killed run left: its last batch may have been committed in part. It
// examines each file that the intent names. Committed: it is held. Not there,
// or still the version before: nothing happened. Anything else: it is held, and
// has to be fetched again; it is never taken for a foreign file.
func (s *session) settleIntent(ctx context.Context) error {
	d, n := s.d, s.counts
	rest, err := d.journal.Load(ctx, saved.DocIntent)
	if err != nil || rest == nil {
		return err
	}
	noted, err := s.out.Noted(ctx)
	if err != nil {
		return err
	}
	rows, before, err := d.intended(ctx, rest)
	if err != nil {
		return err
	}
	for i := range rows {
		s.settled(noted, rows[i], before[i])
		for _, set := range rows[i].Sets {
			if !plan.HasSet(before[i].Sets, set) {
				n[set]++
			}
		}
	}
	b := journal.Batch{Put: rows}
	b.Save = map[string][]byte{saved.DocIntent: nil, saved.DocCounts: saved.Encode(n)}
	s.out.ForgetNoted(b.Save)
	left := s.out.Take()
	s.out.Save(b.Save, left)
	if err := d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("settle intent: %w", err)
	}
	s.out.Keep(left)
	return nil
}

// intended reads an intent and looks at its files. It returns the rows that are
// to be others than before, and what they were.
func (d *Destination) intended(ctx context.Context, intent []byte) (rows, before []journal.Held, err error) {
	var sums content.Hashers
	for len(intent) > 0 {
		var want journal.Held
		if want, intent, err = desired.DecodeHeld(intent); err != nil {
			return nil, nil, fmt.Errorf("read intent from journal: %w", err)
		}
		was, err := d.journal.Lookup(ctx, []string{want.URI})
		if err != nil {
			return nil, nil, err
		}
		row, changed, err := d.settleOne(ctx, &sums, want, was[0])
		if err != nil {
			return nil, nil, err
		}
		if changed {
			rows, before = append(rows, row), append(before, was[0])
		}
	}
	return rows, before, nil
}

// readIntent returns the rows that settleIntent would change, by their URIs,
// and changes nothing.
func (d *Destination) readIntent(ctx context.Context) (map[string]journal.Held, error) {
	intent, err := d.journal.Load(ctx, saved.DocIntent)
	if err != nil || intent == nil {
		return nil, err
	}
	rows, _, err := d.intended(ctx, intent)
	if err != nil {
		return nil, err
	}
	m := make(map[string]journal.Held, len(rows))
	for _, row := range rows {
		m[row.URI] = row
	}
	return m, nil
}

// settled reports a change that the run before applied and had no time to
// report: row replaced before. A row in doubt is no change yet.
func (s *session) settled(noted []Change, row, before journal.Held) {
	if len(row.Hashes) == 0 {
		return
	}
	i := slices.IndexFunc(noted, func(c Change) bool { return c.URI == row.URI })
	c := Change{URI: row.URI, Kind: resourcesync.Created, Path: row.Path, Length: row.Length, Hashes: row.Hashes, Lastmod: row.Lastmod}
	if before.URI != "" {
		c.Kind = resourcesync.Updated
	}
	if i >= 0 {
		c = noted[i]
		s.out.AddNoted(c) // promised, whether or not this run hands over
	} else {
		s.out.Add(c)
	}
	s.d.emit(c.event())
}

// settleOne returns the row for a file that was to become want, and was before
// (zero: not held), and whether it is another row than before.
func (d *Destination) settleOne(ctx context.Context, sums *content.Hashers, want, before journal.Held) (journal.Held, bool, error) {
	if before.Path != want.Path {
		before = journal.Held{} // it was elsewhere, and is not there
	}
	length, got, err := sums.Blob(ctx, d.store, want.Path, content.Algorithms(want.Hashes)|content.Algorithms(before.Hashes))
	switch {
	case d.isForgetful():
		// It may have been delivered: in doubt, so that a deletion is, too.
	case errors.Is(err, blob.ErrNotExist):
		return journal.Held{}, false, nil
	case ctx.Err() != nil:
		return journal.Held{}, false, ctx.Err()
	case isDown(err):
		return journal.Held{}, false, fmt.Errorf("look at what an interrupted run left%s: %w", d.inDest(), err)
	case err != nil:
		// It cannot be read: in doubt, like other content.
	case plan.SameContent(&want, &journal.Held{Length: length, Hashes: got}):
		if info, serr := d.store.Stat(ctx, want.Path); serr == nil {
			want.SetFile(&info)
		}
		return want, true, nil
	case before.URI != "" && plan.SameContent(&before, &journal.Held{Length: length, Hashes: got}):
		return before, false, nil
	}
	row := want
	if before.URI != "" {
		row = before
	}
	row.Hashes, row.ETag, row.Modified = nil, "", ""
	return row, true, nil
}
