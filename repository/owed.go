package repository

import (
	"context"
	"strings"
	"time"

	"lockstep/catalog"
)

// What could not be read when a harvester asked for it was left out, and the
// harvester may never ask for it again. So it is written down, and once it can
// be read it gets a new datestamp, by which harvesters find it.

const (
	owedEvery = 5 * time.Second // how often it is tried, at most
	owedMost  = 100             // how many at a time: each is opened
)

// owe notes that a resource could not be read.
func (x *index) owe(ctx context.Context, uri string) error {
	_, err := x.catalog.Apply(ctx, x.name, []catalog.Update{{Record: catalog.Record{URI: keyOwed + uri, Length: -1}}})
	return err
}

// settle gives those that can be read again a new datestamp. The caller has the
// turn.
func (x *index) settle(ctx context.Context) error {
	now := x.opts.Now()
	if now.Sub(x.settled) < owedEvery {
		return nil
	}
	x.settled = now
	var owed []string
	from := keyOwed
	if x.owed != "" {
		from += x.owed + "\x01" // no URI has a NUL byte
	}
	for r, err := range x.catalog.Resources(ctx, x.name, catalog.Range{From: from, To: keyURI}) {
		if err != nil {
			return err
		}
		if owed = append(owed, strings.TrimPrefix(r.URI, keyOwed)); len(owed) == owedMost {
			break
		}
	}
	if x.owed = ""; len(owed) == owedMost {
		x.owed = owed[owedMost-1] // the others next time
	}
	if len(owed) == 0 {
		return nil
	}
	b := newBatch(x)
	for _, uri := range owed {
		if err := b.settle(ctx, uri); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

func (b *batch) settle(ctx context.Context, uri string) error {
	is, err := b.row(ctx, uri)
	if err != nil {
		return err
	}
	if is == nil || is.Deleted {
		b.drop(keyOwed + uri)
		return nil
	}
	r, ok, err := catalog.Find(ctx, b.x.catalog, b.x.Catalog, uri)
	if err != nil || !ok {
		return err // it was deleted, as the next change says
	}
	prefix, err := b.format(ctx, &r)
	if err != nil || prefix == "" {
		return err
	}
	b.drop(keyOwed + uri)
	b.x.cur.Gone++
	return b.add(ctx, &r, is, spot{At: b.x.mark.At.UnixMicro(), Number: b.x.cur.Gone})
}
