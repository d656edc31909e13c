package site

import (
	"context"
	"log/slog"
	"time"

	"lockstep/intake"
	"lockstep/intake/dir"
)

// rehashEvery is how often it is looked whether files are due.
const rehashEvery = time.Minute

// rehasher returns what reads the files of a set again; nil if nothing does. A
// bucket needs no such reading: it verifies what it stores.
func (s *Site) rehasher(set *siteSet, way *wayIn) *dir.Rehasher {
	d, ok := set.origin.(*dir.Dir)
	share := s.opts.Rehash
	if way.config.Rehash != nil {
		share = float64(*way.config.Rehash)
	}
	if !ok || share <= 0 {
		return nil
	}
	return dir.NewRehasher(d, dir.RehashOptions{
		Share: share, State: way.stateFile("rehash.json"),
		OnDamage: func(x dir.Damage) { s.damaged(set, &x) },
	})
}

// damaged reports a damaged file.
func (s *Site) damaged(set *siteSet, d *dir.Damage) {
	set.damage.Store(true)
	s.tally.Damaged(set.name)
	attrs := []any{slog.String("set", set.name), slog.String("path", d.Path), slog.String("uri", d.URI)}
	if d.Err != nil {
		s.log.Warn("damage: the file cannot be read", append(attrs, slog.String("err", d.Err.Error()))...)
		return
	}
	s.log.Warn("damage: the bytes of the file have changed, its size and times have not; it is listed as it is now", attrs...)
}

// rehashOnce reads the files that are due, reports damage, and returns whether
// there was some.
func (s *Site) rehashOnce(ctx context.Context) (damage bool) {
	for _, set := range s.sets {
		if set.rehasher == nil {
			continue
		}
		n, err := set.rehasher.Step(ctx)
		s.tally.Rehashed(set.name, n)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("read files again", slog.String("set", set.name), slog.String("err", err.Error()))
		}
		damage = set.damage.Swap(false) || damage
	}
	return damage
}

// rehash does so until ctx ends, a few files at a time, and has what was damaged
// published as it is.
func (s *Site) rehash(ctx context.Context, tell func(intake.Report)) {
	for pause(ctx, rehashEvery) {
		if s.rehashOnce(ctx) {
			tell(intake.Report{})
		}
	}
}
