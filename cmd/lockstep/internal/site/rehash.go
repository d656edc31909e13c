package site

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/intake/dir"
	"lockstep/internal/sleep"
)

// rehashEvery is how often to check whether files are due to be read again.
const rehashEvery = time.Minute

// A fileChecks reads files again to find damage, and reports it.
type fileChecks struct {
	sets  []*checkedSet
	tally *sourcefigures.Tally
	log   *slog.Logger
}

// A checkedSet is a set whose files are read again.
type checkedSet struct {
	name    string
	files   *dir.Rehasher
	damaged atomic.Bool // since the last check
}

// add adds a set, unless open returns nil: then its files are not read again.
func (c *fileChecks) add(name string, open func(onDamage func(dir.Damage)) *dir.Rehasher) {
	set := &checkedSet{name: name}
	if set.files = open(func(d dir.Damage) { c.report(set, &d) }); set.files != nil {
		c.sets = append(c.sets, set)
	}
}

// report reports a damaged file.
func (c *fileChecks) report(set *checkedSet, d *dir.Damage) {
	set.damaged.Store(true)
	c.tally.Damaged(set.name)
	attrs := []any{slog.String("set", set.name), slog.String("path", d.Path), slog.String("uri", d.URI)}
	if d.Err != nil {
		c.log.Warn("damage: the file cannot be read", append(attrs, slog.String("err", d.Err.Error()))...)
		return
	}
	c.log.Warn("damage: the bytes of the file have changed, its size and times have not; it is listed as it is now", attrs...)
}

// once reads the files that are due, and returns whether the catalog may have changed:
// one was found damaged since the last check, or a check failed.
func (c *fileChecks) once(ctx context.Context) (changed bool) {
	for _, set := range c.sets {
		n, err := set.files.Step(ctx)
		c.tally.Rehashed(set.name, n)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("read files again", slog.String("set", set.name), slog.String("err", err.Error()))
		}
		changed = set.damaged.Swap(false) || err != nil || changed
	}
	return changed
}

// run reads files as they fall due until ctx ends, and calls onChange when some may have
// been found damaged, so that they are published as they are now.
func (c *fileChecks) run(ctx context.Context, onChange func()) {
	if len(c.sets) == 0 {
		return
	}
	for sleep.For(ctx, rehashEvery) == nil {
		if c.once(ctx) {
			onChange()
		}
	}
}
