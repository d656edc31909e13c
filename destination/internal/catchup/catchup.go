// Package catchup closes the gap between the watermark of a set and the first of
// its current changes with changes from the Source's archives.
package catchup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/destination/internal/archives"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// maxDocuments is the largest number of archived documents read to catch up: beyond
// that, comparing all resources costs less (RA-DST-05).
const maxDocuments = 20_000

// Extend continues from the watermark since with archived changes if the current
// ones, c, begin after it (RA-DST-04): if the archived changes are proven to join
// without a gap, c then reaches back to the watermark, and note receives a sentence
// about it. Otherwise it returns the reason, as text to append to the message about
// the gap; the reason is "" if no archived changes are needed or there are none. Of
// state it uses the newest events read before.
func Extend(ctx context.Context, r *entries.Reader, c *entries.Chain, since resourcesync.Datetime, state *saved.Set, note func(sentence string)) (why string, err error) {
	if c.Lost || c.Unchanged || !c.Whole() || c.Gap || since.IsZero() || c.Resumed || c.From.Compare(since) <= 0 {
		return "", nil
	}
	kinds := []resourcesync.Capability{resourcesync.ChangeList, resourcesync.ChangeDump}
	if c.Dump {
		slices.Reverse(kinds)
	}
	linked := map[resourcesync.Capability]string{kinds[0]: c.Archives}
	r.Stage.MoveLast()
	for _, kind := range kinds {
		if r.Set.Archives[kind] == "" && linked[kind] == "" {
			continue
		}
		docs, err := archives.Changes(ctx, r, kind, linked)
		if err != nil {
			return "", err
		}
		docs = entries.Between(docs, since, c.From)
		if why = whyUseless(docs, since, c.From); why != "" {
			continue
		}
		past, err := r.ReadPast(ctx, docs, since, c.Search, state)
		if err != nil {
			return "", err
		}
		until, behind := entries.Covered(past, since, c.From)
		if until.Compare(c.From) < 0 {
			why = gapBetween(kind, until, behind, c.From)
			continue
		}
		note(fmt.Sprintf("set %s: caught up from %s to %s through %s of its archive",
			r.Set.Name, wording.Time(since.Time()), wording.Time(c.From.Time()), wording.Plural(int64(len(past)), nameOf(kind))))
		c.Follow(past)
		c.Lost = c.Judge(state)
		return "", nil
	}
	return why, nil
}

// whyUseless returns why archived documents cannot close the gap between two
// instants, judging by the times that the archive states, or "" if they may: else
// they need not be read.
func whyUseless(docs []entries.Archived, from, to resourcesync.Datetime) string {
	if len(docs) > maxDocuments {
		return fmt.Sprintf("there are %d archived documents between, more than %d", len(docs), maxDocuments)
	}
	stated := make([]entries.PastDocument, len(docs))
	now := time.Now()
	for i := range docs {
		d := &docs[i]
		stated[i] = entries.PastDocument{From: d.From, Until: d.Closed(now), Whole: true}
		if stated[i].Until.IsZero() || d.Approx { // its events show how far it reaches
			stated[i].Until = to
		}
		if stated[i].From.IsZero() {
			stated[i].From = from
		}
	}
	kind := resourcesync.ChangeList
	if len(docs) > 0 {
		kind = docs[0].Kind
	}
	if until, behind := entries.Covered(stated, from, to); until.Compare(to) < 0 {
		return gapBetween(kind, until, behind, to)
	}
	return ""
}

// gapBetween describes, for messages, the time that archived documents do not
// cover.
func gapBetween(kind resourcesync.Capability, until, behind, to resourcesync.Datetime) string {
	if behind.IsZero() {
		behind = to
	}
	return fmt.Sprintf("its archived %ss do not cover the time between %s and %s", nameOf(kind), wording.Time(until.Time()), wording.Time(behind.Time()))
}

// nameOf returns the name of documents of a kind for messages.
func nameOf(kind resourcesync.Capability) string {
	if kind == resourcesync.ChangeDump {
		return "Change Dump"
	}
	return "Change List"
}
