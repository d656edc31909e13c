// Package deferral remembers from one run to the next which documents of the
// Source must not be requested yet, because their server asked for more patience
// than a run has.
package deferral

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// docDeferrals is the document of the Journal that names the documents of the
// Source that must not be requested before a time: a list of fetch.Deferral.
const docDeferrals = "deferred"

// Deferrals are the deferred documents as the Journal has them.
type Deferrals struct {
	recorded []fetch.Deferral
}

// Load reads what earlier runs recorded, and has the client observe it unless
// askNow is set.
func (d *Deferrals) Load(ctx context.Context, j journal.Journal, c *fetch.Client, askNow bool) error {
	if _, err := saved.Load(ctx, j, docDeferrals, &d.recorded); err != nil {
		return err
	}
	if !askNow {
		fetch.Defer(c, d.recorded)
	}
	return nil
}

// Save records which documents later runs must not request yet, also once ctx is
// done.
func (d *Deferrals) Save(ctx context.Context, j journal.Journal, c *fetch.Client) error {
	now := fetch.DeferralsOf(c)
	if slices.EqualFunc(now, d.recorded, func(a, b fetch.Deferral) bool {
		return a.URI == b.URI && a.NotBefore.Equal(b.NotBefore)
	}) {
		return nil
	}
	var doc []byte
	if len(now) > 0 {
		doc = saved.Encode(now)
	}
	if err := j.Record(context.WithoutCancel(ctx), journal.Batch{Save: map[string][]byte{docDeferrals: doc}}); err != nil {
		return fmt.Errorf("record when documents may be asked for again: %w", err)
	}
	d.recorded = now
	return nil
}

// maxPatience caps how long a Follower waits for a document whose server asked for
// patience: other documents may replace it after outage.Time.
const maxPatience = outage.Time

// Patience returns how long a failed run cannot be usefully repeated, because a
// document it needs must not be requested before notBefore; zero if it can be now.
func Patience(notBefore, now time.Time) time.Duration {
	if notBefore.IsZero() {
		return 0
	}
	return min(notBefore.Sub(now)+time.Second, maxPatience) // reports state whole seconds
}

// IsDeferred reports whether the document that is read first to bring the set into
// step must not be requested yet.
func IsDeferred(c *fetch.Client, st *saved.Set) bool {
	first := fetch.WithoutUser(cmp.Or(st.Changes, st.Lists))
	return slices.ContainsFunc(fetch.DeferralsOf(c), func(f fetch.Deferral) bool { return f.URI == first })
}
