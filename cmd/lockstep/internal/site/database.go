package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/origins"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/intake/api"
	"lockstep/internal/sleep"
	"lockstep/internal/statedir"
)

// checkDatabase rejects, if the state is in a database, what would be lost for good together
// with the local directory.
func (o *Options) checkDatabase() error {
	if !o.State.InDatabase() {
		return nil
	}
	for i := range o.Sets {
		c := &o.Sets[i]
		if err := o.checkLocal(c); err != nil {
			return term.Usage(fmt.Errorf("set %s: %w", c.Label(i), err), term.HintOf(err))
		}
	}
	return nil
}

// checkLocal rejects a set of which something would be stored in the local directory only.
func (o *Options) checkLocal(c *config.Set) error {
	if c.Origin.Kind.Scheme == "resourcesync" && !c.InPlace() && slices.Contains(c.Stores(), "") {
		return term.WithHint(fmt.Errorf("%s: its mirror would be in a local directory that may be lost", c.Origin.WithoutUser()),
			"say where it lasts, with store: s3://BUCKET/PREFIX or store: DIR in the configuration; or republish descriptions only, with copy: false")
	}
	if c.Archive != nil && o.documentsInState() {
		return term.WithHint(errors.New("archive: keeps earlier documents, which would be in a local directory that may be lost"),
			"have the documents in a place that lasts, with documents: DIR or documents: s3://BUCKET/PREFIX in the configuration")
	}
	if (c.Versions != nil || c.KeepsBytes()) && o.Contents == "" {
		return term.WithHint(errors.New("what versions, patches and change_dump keep would be in a local directory that may be lost"),
			"say where it lasts: --contents DIR or --contents s3://BUCKET/PREFIX")
	}
	return nil
}

// memory returns what mirrors of upstreams need of the database of the state; nil: it is in a directory.
func (o *Options) memory(db *stateplace.Database) *origins.Memory {
	if !o.State.InDatabase() {
		return nil
	}
	return &origins.Memory{Journal: db.Journal, MayWrite: db.MayWrite, Shared: o.Shared != nil, Standby: o.isStandby()}
}

// documentsInState reports whether the documents are in the directory of the state.
func (o *Options) documentsInState() bool {
	_, ours := statedir.Inside(o.State.Dir, o.Documents)
	return ours && !mirror.IsBucket(o.Documents)
}

// maxBehind is how far the clock may be behind that of the machine on which the Source ran before:
// Open waits so long at most.
const maxBehind = time.Minute

// awaitClock waits, if the history restarts, until the clock has passed all that the catalog has
// recorded: the names of new documents are made from the time, and no document that was published
// before, on another machine, must get another content.
func (b *setupBuilder) awaitClock(ctx context.Context, sets []*siteSet) error {
	if !b.opts.State.InDatabase() || !b.storage.claim.Restarts() {
		return nil
	}
	for _, set := range sets {
		st, err := b.storage.db.Catalog.Status(ctx, set.list)
		if err != nil {
			return err
		}
		if st.Kept.At.IsZero() {
			continue // nothing was published
		}
		mark, err := b.storage.db.Catalog.Mark(ctx, set.list) // at or after all others
		if err != nil {
			return err
		}
		behind := time.Until(mark.At)
		if behind > maxBehind {
			return term.WithHint(fmt.Errorf("the clock of this machine is %s behind that of the one on which set %s was published before", term.Elapsed(behind), set.name),
				"set the clock, or wait so long")
		}
		if behind > -time.Microsecond {
			if err := sleep.For(ctx, behind+time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// apiKeys returns where the API stores its idempotency keys; nil: in its directory.
func apiKeys(db *stateplace.Database) api.Notes {
	if rows, ok := db.State.Notes.(statedir.Rows); ok {
		return rows
	}
	return nil
}
