package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A change of places is one step of the mirror in which one thing replaces
// another at a path: a directory replaces a file of its name, a file replaces a
// directory, or the resource's own name replaces a marked one. The Journal
// holds its description while it is carried out, so that the run after a kill
// finishes it, or finds that nothing has happened yet. See decision 0048.

// docPlaces is the document that describes it; absent when there is none.
const docPlaces = "places"

// A placeChange is such a step.
type placeChange struct {
	Drop  []placeRow  `json:"drop,omitempty"`  // files that are removed
	Put   []byte      `json:"put,omitempty"`   // rows of Held, whose content is in unfinished blobs
	Moves []placeMove `json:"moves,omitempty"` // files that get another name
}

type placeRow struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
}

type placeMove struct {
	URI  string `json:"uri"`
	From string `json:"from"`
	To   string `json:"to"`
}

// settlePlaces finishes the step that a run was killed in.
func (s *session) settlePlaces(ctx context.Context) error {
	var c placeChange
	known, err := saved.Load(ctx, s.d.journal, docPlaces, &c)
	if err != nil || !known {
		return err
	}
	b := journal.Batch{Save: map[string][]byte{docPlaces: nil}}
	if err := s.settleMoves(ctx, c.Moves, &b); err != nil {
		return err
	}
	if err := s.settleSwap(ctx, &c, &b); err != nil {
		return err
	}
	b.Save[saved.DocCounts] = saved.Encode(s.counts)
	left := s.out.Take()
	s.out.Save(b.Save, left)
	if err := s.d.journal.Record(ctx, b); err != nil {
		return fmt.Errorf("settle a change of places: %w", err)
	}
	s.out.Keep(left)
	return nil
}

// settleMoves notes which of the files have their new names.
func (s *session) settleMoves(ctx context.Context, moves []placeMove, b *journal.Batch) error {
	for _, m := range moves {
		rows, err := s.d.journal.Lookup(ctx, []string{m.URI})
		if err != nil {
			return err
		}
		h := rows[0]
		if h.Path != m.From {
			continue
		}
		info, err := s.d.store.Stat(ctx, m.To)
		if ctx.Err() != nil || isDown(err) {
			return fmt.Errorf("look at what an interrupted run left%s: %w", s.d.inDest(), err)
		}
		if err != nil || info.Size != h.Length {
			continue // it was not moved
		}
		if _, err := s.d.store.Stat(ctx, m.From); err == nil {
			continue
		}
		h.Path = m.To
		b.Put = append(b.Put, h)
		s.moved(&h)
	}
	return nil
}

// moved reports that a resource has its file in another place.
func (s *session) moved(h *journal.Held) {
	c := Change{URI: h.URI, Kind: resourcesync.Updated, Path: h.Path, Length: h.Length, Hashes: h.Hashes, Lastmod: h.Lastmod}
	s.out.Add(c)
	s.d.emit(c.event())
}

// A leftRow is a row of a swap and the state in which a killed run left its content.
type leftRow struct {
	row  journal.Held
	done bool        // it is committed
	w    blob.Writer // it can be; nil: it is lost
}

// settleSwap finishes a swap for which all the content is there, or which has
// begun. Content that is lost is fetched again: its set has not moved on.
func (s *session) settleSwap(ctx context.Context, c *placeChange, b *journal.Batch) error {
	if len(c.Drop) == 0 {
		return nil
	}
	var left []leftRow
	defer func() {
		for i := range left {
			if w := left[i].w; w != nil {
				_ = w.Close() // committed, or of no use
			}
		}
	}()
	begun, whole := false, true
	for rest := c.Put; len(rest) > 0; {
		var l leftRow
		var err error
		if l.row, rest, err = desired.DecodeHeld(rest); err != nil {
			return fmt.Errorf("read a change of places from journal: %w", err)
		}
		if err := s.findContent(ctx, &l); err != nil {
			return err
		}
		begun = begun || l.done
		whole = whole && (l.done || l.w != nil)
		left = append(left, l)
	}
	var drop []placeRow
	for _, r := range c.Drop {
		rows, err := s.d.journal.Lookup(ctx, []string{r.URI})
		if err != nil {
			return err
		}
		if rows[0].Path != r.Path {
			continue
		}
		info, err := s.d.store.Stat(ctx, r.Path)
		if ctx.Err() != nil || isDown(err) {
			return fmt.Errorf("look at what an interrupted run left%s: %w", s.d.inDest(), err)
		}
		begun = begun || err != nil || info.Size != rows[0].Length
		drop = append(drop, r)
	}
	if !begun && !whole {
		return nil // everything is as it was before
	}
	return s.finishSwap(ctx, drop, left, b)
}

func (s *session) finishSwap(ctx context.Context, drop []placeRow, left []leftRow, b *journal.Batch) error {
	for _, r := range drop {
		if err := s.d.store.Remove(ctx, r.Path); err != nil && !inPlaceOf(err) {
			return fmt.Errorf("finish a change of places%s: %w", s.d.inDest(), err)
		}
		rows, err := s.d.journal.Lookup(ctx, []string{r.URI})
		if err != nil {
			return err
		}
		for _, n := range rows[0].Sets {
			s.counts[n]--
		}
		b.Drop = append(b.Drop, r.URI)
		c := Change{URI: r.URI, Kind: resourcesync.Deleted, Path: r.Path}
		s.out.Add(c)
		s.d.emit(c.event())
	}
	for i := range left {
		l := &left[i]
		if !l.done && l.w != nil {
			if !l.row.Lastmod.IsZero() {
				l.w.SetModTime(l.row.Lastmod)
			}
			if err := s.d.store.Commit(ctx, l.w); err != nil {
				if isFatal(err) || isFull(err) || isDown(err) || ctx.Err() != nil {
					return fmt.Errorf("finish a change of places%s: %w", s.d.inDest(), err)
				}
				continue // fetching it says what is wrong
			}
			l.done = true
		}
		if !l.done {
			continue
		}
		if info, err := s.d.store.Stat(ctx, l.row.Path); err == nil {
			l.row.SetFile(&info)
		}
		for _, n := range l.row.Sets {
			s.counts[n]++
		}
		b.Put = append(b.Put, l.row)
		c := Change{URI: l.row.URI, Kind: resourcesync.Created, Path: l.row.Path, Length: l.row.Length, Hashes: l.row.Hashes, Lastmod: l.row.Lastmod}
		s.out.Add(c)
		s.d.emit(c.event())
	}
	return nil
}

// findContent looks for the content of a row: under its name, else among the
// unfinished blobs.
func (s *session) findContent(ctx context.Context, l *leftRow) error {
	var sums content.Hashers
	algs := content.Algorithms(l.row.Hashes)
	n, got, err := sums.Blob(ctx, s.d.store, l.row.Path, algs)
	switch {
	case ctx.Err() != nil || isDown(err):
		return fmt.Errorf("look at what an interrupted run left%s: %w", s.d.inDest(), err)
	case err == nil && plan.SameContent(&l.row, &journal.Held{Length: n, Hashes: got}):
		l.done = true
		return nil
	}
	store, ok := s.d.store.(blob.Resumer)
	if !ok {
		return nil
	}
	w, part, err := store.Resume(ctx, l.row.Path)
	if err != nil {
		if errors.Is(err, blob.ErrNotExist) {
			return nil
		}
		return ctx.Err()
	}
	h := sums.Get(algs)
	defer sums.Put(algs, h)
	n, err = content.Copy(nil, h, content.WithContext(ctx, part))
	if err != nil || !plan.SameContent(&l.row, &journal.Held{Length: n, Hashes: h.Sum()}) {
		_ = w.Close() // it is not whole
		return ctx.Err()
	}
	l.w = w
	return nil
}
