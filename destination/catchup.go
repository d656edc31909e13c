package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/resourcesync"
)

// orderCurrent puts the documents that are current behind those of archives.
const orderCurrent = "\xff"

// A pastDoc is what a reading of an archived document of changes came to.
type pastDoc struct {
	archived
	from, until resourcesync.Datetime // what it covers, by its own word (RA-DOC-10)
	whole       bool                  // all of it was read, and it has no gap
	chain       chain
}

// readPast stages the changes that documents of the past tell of, from since
// on, several documents at a time. What cannot be read is warned of, and covers
// nothing (RA-DST-08).
func (r *setReader) readPast(ctx context.Context, docs []archived, since resourcesync.Datetime, l *look, state *setState) ([]pastDoc, error) {
	fail := r.fail
	r.fail = func(uri string, err error) {
		r.warn(uri, fmt.Sprintf("archives of set %s: %v; it is left out", r.set.Name, err))
	}
	defer func() { r.fail = fail }()
	past := make([]pastDoc, len(docs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(r.d.opts.Jobs, maxReaders))
	for i := range docs {
		if gctx.Err() != nil {
			break
		}
		c := &changeReader{
			setReader: r, since: since, order: placeOf("", i), out: r.stage.writer(),
			state: &setState{SeenTime: state.SeenTime},
			chain: chain{complete: true, polled: map[string]validators{}, look: l},
		}
		past[i].archived = docs[i]
		g.Go(func() error {
			defer r.stage.sorter.release(c.out.out)
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
	doc, err := c.open(ctx, p.uri, validators{})
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
	p.whole = k.complete && !k.gap
	own := archived{kind: p.kind}
	own.take(&doc.Header)
	own.differs(c.setReader, &p.archived)
	p.from, p.until = k.from, k.until
	if k.lists == 0 { // nothing happened, or nothing of concern
		p.from, p.until = own.from, own.closed(time.Now())
	} else if k.loose && k.newest.Compare(p.until) > 0 { // RA-CHG-07
		p.until = k.newest
	}
	p.chain = *k
	return nil
}

// tellVanished warns of what was not there.
func (c *changeReader) tellVanished(p *pastDoc) {
	if err := c.chain.vanished; err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fail(p.uri, err)
	}
}

// covered returns up to where past documents tell of all that happened, from
// since on: each begins before the one before it ended (RA-CHG-05). It stops at
// end, beyond which nobody asks, or at the first gap; behind is where the
// history goes on after that.
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

// between returns those of docs that may tell of changes from the one instant
// to the other.
func between(docs []archived, from, to resourcesync.Datetime) []archived {
	return slices.DeleteFunc(slices.Clone(docs), func(d archived) bool {
		return d.begins().Compare(to) > 0 && !d.from.IsZero() || !d.until.IsZero() && d.until.Compare(from) < 0 && !d.approx
	})
}

// readChangesBetween stages the changes from one instant up to another, both
// included (RA-DST-02), that docs tell of: documents of [setReader.history]. Of
// the chain these count: from and until are what is told of without a gap, to
// at most; gap says that it is not all that was asked for; complete is false
// where a document could not be read, which is warned of.
func (r *setReader) readChangesBetween(ctx context.Context, from, to resourcesync.Datetime, docs []archived) (chain, error) {
	r.visited, r.parts, r.named = map[string]bool{}, 0, 0
	r.stage.since, r.stage.until, r.stage.seen = from, to, nil
	past, err := r.readPast(ctx, between(docs, from, to), from, newLook(nil), &setState{})
	if err != nil {
		return chain{}, err
	}
	k := chain{complete: true, from: from, polled: map[string]validators{}}
	for i := range past {
		p := &past[i]
		k.complete = k.complete && p.chain.complete
		if p.chain.newest.Compare(k.newest) > 0 {
			k.newest, k.seen = p.chain.newest, p.chain.seen
		}
		if p.current && p.whole && p.chain.loose && p.from.Compare(to) <= 0 {
			p.until = to // it grows, and tells of all there is
		}
		k.lists += p.chain.lists
	}
	k.until, _ = covered(past, from, to)
	k.gap = k.until.Compare(to) < 0
	return k, nil
}
