package dir

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
)

// applyAll applies the results of the hashers to the catalog. They arrive in an
// order close to that of URIs; each batch is sorted, so that the catalog writes
// its pages almost sequentially.
func (s *scan) applyAll(ctx context.Context) error {
	tick := time.NewTicker(intake.ApplyEvery)
	defer tick.Stop()
	var c collected
	for {
		select {
		case b, ok := <-s.hashed:
			if !ok {
				return s.apply(ctx, c.take())
			}
			start := len(c.updates)
			var err error
			if c.updates, err = s.settle(c.updates, b); err != nil {
				return err
			}
			if len(c.updates) > start {
				c.runs = append(c.runs, run{start, len(c.updates)})
			}
			if len(c.updates) < intake.BatchRows {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.apply(ctx, c.take()); err != nil {
			return err
		}
	}
}

// collected are updates that have not been applied yet, in runs that are sorted.
type collected struct {
	updates []catalog.Update
	runs    []run
}

// A run is a range of updates: those of one block, the files of which follow each
// other in the order of URIs. In a scan of everything none of another block comes
// between them.
type run struct{ start, end int }

// take returns all updates, sorted, and forgets them. Their slice is new, because a
// catalog may retain it.
func (c *collected) take() []catalog.Update {
	slices.SortFunc(c.runs, func(x, y run) int { return strings.Compare(c.updates[x.start].URI, c.updates[y.start].URI) })
	all := make([]catalog.Update, 0, len(c.updates))
	for _, r := range c.runs {
		all = append(all, c.updates[r.start:r.end]...)
	}
	clear(c.updates)
	c.updates, c.runs = c.updates[:0], c.runs[:0]
	return all
}

// settle appends the updates that result from a block.
func (s *scan) settle(batch []catalog.Update, b *block) ([]catalog.Update, error) {
	for i := range b.jobs {
		switch j := &b.jobs[i]; j.outcome {
		case readWhole:
			batch = append(batch, catalog.Update{Record: j.record})
			if j.st.Private && !j.known {
				s.Private(j.rel)
			}
		case readVanished:
			s.Files.Add(-1)
			if j.known {
				if err := s.gone.Add(j.uri); err != nil {
					return nil, err
				}
			}
		case readFailed:
			s.Unreadable(j.rel, j.err)
			if errors.Is(j.err, intake.ErrChanging) {
				s.d.addAgain(j.rel)
			}
		}
	}
	b.free()
	return batch, nil
}
