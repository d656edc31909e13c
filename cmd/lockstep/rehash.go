package main

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake"
)

// rehashDefault is how many percent of the files are read again in a day.
const rehashDefault = "1%"

// rehashEvery is how often it is looked whether files are due.
const rehashEvery = time.Minute

// parseShare reads a share of the files: 1%, 0.5, 0.
func parseShare(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%")), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return 0, term.Usage(term.Usagef("--rehash %q: want percent of the files in a day, from 0 to 100", s), "as 1%, or 0 for none")
	}
	return f / 100, nil
}

// rehasher returns what reads the files of a set again; nil if nothing does. In a
// bucket there is nothing to read: it proves what it stores by itself.
func (s *site) rehasher(set *siteSet, way *wayIn) *intake.Rehasher {
	d, ok := set.origin.(*intake.Dir)
	if !ok || s.opts.rehash <= 0 {
		return nil
	}
	return intake.NewRehasher(d, intake.RehashOptions{
		Share: s.opts.rehash, State: way.stateFile("rehash.json"),
		OnDamage: func(x intake.Damage) { s.damaged(set, &x) },
	})
}

// damaged reports a damaged file.
func (s *site) damaged(set *siteSet, d *intake.Damage) {
	set.damage.Store(true)
	s.tally.damaged(set.name)
	attrs := []any{slog.String("set", set.name), slog.String("path", d.Path), slog.String("uri", d.URI)}
	if d.Err != nil {
		s.log.Warn("damage: the file cannot be read", append(attrs, slog.String("err", d.Err.Error()))...)
		return
	}
	s.log.Warn("damage: the bytes of the file have changed, its size and times have not; it is listed as it is now", attrs...)
}

// rehashOnce reads the files that are due, reports damage, and returns whether
// there was some.
func (s *site) rehashOnce(ctx context.Context) (damage bool) {
	for _, set := range s.sets {
		if set.rehasher == nil {
			continue
		}
		n, err := set.rehasher.Step(ctx)
		s.tally.rehashed(set.name, n)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("read files again", slog.String("set", set.name), slog.String("err", err.Error()))
		}
		damage = set.damage.Swap(false) || damage
	}
	return damage
}

// rehash does so until ctx ends, a few files at a time, and has what was damaged
// published as it is.
func (s *site) rehash(ctx context.Context, tell func(intake.Report)) {
	for pause(ctx, rehashEvery) {
		if s.rehashOnce(ctx) {
			tell(intake.Report{})
		}
	}
}
