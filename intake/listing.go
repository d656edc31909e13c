package intake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/intake/internal/listed"
	"lockstep/internal/sleep"
)

// An Origin is an origin that lists its resources in any order, together with the set
// that is kept in step with it.
type Origin struct {
	Name       string // of the origin, for messages
	Catalog    catalog.Catalog
	Set        string
	TempDir    string // for temporary files
	AllowEmpty bool
	Events     Reporter
}

// A Listing is one reading of an origin: the resources that it lists, and the results
// of comparing them with the set.
//
// Order of writes: new and changed resources are applied as they are compared, in the
// order of their URIs; then, if the origin was read to its end without a problem, the
// resources that it no longer lists are deleted. If the process is killed at any
// point, the next Listing continues from the catalog as it is.
type Listing struct {
	*Origin
	Sorter listed.Sorter
	Gone   listed.URIs
	Batch  []catalog.Update

	Tally
	Incomplete atomic.Bool // not all of the list could be read
}

// NewListing begins a reading.
func (l *Origin) NewListing() *Listing {
	return &Listing{Origin: l, Sorter: listed.Sorter{Dir: l.TempDir}, Gone: listed.URIs{Dir: l.TempDir}, Tally: Tally{Reporter: &l.Events, Start: time.Now()}}
}

// Close removes the temporary files.
func (l *Listing) Close() {
	l.Sorter.Close()
	l.Gone.Close()
}

// Illegible reports a piece of the list that could not be read: the resources that
// it names are not known.
func (l *Listing) Illegible(path string, err error) {
	l.Incomplete.Store(true)
	l.Unreadable(path, err)
}

// Compare merges the sorted list with the rows of the set. It calls met for every
// entry listed, with the Token of its row if there is one, and left for every row
// that is not listed.
func (l *Listing) Compare(ctx context.Context, met func(it *listed.Entry, token string, known bool) error, left func(r *Row) error) error {
	rows := ReadRows(ctx, l.Catalog, l.Set, []catalog.Range{{}})
	defer rows.Stop()
	err := l.Sorter.All(ctx, func(it *listed.Entry) error {
		for rows.More() && rows.Row().URI < string(it.URI) {
			if err := left(rows.Row()); err != nil {
				return err
			}
			rows.Next()
		}
		if rows.Err != nil {
			return rows.Err
		}
		token, known := "", rows.More() && rows.Row().URI == string(it.URI)
		if known {
			token = rows.Row().Token
			rows.Next()
		}
		return met(it, token, known)
	})
	for err == nil && rows.More() {
		err = left(rows.Row())
		rows.Next()
	}
	if err == nil {
		err = rows.Err
	}
	return err
}

// Put adds an update to the batch and applies the batch when it is full.
func (l *Listing) Put(ctx context.Context, u catalog.Update) error {
	l.Batch = append(l.Batch, u)
	if len(l.Batch) < BatchRows {
		return nil
	}
	return l.Flush(ctx)
}

// Flush applies the batch.
func (l *Listing) Flush(ctx context.Context) error {
	if len(l.Batch) == 0 {
		return nil
	}
	a, err := l.Catalog.Apply(ctx, l.Set, l.Batch)
	l.Batch = nil // the catalog may keep it
	if err != nil {
		return err
	}
	l.Applied(a)
	return nil
}

// minShrink is how many resources one reading may delete without AllowEmpty, however
// few there were.
const minShrink = 100

// MayDelete refuses to delete all of a set, or most of it, unless AllowEmpty is set:
// a truncated export is more likely than the deletion of so many resources.
func (l *Listing) MayDelete(ctx context.Context) error {
	if l.Gone.Count == 0 || l.AllowEmpty {
		return nil
	}
	st, err := l.Catalog.Status(ctx, l.Set)
	if err != nil {
		return err
	}
	empty := l.Files.Load() == 0 && st.Resources > 0
	if !empty && (l.Gone.Count <= minShrink || l.Gone.Count <= st.Resources/2) {
		return nil
	}
	e := &EmptyError{Root: l.Name, Resources: st.Resources, Listing: true}
	if !empty {
		e.Gone = l.Gone.Count
	}
	return e
}

// Finish deletes the resources in Gone if all of the list could be read.
func (l *Listing) Finish(ctx context.Context) error {
	if l.Gone.Count == 0 {
		return nil
	}
	if l.Incomplete.Load() {
		l.Skipped(l.Name, fmt.Errorf("%d resources that are not listed were not deleted, because a part of the list could not be read", l.Gone.Count))
		return nil
	}
	return l.deleteGone(ctx)
}

// deleteGone deletes the resources in Gone.
func (l *Listing) deleteGone(ctx context.Context) error {
	if err := l.MayDelete(ctx); err != nil {
		return err
	}
	for uri, err := range l.Gone.All() {
		if err == nil {
			err = l.Put(ctx, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		}
		if err != nil {
			return err
		}
	}
	return l.Flush(ctx)
}

// Watch scans at once and then each time due, which waits, returns, until ctx ends;
// then it returns the cause. onChange, which may be nil, is called for every scan that
// changed the catalog, or failed: a database may have committed changes although the
// answer was lost, and the next scan finds nothing to change.
func (l *Origin) Watch(ctx context.Context, scan func(context.Context) (Report, error), due func(context.Context) error, onChange func(Report)) error {
	retry := time.Duration(0)
	for {
		r, err := scan(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.Events.Emit(Event{Kind: EventScanned, Err: err, Report: r})
		if (err != nil || r.Changed()) && onChange != nil {
			onChange(r)
		}
		retry = min(max(2*retry, RetryFirst), RetryMost)
		if err == nil || errors.Is(err, ErrEmpty) { // trying again does not help
			retry = 0
		}
		if sleep.For(ctx, retry) != nil || due(ctx) != nil {
			return context.Cause(ctx)
		}
	}
}

// TakeListed applies the listed entries and adds the resources that are not listed to
// Gone.
func (l *Listing) TakeListed(ctx context.Context) error {
	var token []byte
	err := l.Compare(ctx, func(it *listed.Entry, old string, known bool) error {
		if it.Gone {
			if known {
				return l.Gone.Add(string(it.URI))
			}
			return nil
		}
		l.Files.Add(1)
		token = listed.AppendFingerprint(token[:0], it.Packed)
		if known && string(token) == old {
			l.Unchanged.Add(1)
			return nil
		}
		u, err := it.Update()
		if err != nil {
			return err
		}
		return l.Put(ctx, u)
	}, func(r *Row) error { return l.Gone.Add(r.URI) })
	if err != nil {
		return err
	}
	return l.Flush(ctx)
}
