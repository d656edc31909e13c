package entries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/resourcesync"
)

// Follow extends k to the beginning of the first of the archived documents in past,
// which join it without a gap.
func (k *Chain) Follow(past []PastDocument) {
	k.Resumed = false
	for i := range past {
		p := &past[i]
		if !p.Whole {
			continue
		}
		if f := p.chain.From; p.chain.Lists > 0 && (f.Compare(k.From) < 0 || f.IsZero()) {
			k.From, k.Proven = f, p.chain.Proven
		} else if p.From.Compare(k.From) < 0 {
			k.From = p.From
		}
		switch cmp := p.chain.Newest.Compare(k.Newest); {
		case p.chain.Newest.IsZero():
		case cmp > 0:
			k.Newest, k.Seen = p.chain.Newest, p.chain.Seen
		case cmp == 0:
			k.Seen = Union(k.Seen, p.chain.Seen)
		}
		k.Lists += p.chain.Lists
	}
}

// A PastDocument is the result of reading an archived document of changes.
type PastDocument struct {
	Archived
	From, Until resourcesync.Datetime // range covered, as stated by the document itself (RA-DOC-10)
	Whole       bool                  // all of it was read, and it has no gap
	chain       Chain
}

// ReadPast stages the changes since an instant that archived documents list,
// reading several documents concurrently. It warns of documents that cannot be
// read, which then cover nothing (RA-DST-08).
func (r *Reader) ReadPast(ctx context.Context, docs []Archived, since resourcesync.Datetime, l *EventSearch, state *saved.Set) ([]PastDocument, error) {
	fail := r.Fail
	r.Fail = func(uri string, err error) {
		r.Warn(uri, fmt.Sprintf("archives of set %s: %v; it is left out", r.Set.Name, err))
	}
	defer func() { r.Fail = fail }()
	past := make([]PastDocument, len(docs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(r.Jobs, MaxReaders))
	var newest *stage.Latest
	if !r.Stage.Versions.Keep { // otherwise every version counts
		newest = stage.NewLatest(r.Stage.Until)
	}
	for i := range slices.Backward(docs) {
		if gctx.Err() != nil {
			break
		}
		c := &ChangeReader{
			Reader: r, since: since, order: placeOf("", i), out: r.Stage.Writer(), below: map[string]bool{}, latest: newest,
			State: &saved.Set{SeenTime: state.SeenTime},
			Chain: Chain{Complete: true, Polled: map[string]saved.Validators{}, Search: l},
		}
		past[i].Archived = docs[i]
		g.Go(func() error {
			defer c.out.Release()
			return c.readArchived(gctx, &past[i])
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return past, context.Cause(ctx)
}

// readArchived reads one archived document, which may be an index.
func (c *ChangeReader) readArchived(ctx context.Context, p *PastDocument) error {
	said := resourcesync.Metadata{From: p.Archived.From, Until: p.Archived.Until}
	c.Chain.Dump = p.Kind == resourcesync.ChangeDump
	if err := c.enter(p.Uri, 1); err != nil {
		c.spurn(p.Uri, err)
		return nil
	}
	doc, err := c.Open(ctx, p.Uri, saved.Validators{})
	if err != nil {
		if err = c.missing(ctx, p.Uri, err, 1, true); err == nil {
			c.warnVanished(p)
		}
		return err
	}
	err = c.readDoc(ctx, doc, said, 1, true)
	if errors.Is(err, errAgain) {
		err = nil // unreachable: it is read as on a second attempt
	}
	if err != nil {
		return err
	}
	c.warnVanished(p)
	k := &c.Chain
	p.Whole = k.Whole() && !k.Gap
	own := Archived{Kind: p.Kind}
	own.Take(&doc.Header)
	own.differs(c.Reader, &p.Archived)
	p.chain = *k
	p.cover(&own, doc.Header.Index, time.Now())
	return nil
}

// cover records the range that the document covers. One without an end, or with an
// end in the future, proves nothing beyond its last event (RA-CHG-07, RS-AMB-25).
func (p *PastDocument) cover(own *Archived, index bool, now time.Time) {
	k := &p.chain
	past := func(d resourcesync.Datetime) resourcesync.Datetime {
		if d.Time().After(now) {
			return resourcesync.Datetime{}
		}
		return d
	}
	p.From, p.Until = k.From, past(k.Until)
	switch newest := past(k.Newest); {
	case k.Lists == 0: // no changes, or none that matter here
		p.From, p.Until = own.From, past(own.Until)
	case k.loose && newest.Compare(p.Until) > 0:
		p.Until = newest
	}
	// RS-MD-07: no change happened between the last package and the end of the
	// dump. For an index, the lists take precedence (RS-CHI-10).
	if until := past(own.Until); until.Compare(p.Until) > 0 && p.Kind == resourcesync.ChangeDump && !index {
		p.Until = until
	}
}

// warnVanished warns of documents that no longer exist.
func (c *ChangeReader) warnVanished(p *PastDocument) {
	if err := c.Chain.Vanished; err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Fail(p.Uri, err)
	}
}

// Covered returns the instant up to which archived documents list all changes since
// another instant: each must begin before the previous one ended (RA-CHG-05). It
// stops at end, beyond which no change is needed, or at the first gap; behind is
// where the history continues after the gap.
func Covered(past []PastDocument, since, end resourcesync.Datetime) (until, behind resourcesync.Datetime) {
	sorted := slices.Clone(past)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].From.Compare(sorted[j].From) < 0 })
	until = since
	for i := range sorted {
		p := &sorted[i]
		switch {
		case !p.Whole || p.From.IsZero():
		case p.From.Compare(until) > 0:
			return until, p.From
		case p.Until.Compare(until) > 0:
			until = p.Until
		}
		if until.Compare(end) >= 0 {
			break
		}
	}
	return until, resourcesync.Datetime{}
}

// Between returns those of docs that may list changes between two instants.
func Between(docs []Archived, from, to resourcesync.Datetime) []Archived {
	return slices.DeleteFunc(slices.Clone(docs), func(d Archived) bool {
		return d.Begins().Compare(to) > 0 && !d.From.IsZero() || !d.Until.IsZero() && d.Until.Compare(from) < 0 && !d.Approx
	})
}

// ReadChangesBetween stages the changes from one instant up to another, both
// included (RA-DST-02), that docs list, which are documents returned by
// [Reader.History]. It sets these fields of the chain: From and Until bound the
// range listed without a gap, with Until at most to; Gap says that this range is
// smaller than requested; Complete is false if a document could not be read, for
// which there is a warning.
func (r *Reader) ReadChangesBetween(ctx context.Context, from, to resourcesync.Datetime, docs []Archived) (Chain, error) {
	r.visited, r.parts, r.named = map[string]bool{}, 0, 0
	r.Stage.Since, r.Stage.Until, r.Stage.Seen = from, to, nil
	past, err := r.ReadPast(ctx, Between(docs, from, to), from, NewEventSearch(nil), &saved.Set{})
	if err != nil {
		return Chain{}, err
	}
	k := Chain{Complete: true, From: from, Polled: map[string]saved.Validators{}}
	for i := range past {
		p := &past[i]
		k.Complete = k.Complete && p.chain.Whole()
		if p.chain.Newest.Compare(k.Newest) > 0 {
			k.Newest, k.Seen = p.chain.Newest, p.chain.Seen
		}
		if p.Current && p.Whole && p.chain.loose && p.From.Compare(to) <= 0 {
			p.Until = to // an open document lists all changes so far
		}
		k.Lists += p.chain.Lists
	}
	k.Until, _ = Covered(past, from, to)
	k.Gap = k.Until.Compare(to) < 0
	return k, nil
}

// Union returns the fingerprints of both slices, sorted, up to the limit of
// remembered events.
func Union(a, b []string) []string {
	a = slices.Concat(a, b)
	slices.Sort(a)
	a = slices.Compact(a)
	return a[:min(len(a), maxSeen)]
}
