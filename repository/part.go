package repository

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

const (
	// maxUnreadable is how many unreadable records a response omits before it
	// fails.
	maxUnreadable = 100

	// maxRounds is how often more items are read for a part that is still empty: a
	// set may be a subset of another.
	maxRounds = 50
)

// part writes the next records of the list and advances it; it returns whether
// more follow.
func (a *answer) part(ctx context.Context, l *listing, sets []*index) (more bool, err error) {
	most := a.opts.Records
	if l.Verb == oaipmh.VerbListIdentifiers {
		most = a.opts.Headers
	}
	unreadable := 0
	more = true
	for range maxRounds {
		if !more || a.resp.out.Begun() {
			break
		}
		var items []place
		if items, err = a.next(ctx, l, sets, most+1); err != nil {
			return false, err
		}
		skip := false
		if more = len(items) > most; more {
			skip = items[most].elsewhere
			items = items[:most]
		}
		full, err := a.putAll(ctx, l, items, &unreadable)
		if err != nil || full {
			return true, err
		}
		if skip {
			if more, err = a.skip(ctx, l, sets); err != nil {
				return false, err
			}
		}
	}
	return more, nil
}

// skip advances a list past items that another set provides; it returns whether
// more follow.
func (a *answer) skip(ctx context.Context, l *listing, sets []*index) (more bool, err error) {
	for range maxRounds {
		items, err := a.next(ctx, l, sets, defaultHeaders)
		if err != nil || len(items) == 0 {
			return false, err
		}
		for i := range items {
			if !items[i].elsewhere {
				return true, nil
			}
			l.In, l.At = items[i].in, items[i].at
		}
	}
	return true, nil
}

// putAll writes records until the part is full.
func (a *answer) putAll(ctx context.Context, l *listing, items []place, unreadable *int) (full bool, err error) {
	there, err := a.look(ctx, l, items)
	if err != nil {
		return false, err
	}
	for i := range items {
		p := &items[i]
		if i > 0 && a.resp.out.Bytes() > pageBytes {
			return true, nil
		}
		if !p.elsewhere {
			ok, err := a.put(ctx, l, p, there[p.index][p.uri])
			if errors.Is(err, errBusy) && a.resp.out.Begun() {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			if !ok {
				*unreadable++
			}
			if *unreadable > maxUnreadable { // as when a disk has failed
				if a.resp.out.Begun() {
					return true, nil
				}
				return false, fmt.Errorf("%w: %s and more", errUnreadable, p.uri)
			}
		}
		l.In, l.At = p.in, p.at
	}
	return false, nil
}

// again repeats a record of a list whose part would be empty, because the
// remaining items have changed and come later, or were provided by another set:
// the schemas do not allow an empty list.
func (a *answer) again(ctx context.Context, l *listing, sets []*index) error {
	rebuild := *l
	rebuild.In, rebuild.At = "", l.From
	items, err := a.next(ctx, &rebuild, sets, 1)
	if err != nil || len(items) == 0 {
		return err
	}
	there, err := a.look(ctx, &rebuild, items)
	if err != nil {
		return err
	}
	_, err = a.put(ctx, &rebuild, &items[0], there[items[0].index][items[0].uri])
	return err
}

// put writes a record. If the record cannot be read now, ok is false, and it is
// recorded for later. r is the resource, nil if it was deleted.
func (a *answer) put(ctx context.Context, l *listing, p *place, r *catalog.Record) (ok bool, err error) {
	rec := p.header()
	if l.Verb == oaipmh.VerbListRecords {
		release, err := a.room(ctx, p, l.Prefix, r)
		if err != nil {
			return false, err
		}
		defer release() // once it is written
		rec, err = p.record(ctx, l.Prefix, r)
		switch {
		case errors.Is(err, errUnreadable):
			a.opts.Logger.WarnContext(ctx, "left out of a harvest", slog.String("set", p.index.Name), slog.String("uri", p.uri), slog.Any("err", err))
			return false, p.index.addUnread(ctx, p.uri)
		case err != nil:
			return false, err
		}
	}
	l.Cursor++
	return true, a.resp.out.Record(&rec)
}

// room waits until one more large document may be in memory, if the record has
// one; release returns its place.
func (a *answer) room(ctx context.Context, item *place, prefix string, r *catalog.Record) (release func(), err error) {
	if r == nil || item.gone || prefix == dublinCore && !item.dublinCore || r.Length >= 0 && r.Length <= largeDocument {
		return func() {}, nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a.large <- struct{}{}:
		return func() { <-a.large }, nil
	case <-late.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
