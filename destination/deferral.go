package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// docDeferrals is the document of the Journal that names the documents of the
// Source that must not be asked for before a time: a list of fetch.Deferral.
const docDeferrals = "deferred"

// loadDeferrals has documents not be asked for whose server asked in an earlier run
// for more patience than a run has.
func loadDeferrals(ctx context.Context, s *session) error {
	if _, err := saved.Load(ctx, s.d.journal, docDeferrals, &s.deferred); err != nil {
		return err
	}
	if !s.d.opts.AskNow {
		fetch.Defer(s.d.client, s.deferred)
	}
	return nil
}

// saveDeferrals records which documents later runs must not ask for yet.
func saveDeferrals(ctx context.Context, s *session) error {
	now := fetch.DeferralsOf(s.d.client)
	if s.d.opts.DryRun || s.d.compare || slices.EqualFunc(now, s.deferred, func(a, b fetch.Deferral) bool {
		return a.URI == b.URI && a.NotBefore.Equal(b.NotBefore)
	}) {
		return nil
	}
	var doc []byte
	if len(now) > 0 {
		doc = saved.Encode(now)
	}
	if err := s.d.journal.Record(context.WithoutCancel(ctx), journal.Batch{Save: map[string][]byte{docDeferrals: doc}}); err != nil {
		return fmt.Errorf("record when documents may be asked for again: %w", err)
	}
	s.deferred = now
	return nil
}

// deferringDocuments does something and then records which documents are deferred, also if
// it failed.
func deferringDocuments(ctx context.Context, s *session, do func() error) error {
	err := do()
	if serr := saveDeferrals(ctx, s); err == nil || errors.Is(err, ErrIncomplete) && serr != nil {
		err = serr
	}
	return err
}

// mostPatience caps how long a Follower leaves alone what a server asked not to be
// asked for: other documents may replace it after outage.Time.
const mostPatience = outage.Time

// patience returns how long it is of no use to repeat what failed, because a document
// it needs must not be asked for yet; else zero.
func (r *Report) patience(now time.Time) time.Duration {
	if r.NotBefore.IsZero() {
		return 0
	}
	return min(r.NotBefore.Sub(now)+time.Second, mostPatience) // a second: reports state whole ones
}

// isDeferred reports whether the document with which a pass over the set begins must
// not be asked for yet.
func isDeferred(c *fetch.Client, st *setState) bool {
	first := fetch.WithoutUser(cmp.Or(st.Changes, st.Lists))
	return slices.ContainsFunc(fetch.DeferralsOf(c), func(f fetch.Deferral) bool { return f.URI == first })
}
