package repository

import (
	"context"
	"strings"
	"time"

	"lockstep/catalog"
)

// A resource that could not be read for a response was left out, and the
// harvester may never request it again; of one that could not be read for the index
// the present format is unknown. Both are therefore recorded here, and get a new
// datestamp once they can be read, so that harvesters find them.

const (
	unreadEvery = 5 * time.Second // minimum time between attempts
	unreadMost  = 100             // resources per attempt: each is opened
)

// addUnread records that a resource could not be read.
func (x *index) addUnread(ctx context.Context, uri string) error {
	_, err := x.catalog.Apply(ctx, x.name, []catalog.Update{{Record: catalog.Record{URI: keyUnread + uri, Length: -1}}})
	return err
}

// settle gives resources that can be read again a new datestamp. The caller has
// the turn.
func (x *index) settle(ctx context.Context) error {
	now := x.opts.Now()
	if now.Sub(x.settled) < unreadEvery {
		return nil
	}
	x.settled = now
	var unread []string
	from := keyUnread
	if x.unread != "" {
		from += x.unread + "\x01" // no URI has a NUL byte
	}
	for r, err := range x.catalog.Resources(ctx, x.name, catalog.Range{From: from, To: keyURI}) {
		if err != nil {
			return err
		}
		if unread = append(unread, strings.TrimPrefix(r.URI, keyUnread)); len(unread) == unreadMost {
			break
		}
	}
	if x.unread = ""; len(unread) == unreadMost {
		x.unread = unread[unreadMost-1] // the others are tried next time
	}
	if len(unread) == 0 {
		return nil
	}
	b := newBatch(x, x.mark.At.UnixMicro())
	for _, uri := range unread {
		if err := b.settle(ctx, uri); err != nil {
			return err
		}
	}
	if len(b.rows) == unreadMost {
		x.settled = time.Time{} // all can be read again: the next request continues
	}
	return b.flush(ctx)
}

func (b *batch) settle(ctx context.Context, uri string) error {
	is, err := b.row(ctx, uri)
	if err != nil {
		return err
	}
	if is == nil || is.Deleted {
		b.updates.drop(keyUnread + uri)
		return nil
	}
	r, ok, err := catalog.Find(ctx, b.x.catalog, b.x.Catalog, uri)
	if err != nil || !ok {
		return err // it was deleted, by a change that follows
	}
	now, unread, err := b.item(ctx, &r, is)
	if err != nil || unread != nil {
		return err
	}
	b.updates.drop(keyUnread + uri)
	now.date(b.fresh())
	return b.replace(ctx, uri, is, now)
}
