// Package places changes which file is at a path of a mirror: it records such a
// step in the Journal while it is carried out, finishes a step that a killed run
// left, and moves files to their own names once these are free.
package places

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// DocChange is the name of the document that contains a [Change]; it exists only
// during one.
const DocChange = "places"

// A Change is one step in which one thing replaces another at a path of the mirror:
// a directory replaces a file of the same name, a file replaces a directory, or the
// resource's own name replaces a marked one. The Journal contains it while it is
// carried out, so that the run after a kill finishes it, or finds that nothing has
// happened yet. See decision 0048.
type Change struct {
	Drop  []Row  `json:"drop,omitempty"`  // files that are removed
	Put   []byte `json:"put,omitempty"`   // encoded rows, whose content is in unfinished blobs
	Moves []Move `json:"moves,omitempty"` // files that are renamed
}

// A Row is a resource and its file.
type Row struct {
	URI  string `json:"uri"`
	Path string `json:"path"`
}

// A Move renames the file of a resource.
type Move struct {
	URI  string `json:"uri"`
	From string `json:"from"`
	To   string `json:"to"`
}

// A Mirror contains what a run needs to finish a Change.
type Mirror struct {
	Journal journal.Journal
	Files   blob.Store
	Counts  saved.Counts
	In      string           // names the mirror in the middle of a sentence; may be empty
	Stops   func(error) bool // whether an error of the store must end the run

	// Applied reports a resource that now matches row; for a deleted resource only
	// URI and Path are set.
	Applied func(kind resourcesync.Change, row *journal.Held)
}

// Settle finishes the step in which a run was killed, and returns the batch that
// records its result. It reports whether there is one.
func (m *Mirror) Settle(ctx context.Context) (b journal.Batch, found bool, err error) {
	var c Change
	known, err := saved.Load(ctx, m.Journal, DocChange, &c)
	if err != nil || !known {
		return b, false, err
	}
	b.Save = map[string][]byte{DocChange: nil}
	if err := m.settleMoves(ctx, c.Moves, &b); err != nil {
		return b, false, err
	}
	if err := m.settleSwap(ctx, &c, &b); err != nil {
		return b, false, err
	}
	return b, true, nil
}

// settleMoves records which of the files have their new names.
func (m *Mirror) settleMoves(ctx context.Context, moves []Move, b *journal.Batch) error {
	for _, move := range moves {
		rows, err := m.Journal.Lookup(ctx, []string{move.URI})
		if err != nil {
			return err
		}
		h := rows[0]
		if h.Path != move.From {
			continue
		}
		info, err := m.Files.Stat(ctx, move.To)
		if ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable) {
			return m.unreadable(err)
		}
		if err != nil || info.Size != h.Length {
			continue // it was not moved
		}
		if _, err := m.Files.Stat(ctx, move.From); err == nil {
			continue
		}
		h.Path = move.To
		b.Put = append(b.Put, h)
		m.Applied(resourcesync.Updated, &h)
	}
	return nil
}

func (m *Mirror) unreadable(err error) error {
	return fmt.Errorf("look at what an interrupted run left%s: %w", m.In, err)
}

// A leftRow is a row of a swap and the state in which a killed run left its content.
type leftRow struct {
	row  journal.Held
	done bool        // its content is committed
	w    blob.Writer // its content, which can be committed; nil: the content is lost
}

// settleSwap finishes a swap whose content is complete, or that has begun. Lost
// content is fetched again, because the watermark of its set has not moved.
func (m *Mirror) settleSwap(ctx context.Context, c *Change, b *journal.Batch) error {
	if len(c.Drop) == 0 {
		return nil
	}
	var left []leftRow
	defer func() {
		for i := range left {
			if w := left[i].w; w != nil {
				_ = w.Close() // committed, or not needed
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
		if err := m.findContent(ctx, &l); err != nil {
			return err
		}
		begun = begun || l.done
		whole = whole && (l.done || l.w != nil)
		left = append(left, l)
	}
	var drop []Row
	for _, r := range c.Drop {
		rows, err := m.Journal.Lookup(ctx, []string{r.URI})
		if err != nil {
			return err
		}
		if rows[0].Path != r.Path {
			continue
		}
		info, err := m.Files.Stat(ctx, r.Path)
		if ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable) {
			return m.unreadable(err)
		}
		begun = begun || err != nil || info.Size != rows[0].Length
		drop = append(drop, r)
	}
	if !begun && !whole {
		return nil // nothing was changed yet
	}
	return m.finishSwap(ctx, drop, left, b)
}

func (m *Mirror) finishSwap(ctx context.Context, drop []Row, left []leftRow, b *journal.Batch) error {
	for _, r := range drop {
		if err := m.Files.Remove(ctx, r.Path); err != nil && !reserve.IsReplaced(err) {
			return fmt.Errorf("finish a change of places%s: %w", m.In, err)
		}
		rows, err := m.Journal.Lookup(ctx, []string{r.URI})
		if err != nil {
			return err
		}
		for _, n := range rows[0].Sets {
			m.Counts[n]--
		}
		b.Drop = append(b.Drop, r.URI)
		m.Applied(resourcesync.Deleted, &journal.Held{URI: r.URI, Path: r.Path})
	}
	for i := range left {
		l := &left[i]
		if !l.done && l.w != nil {
			if !l.row.Lastmod.IsZero() {
				l.w.SetModTime(l.row.Lastmod)
			}
			if err := m.Files.Commit(ctx, l.w); err != nil {
				if m.Stops(err) || ctx.Err() != nil {
					return fmt.Errorf("finish a change of places%s: %w", m.In, err)
				}
				continue // fetching it reports the cause
			}
			l.done = true
		}
		if !l.done {
			continue
		}
		if info, err := m.Files.Stat(ctx, l.row.Path); err == nil {
			l.row.SetFile(&info)
		}
		for _, n := range l.row.Sets {
			m.Counts[n]++
		}
		b.Put = append(b.Put, l.row)
		m.Applied(resourcesync.Created, &l.row)
	}
	return nil
}

// findContent looks for the content of a row under its name, then among the
// unfinished blobs.
func (m *Mirror) findContent(ctx context.Context, l *leftRow) error {
	var sums content.Hashers
	algs := content.Strongest(l.row.Hashes)
	n, got, err := sums.Blob(ctx, m.Files, l.row.Path, algs)
	switch {
	case ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable):
		return m.unreadable(err)
	case err == nil && n == l.row.Length && content.Compare(l.row.Hashes, got) == content.Same:
		l.done = true
		return nil
	}
	store, ok := m.Files.(blob.Resumer)
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
	if err != nil || n != l.row.Length || content.Compare(l.row.Hashes, h.Sum()) != content.Same {
		_ = w.Close() // it is not complete
		return ctx.Err()
	}
	l.w = w
	return nil
}
