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
	var batch []catalog.Update
	flush := func() error {
		b := batch
		batch = nil
		slices.SortFunc(b, func(x, y catalog.Update) int { return strings.Compare(x.URI, y.URI) })
		return s.apply(ctx, b)
	}
	for {
		select {
		case b, ok := <-s.hashed:
			if !ok {
				return flush()
			}
			var err error
			if batch, err = s.settle(batch, b); err != nil {
				return err
			}
			if len(batch) < intake.BatchRows {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := flush(); err != nil {
			return err
		}
	}
}

// settle appends the updates that result from a block.
func (s *scan) settle(batch []catalog.Update, b *block) ([]catalog.Update, error) {
	if batch == nil {
		batch = make([]catalog.Update, 0, intake.BatchRows/8)
	}
	for i := range b.jobs {
		switch j := &b.jobs[i]; j.outcome {
		case readWhole:
			batch = append(batch, catalog.Update{Record: j.record})
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
