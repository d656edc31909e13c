package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// catchUp continues from the watermark with archived changes, if the current
// ones begin after it (RA-DST-04): if they are proven to join without a gap, c
// reaches back to the watermark. It returns why they do not help, as text to
// append to the message about the gap; "" also if they are not needed, or there
// are none. It uses the newest events of state that were read before.
// mayJoin says why archived documents cannot close the gap from the one instant
// to the other if they are of the times the archive says, or returns "": then
// there is no use in reading them.
// maxCatchUp is how many archived documents are read to catch up: beyond that,
// comparing all costs less (RA-DST-05).
const maxCatchUp = 20_000

func gapBetween(kind resourcesync.Capability, until, behind, to resourcesync.Datetime) string {
	if behind.IsZero() {
		behind = to
	}
	return fmt.Sprintf("its archived %ss do not cover the time between %s and %s", archivedName(kind), wording.Time(until.Time()), wording.Time(behind.Time()))
}

func archivedName(kind resourcesync.Capability) string {
	if kind == resourcesync.ChangeDump {
		return "Change Dump"
	}
	return "Change List"
}

// follow has k reach back to where the first of past documents begins: they
// join it without a gap.
func (k *chain) follow(past []pastDoc) {
	k.resumed = false
	for i := range past {
		p := &past[i]
		if !p.whole {
			continue
		}
		if f := p.chain.from; p.chain.lists > 0 && (f.Compare(k.from) < 0 || f.IsZero()) {
			k.from, k.proven = f, p.chain.proven
		} else if p.from.Compare(k.from) < 0 {
			k.from = p.from
		}
		switch cmp := p.chain.newest.Compare(k.newest); {
		case p.chain.newest.IsZero():
		case cmp > 0:
			k.newest, k.seen = p.chain.newest, p.chain.seen
		case cmp == 0:
			k.seen = union(k.seen, p.chain.seen)
		}
		k.lists += p.chain.lists
	}
}

// A pastDoc is the result of reading an archived document of changes.
type pastDoc struct {
	archived
	from, until resourcesync.Datetime // what it covers, by its own word (RA-DOC-10)
	whole       bool                  // all of it was read, and it has no gap
	chain       chain
}

// readPast stages the changes since an instant that documents of the past list,
// reading several documents at a time. It warns of what cannot be read, which
// then covers nothing (RA-DST-08).
func (r *setReader) readPast(ctx context.Context, docs []archived, since resourcesync.Datetime, l *look, state *saved.Set) ([]pastDoc, error) {
	fail := r.fail
	r.fail = func(uri string, err error) {
		r.warn(uri, fmt.Sprintf("archives of set %s: %v; it is left out", r.set.Name, err))
	}
	defer func() { r.fail = fail }()
	past := make([]pastDoc, len(docs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(r.jobs, maxReaders))
	var newest *stage.Latest
	if !r.stage.Versions.Keep { // else every version counts
		newest = stage.NewLatest(r.stage.Until)
	}
	for i := range slices.Backward(docs) {
		if gctx.Err() != nil {
			break
		}
		c := &changeReader{
			setReader: r, since: since, order: placeOf("", i), out: r.stage.Writer(), below: map[string]bool{}, latest: newest,
			state: &saved.Set{SeenTime: state.SeenTime},
			chain: chain{complete: true, polled: map[string]saved.Validators{}, look: l},
		}
		past[i].archived = docs[i]
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

// readArchived reads one document of the past, which may be an index.
func (c *changeReader) readArchived(ctx context.Context, p *pastDoc) error {
	said := resourcesync.Metadata{From: p.archived.from, Until: p.archived.until}
	c.chain.dump = p.kind == resourcesync.ChangeDump
	if err := c.enter(p.uri, 1); err != nil {
		c.spurn(p.uri, err)
		return nil
	}
	doc, err := c.open(ctx, p.uri, saved.Validators{})
	if err != nil {
		if err = c.missing(ctx, p.uri, err, 1, true); err == nil {
			c.tellVanished(p)
		}
		return err
	}
	err = c.readDoc(ctx, doc, said, 1, true)
	if errors.Is(err, errAgain) {
		err = nil // unreachable: it is read as one that is read again
	}
	if err != nil {
		return err
	}
	c.tellVanished(p)
	k := &c.chain
	p.whole = k.whole() && !k.gap
	own := archived{kind: p.kind}
	own.take(&doc.Header)
	own.differs(c.setReader, &p.archived)
	p.chain = *k
	p.cover(&own, doc.Header.Index, time.Now())
	return nil
}

// cover notes what the document covers. One without an end, or with one that is
// yet to come, proves nothing beyond the last event in it (RA-CHG-07,
// RS-AMB-25).
func (p *pastDoc) cover(own *archived, index bool, now time.Time) {
	k := &p.chain
	past := func(d resourcesync.Datetime) resourcesync.Datetime {
		if d.Time().After(now) {
			return resourcesync.Datetime{}
		}
		return d
	}
	p.from, p.until = k.from, past(k.until)
	switch newest := past(k.newest); {
	case k.lists == 0: // nothing happened, or nothing of concern
		p.from, p.until = own.from, past(own.until)
	case k.loose && newest.Compare(p.until) > 0:
		p.until = newest
	}
	// RS-MD-07: nothing happened between the last of its packages and its end. Of
	// an index the lists are right (RS-CHI-10).
	if until := past(own.until); until.Compare(p.until) > 0 && p.kind == resourcesync.ChangeDump && !index {
		p.until = until
	}
}

// tellVanished warns of documents that do not exist.
func (c *changeReader) tellVanished(p *pastDoc) {
	if err := c.chain.vanished; err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fail(p.uri, err)
	}
}

// covered returns up to which instant past documents list all changes since an
// instant: each begins before the one before it ended (RA-CHG-05). It stops at
// end, beyond which nothing is needed, or at the first gap; behind is where the
// history continues after that.
func covered(past []pastDoc, since, end resourcesync.Datetime) (until, behind resourcesync.Datetime) {
	sorted := slices.Clone(past)
	slices.SortStableFunc(sorted, func(a, b pastDoc) int { return a.from.Compare(b.from) })
	until = since
	for i := range sorted {
		p := &sorted[i]
		switch {
		case !p.whole || p.from.IsZero():
		case p.from.Compare(until) > 0:
			return until, p.from
		case p.until.Compare(until) > 0:
			until = p.until
		}
		if until.Compare(end) >= 0 {
			break
		}
	}
	return until, resourcesync.Datetime{}
}

// between returns those of docs that may list changes between two instants.
func between(docs []archived, from, to resourcesync.Datetime) []archived {
	return slices.DeleteFunc(slices.Clone(docs), func(d archived) bool {
		return d.begins().Compare(to) > 0 && !d.from.IsZero() || !d.until.IsZero() && d.until.Compare(from) < 0 && !d.approx
	})
}

// readChangesBetween stages the changes from one instant up to another, both
// included (RA-DST-02), that docs list: documents of [setReader.history]. These
// fields of the chain are set: from and until bound what is listed without a
// gap, until at most to; gap says that this is less than was asked for;
// complete is false if a document could not be read, for which there is a
// warning.
func (r *setReader) readChangesBetween(ctx context.Context, from, to resourcesync.Datetime, docs []archived) (chain, error) {
	r.visited, r.parts, r.named = map[string]bool{}, 0, 0
	r.stage.Since, r.stage.Until, r.stage.Seen = from, to, nil
	past, err := r.readPast(ctx, between(docs, from, to), from, newLook(nil), &saved.Set{})
	if err != nil {
		return chain{}, err
	}
	k := chain{complete: true, from: from, polled: map[string]saved.Validators{}}
	for i := range past {
		p := &past[i]
		k.complete = k.complete && p.chain.whole()
		if p.chain.newest.Compare(k.newest) > 0 {
			k.newest, k.seen = p.chain.newest, p.chain.seen
		}
		if p.current && p.whole && p.chain.loose && p.from.Compare(to) <= 0 {
			p.until = to // it is still growing, and lists all changes so far
		}
		k.lists += p.chain.lists
	}
	k.until, _ = covered(past, from, to)
	k.gap = k.until.Compare(to) < 0
	return k, nil
}

func union(a, b []string) []string {
	a = slices.Concat(a, b)
	slices.Sort(a)
	a = slices.Compact(a)
	return a[:min(len(a), maxSeen)]
}
